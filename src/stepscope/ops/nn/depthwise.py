"""Depthwise convolutions, where each channel has filters of its own, and separable ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import Array, int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.shaping import shape
from stepscope.ops.cores import spread
from stepscope.ops.nn.convolution import conv2d, paddings
from stepscope.ops.nn.windows import (
    lines_of,
    offsets,
    padded,
    refuse_channels_first,
    unpadded,
    windowed_shape,
)
from stepscope.ops.signatures import FLOATS, exactly_rank, limited, merge_dims, one_name, output_of

__all__ = [
    "depthwise_conv2d",
    "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter",
    "depthwise_conv2d_native_backprop_input",
    "separable_conv2d",
]


def _exact(dtype: Any) -> Any:
    """What sums are taken in: halves lose too much."""
    return np.float32 if dtype == np.float16 else dtype


def _check_depth(depth: int, weights: tuple[int, ...]) -> None:
    if depth != weights[2]:
        raise InvalidArgumentError.without_op(
            f"input and filter must have the same depth: {depth} vs {weights[2]}"
        )


# -- DepthwiseConv2dNative ---------------------------------------------------------------------


def _shape(ctx: ShapeContext) -> TensorShape:
    images, weights = exactly_rank(ctx.input(0), 4), exactly_rank(ctx.input(1), 4)
    assert images.axes is not None
    assert weights.axes is not None
    high, wide, channels, each = weights.axes
    channels = merge_dims(images.axes[3], channels)
    depth = None if channels is None or each is None else channels * each
    if high is None or wide is None:
        return TensorShape((images.axes[0], None, None, depth))
    return windowed_shape(ctx, images, (high, wide), depth)


def _kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, weights: Array) -> Array:
        _check_depth(x.shape[3], weights.shape)
        high, wide = lines_of(node, x.shape[1:3], weights.shape[:2])
        around, exact = padded(x, high, wide)[..., None], _exact(x.dtype)
        out = np.zeros((len(x), high.count or 0, wide.count or 0, *weights.shape[2:]), exact)

        def one(image: int) -> None:
            some = slice(image, image + 1)
            for (i, j), where in offsets(high, wide):
                out[some] += around[some][where] * weights[i, j].astype(exact, copy=False)

        spread(range(len(x)), one)
        return out.reshape(*out.shape[:3], -1).astype(x.dtype, copy=False)

    return Kernel(call, spreads=True)


_ATTRS = (
    "T: type",
    "strides: list(int)",
    "padding: string",
    "explicit_paddings: list(int) = []",
    "data_format: string = 'NHWC'",
    "dilations: list(int) = [1, 1, 1, 1]",
)
register(
    "DepthwiseConv2dNative",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=limited(_shape, FLOATS),
    kernel=_kernel,
)

# -- the way back ------------------------------------------------------------------------------


def _to_input_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(sizes: Array, weights: Array, grad: Array) -> Array:
        count, height, width, depth = (int(n) for n in sizes)
        _check_depth(depth, weights.shape)
        high, wide = lines_of(node, (height, width), weights.shape[:2])
        exact = _exact(grad.dtype)
        slopes = grad.reshape(*grad.shape[:3], depth, -1)
        full = np.zeros(
            (count, height + high.before + high.after, width + wide.before + wide.after, depth),
            exact,
        )

        def one(image: int) -> None:
            some = slice(image, image + 1)
            for (i, j), where in offsets(high, wide):
                products = slopes[some] * weights[i, j].astype(exact, copy=False)
                full[some][where] += products.sum(axis=-1)

        spread(range(count), one)
        inner = unpadded(full, (high, wide), (height, width))
        return np.ascontiguousarray(inner).astype(grad.dtype, copy=False)

    return Kernel(call, spreads=True)


def _to_filter_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, sizes: Array, grad: Array) -> Array:
        wanted = tuple(int(n) for n in sizes)
        _check_depth(x.shape[3], wanted)
        high, wide = lines_of(node, x.shape[1:3], wanted[:2])
        exact = _exact(x.dtype)
        around = padded(x, high, wide).astype(exact, copy=False)
        slopes = grad.reshape(*grad.shape[:3], *wanted[2:]).astype(exact, copy=False)
        out = np.zeros(wanted, exact)
        for (i, j), where in offsets(high, wide):
            np.einsum("nhwc,nhwcm->cm", around[where], slopes, out=out[i, j])
        return out.astype(x.dtype, copy=False)

    return Kernel(call)


def _sized_by(index: int) -> Any:
    return lambda ctx: ctx.constant_as_shape(index).merge_with(TensorShape((None,) * 4))


register(
    "DepthwiseConv2dNativeBackpropInput",
    inputs=("input_sizes: int32", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_sized_by(0),
    kernel=_to_input_kernel,
)
register(
    "DepthwiseConv2dNativeBackpropFilter",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_sized_by(1),
    kernel=_to_filter_kernel,
)


def _again(op: Operation, kind: str, *inputs: Any) -> Tensor:
    names = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
    attrs = {name: op.get_attr(name) for name in names}
    return output_of(f"DepthwiseConv2dNative{kind}", *inputs, **attrs)


@gradient("DepthwiseConv2dNative")
def _gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, weights = op.inputs
    return [
        _again(op, "BackpropInput", shape(x), weights, grad),
        _again(op, "BackpropFilter", x, shape(weights), grad),
    ]


@gradient("DepthwiseConv2dNativeBackpropInput")
def _to_input_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    _sizes, weights, before = op.inputs
    to_filter = _again(op, "BackpropFilter", grad, shape(weights), before)
    return [None, to_filter, _again(op, "", grad, weights)]


@gradient("DepthwiseConv2dNativeBackpropFilter")
def _to_filter_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, _sizes, before = op.inputs
    return [_again(op, "BackpropInput", shape(x), grad, before), None, _again(op, "", x, grad)]


# -- functions ---------------------------------------------------------------------------------


def depthwise_conv2d_native(
    input: Any, filter: Any, strides: Any, padding: Any,
    data_format: str | None = "NHWC", dilations: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Images whose every channel is filtered by filters of its own, as one node."""
    padding, explicit = paddings(padding, "depthwise_conv2d")
    return output_of(
        "DepthwiseConv2dNative", input, filter, strides=list(strides), padding=padding,
        explicit_paddings=explicit, data_format=data_format or "NHWC",
        dilations=list(dilations or [1, 1, 1, 1]), name=name,
    )  # fmt: skip


def depthwise_conv2d_native_backprop_input(
    input_sizes: Any, filter: Any, out_backprop: Any, strides: Any, padding: Any,
    data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1), name: str | None = None,
) -> Tensor:  # fmt: skip
    """The gradient of a depthwise convolution for its images, of shape `input_sizes`."""
    padding, explicit = paddings(padding, "depthwise_conv2d_native_backprop_input")
    return output_of(
        "DepthwiseConv2dNativeBackpropInput", input_sizes, filter, out_backprop,
        strides=list(strides), padding=padding, explicit_paddings=explicit,
        data_format=data_format, dilations=list(dilations), name=name,
    )  # fmt: skip


def depthwise_conv2d_native_backprop_filter(
    input: Any, filter_sizes: Any, out_backprop: Any, strides: Any, padding: Any,
    data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1), name: str | None = None,
) -> Tensor:  # fmt: skip
    """The gradient of a depthwise convolution for its filter, of shape `filter_sizes`."""
    padding, explicit = paddings(padding, "depthwise_conv2d_native_backprop_filter")
    return output_of(
        "DepthwiseConv2dNativeBackpropFilter", input, filter_sizes, out_backprop,
        strides=list(strides), padding=padding, explicit_paddings=explicit,
        data_format=data_format, dilations=list(dilations), name=name,
    )  # fmt: skip


def _undilated(rate: Any, weights: Tensor, what: str) -> None:
    """The nodes TensorFlow makes for the rate; UnimplementedError for one that is not 1."""
    rates = [1, 1] if rate is None else [int(n) for n in np.atleast_1d(np.asarray(rate))]
    if any(n != 1 for n in rates):
        raise UnimplementedError.without_op(
            f"{what}: rate {rates} was asked for; depthwise filters have no gaps here (rate 1)."
        )
    shape(weights)
    convert_to_tensor(rates, int32, "dilation_rate")


def depthwise_conv2d(
    input: Any, filter: Any, strides: Any, padding: Any, rate: Any = None,
    name: str | None = None, data_format: str | None = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """Images whose every channel is filtered by (height, width, channels, filters per channel).

    The result has channels times filters per channel features.
    """
    rate = one_name("dilations", dilations, "rate", rate)
    with name_scope(name, "depthwise", [input, filter]) as scope:
        images = convert_to_tensor(input, None, "tensor_in")
        weights = convert_to_tensor(filter, None, "filter_in")
        _undilated(rate, weights, "depthwise_conv2d")
        return depthwise_conv2d_native(images, weights, strides, padding, data_format, name=scope)


def separable_conv2d(
    input: Any, depthwise_filter: Any, pointwise_filter: Any, strides: Any, padding: Any,
    rate: Any = None, name: str | None = None, data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:  # fmt: skip
    """A depthwise convolution, then one by a filter of a single point that mixes its features."""
    rate = one_name("dilations", dilations, "rate", rate)
    given = [input, depthwise_filter, pointwise_filter]
    with name_scope(name, "separable_conv2d", given) as scope:
        images = convert_to_tensor(input, None, "tensor_in")
        weights = convert_to_tensor(depthwise_filter, None, "depthwise_filter")
        point = convert_to_tensor(pointwise_filter, None, "pointwise_filter")
        axes = exactly_rank(point.shape, 4).axes or ()
        if any(n not in (None, 1) for n in axes[:2]):
            raise ValueError(f"pointwise_filter has to be 1 high and 1 wide, not {axes[:2]}.")
        _undilated(rate, weights, "separable_conv2d")
        depthwise = depthwise_conv2d_native(
            images, weights, strides, padding, data_format, name="depthwise"
        )
        return conv2d(
            depthwise, point, [1, 1, 1, 1], "VALID", data_format=data_format or "NHWC", name=scope
        )
