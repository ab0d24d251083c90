"""Two-dimensional convolutions, as one matrix product over all windows of all images."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.shaping import shape
from stepscope.ops.signatures import FLOATS, exactly_rank, limited, merge_dims, one_name, output_of
from stepscope.ops.windows import (
    Line,
    lines_of,
    offsets,
    padded,
    refuse_channels_first,
    unpadded,
    windowed_shape,
)

_FLOPS_PER_NS = 10.0


def _columns(x: Array, high: Line, wide: Line) -> Array:
    """All windows as rows: (images * windows, window * channels)."""
    x = padded(x, high, wide)
    count, _, _, depth = x.shape
    rows = count * (high.count or 0) * (wide.count or 0)
    if high.size == wide.size == high.stride == wide.stride == 1:
        return x.reshape(rows, depth)
    image, down, right, channel = x.strides
    view = np.lib.stride_tricks.as_strided(
        x,
        (count, high.count or 0, wide.count or 0, high.size, wide.size, depth),
        (image, down * high.stride, right * wide.stride, down * high.dilation,
         right * wide.dilation, channel),
        writeable=False,
    )  # fmt: skip
    return view.reshape(rows, high.size * wide.size * depth)


def _check_depth(x: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    if x[3] != kernel[2]:
        raise InvalidArgumentError(
            None, None,
            f"input depth must be evenly divisible by filter depth: {x[3]} vs {kernel[2]}",
        )  # fmt: skip


def _cost(filter_shape: TensorShape, windows: TensorShape) -> float | None:
    weights, places = filter_shape.num_elements(), windows[:-1].num_elements()
    return None if weights is None or places is None else 2.0 * weights * places / _FLOPS_PER_NS


# -- Conv2D ------------------------------------------------------------------------------------


def _conv_shape(ctx: ShapeContext) -> TensorShape:
    images, weights = exactly_rank(ctx.input(0), 4), exactly_rank(ctx.input(1), 4)
    assert images.axes is not None
    assert weights.axes is not None
    merge_dims(images.axes[3], weights.axes[2])
    high, wide, _, depth = weights.axes
    if high is None or wide is None:
        return TensorShape((images.axes[0], None, None, depth))
    return windowed_shape(ctx, images, (high, wide), depth)


def _conv_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, weights: Array, out: Array | None = None) -> Array:
        _check_depth(x.shape, weights.shape)
        high, wide = lines_of(node, x.shape[1:3], weights.shape[:2])
        depth = weights.shape[3]
        result = (x.shape[0], high.count or 0, wide.count or 0, depth)
        if out is None:
            out = np.empty(result, x.dtype)
        columns = _columns(x, high, wide)
        np.dot(columns, weights.reshape(-1, depth), out.reshape(-1, depth))
        return out

    cost = _cost(node.input_shapes[1], node.output_shapes[0])
    return Kernel(call, out="keyword", cost_ns=cost)


_ATTRS = (
    "T: type",
    "strides: list(int)",
    "use_cudnn_on_gpu: bool = true",
    "padding: string",
    "explicit_paddings: list(int) = []",
    "data_format: string = 'NHWC'",
    "dilations: list(int) = [1, 1, 1, 1]",
)
register(
    "Conv2D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=limited(_conv_shape, FLOATS),
    kernel=_conv_kernel,
)

# -- the way back ------------------------------------------------------------------------------


def _to_input_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(sizes: Array, weights: Array, grad: Array) -> Array:
        count, height, width, depth = (int(n) for n in sizes)
        high, wide = lines_of(node, (height, width), weights.shape[:2])
        window = (high.size, wide.size, depth)
        features = weights.shape[3]
        columns = np.dot(grad.reshape(-1, features), weights.reshape(-1, features).T)
        places = columns.reshape(count, high.count or 0, wide.count or 0, *window)
        full = np.zeros(
            (count, height + high.before + high.after, width + wide.before + wide.after, depth),
            grad.dtype,
        )
        for i, j, where in offsets(high, wide):
            full[where] += places[:, :, :, i, j]
        result = unpadded(full, high, wide, height, width)
        return result if result is full else np.ascontiguousarray(result)

    cost = _cost(node.input_shapes[1], node.input_shapes[2])
    return Kernel(call, cost_ns=cost)


def _to_filter_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, sizes: Array, grad: Array, out: Array | None = None) -> Array:
        wanted = tuple(int(n) for n in sizes)
        high, wide = lines_of(node, x.shape[1:3], wanted[:2])
        if out is None:
            out = np.empty(wanted, x.dtype)
        columns = _columns(x, high, wide)
        np.dot(columns.T, grad.reshape(-1, wanted[3]), out.reshape(-1, wanted[3]))
        return out

    cost = _cost(node.output_shapes[0], node.input_shapes[2])
    return Kernel(call, out="keyword", cost_ns=cost)


def _sized_by(index: int) -> Any:
    return lambda ctx: ctx.constant_as_shape(index).merge_with(TensorShape((None,) * 4))


register(
    "Conv2DBackpropInput",
    inputs=("input_sizes: int32", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_sized_by(0),
    kernel=_to_input_kernel,
)
register(
    "Conv2DBackpropFilter",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_sized_by(1),
    kernel=_to_filter_kernel,
)


def _like(op: Operation) -> dict[str, Any]:
    names = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
    return {name: op.get_attr(name) for name in names}


def _to_input(op: Operation, sizes: Tensor, weights: Tensor, grad: Tensor) -> Tensor:
    return output_of("Conv2DBackpropInput", sizes, weights, grad, **_like(op))


def _to_filter(op: Operation, x: Tensor, sizes: Tensor, grad: Tensor) -> Tensor:
    return output_of("Conv2DBackpropFilter", x, sizes, grad, **_like(op))


@gradient("Conv2D")
def _conv_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, weights = op.inputs
    return [_to_input(op, shape(x), weights, grad), _to_filter(op, x, shape(weights), grad)]


@gradient("Conv2DBackpropInput")
def _to_input_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    _sizes, weights, before = op.inputs
    again = output_of("Conv2D", grad, weights, **_like(op))
    return [None, _to_filter(op, grad, shape(weights), before), again]


@gradient("Conv2DBackpropFilter")
def _to_filter_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, _sizes, before = op.inputs
    again = output_of("Conv2D", x, grad, **_like(op))
    return [_to_input(op, shape(x), grad, before), None, again]


# -- functions ---------------------------------------------------------------------------------


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Images (batch, height, width, channels) filtered by (height, width, channels, features).

    `padding` is "SAME", "VALID" or the padding before and after each axis.
    """
    weights = one_name("filters", filters, "filter", filter)
    explicit: list[int] = []
    if not isinstance(padding, str):
        if padding is None:
            raise ValueError("conv2d needs a padding: 'SAME', 'VALID' or a list.")
        explicit, padding = [int(n) for pair in padding for n in pair], "EXPLICIT"
    images = convert_to_tensor(input)
    return output_of(
        "Conv2D",
        images,
        weights,
        strides=four(strides, "strides"),
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit,
        data_format=data_format or "NHWC",
        dilations=four(dilations, "dilations"),
        name=name,
    )


def four(value: Any, what: str) -> list[int]:
    """One number for height and width, two, or all four axes, as all four."""
    if value is None:
        return [1, 1, 1, 1]
    given = [int(n) for n in np.atleast_1d(np.asarray(value))]
    if len(given) == 1:
        given *= 2
    if len(given) == 2:
        given = [1, *given, 1]
    if len(given) != 4:
        raise ValueError(f"{what} must be of length 1, 2 or 4 but was {len(given)}")
    return given
