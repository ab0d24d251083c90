"""Convolutions of volumes (batch, depth, height, width, channels), with gradients of any order.

The filter goes over the volume place by place: what lies under one of its elements in all windows
is one matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.shaping import shape, shape_n
from stepscope.ops.nn.convolution import on_all_axes
from stepscope.ops.nn.windows import (
    lines_of,
    offsets,
    padded,
    refuse_channels_first,
    unpadded,
    windowed_shape,
)
from stepscope.ops.signatures import FLOATS, argument, exactly_rank, limited, one_name, output_of

__all__ = [
    "conv3d", "conv3d_backprop_filter", "conv3d_backprop_filter_v2", "conv3d_transpose",
]  # fmt: skip

_ATTRS = (
    "T: type",
    "strides: list(int)",
    "padding: string",
    "data_format: string = 'NDHWC'",
    "dilations: list(int) = [1, 1, 1, 1, 1]",
)


def _conv_shape(ctx: ShapeContext) -> TensorShape:
    volumes, weights = exactly_rank(ctx.input(0), 5), exactly_rank(ctx.input(1), 5)
    assert volumes.axes is not None
    assert weights.axes is not None
    *sizes, channels, features = weights.axes
    if volumes.axes[4] is not None and channels is not None and volumes.axes[4] != channels:
        raise ValueError(
            f"Dimensions must be equal, but are {volumes.axes[4]} and {channels}: the channels of "
            "the volumes and of the filter"
        )
    known = [n for n in sizes if n is not None]
    if len(known) < 3:
        return TensorShape((volumes.axes[0], None, None, None, features))
    return windowed_shape(ctx, volumes, known, features)


def _conv_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, weights: Array) -> Array:
        axes = lines_of(node, x.shape[1:-1], weights.shape[:3])
        around = padded(x, *axes)
        counts = (axis.count or 0 for axis in axes)
        result = np.zeros((x.shape[0], *counts, weights.shape[4]), x.dtype)
        for place, where in offsets(*axes):
            result += around[where] @ weights[place]
        return result

    return Kernel(call, threaded=True)


register(
    "Conv3D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=limited(_conv_shape, FLOATS),
    kernel=_conv_kernel,
)


def _sized_by(index: int) -> Any:
    return lambda ctx: ctx.constant_as_shape(index).merge_with(TensorShape((None,) * 5))


def _to_input_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(sizes: Array, weights: Array, grad: Array) -> Array:
        count, *lengths, depth = (int(n) for n in sizes)
        axes = lines_of(node, lengths, weights.shape[:3])
        around = [n + a.before + a.after for n, a in zip(lengths, axes, strict=True)]
        full = np.zeros((count, *around, depth), grad.dtype)
        for place, where in offsets(*axes):
            full[where] += grad @ weights[place].T
        return np.ascontiguousarray(unpadded(full, axes, lengths))

    return Kernel(call, threaded=True)


register(
    "Conv3DBackpropInputV2",
    inputs=("input_sizes: Tshape", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(*_ATTRS, "Tshape: type = int32"),
    shape=_sized_by(0),
    kernel=_to_input_kernel,
)


def _to_filter_kernel(node: KernelNode) -> Kernel:
    refuse_channels_first(node)

    def call(x: Array, sizes: Array, grad: Array) -> Array:
        wanted = tuple(int(n) for n in sizes)
        axes = lines_of(node, x.shape[1:-1], wanted[:3])
        around, slopes = padded(x, *axes), grad.reshape(-1, wanted[4])
        result = np.empty(wanted, x.dtype)
        for place, where in offsets(*axes):
            np.dot(around[where].reshape(-1, wanted[3]).T, slopes, result[place])
        return result

    return Kernel(call, threaded=True)


register(
    "Conv3DBackpropFilterV2",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_sized_by(1),
    kernel=_to_filter_kernel,
)


# -- gradients ---------------------------------------------------------------------------------


def _like(op: Operation) -> dict[str, Any]:
    return {n: op.get_attr(n) for n in ("strides", "padding", "data_format", "dilations")}


def _to_input(op: Operation, sizes: Tensor, weights: Tensor, grad: Tensor) -> Tensor:
    return output_of("Conv3DBackpropInputV2", sizes, weights, grad, **_like(op))


def _to_filter(op: Operation, x: Tensor, sizes: Tensor, grad: Tensor) -> Tensor:
    return output_of("Conv3DBackpropFilterV2", x, sizes, grad, **_like(op))


@gradient("Conv3D")
def _conv_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    x, weights = op.inputs
    of_x, of_weights = shape_n([x, weights])
    return [_to_input(op, of_x, weights, grad), _to_filter(op, x, of_weights, grad)]


@gradient("Conv3DBackpropInputV2")
def _to_input_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    _sizes, weights, before = op.inputs
    again = output_of("Conv3D", grad, weights, **_like(op))
    return [None, _to_filter(op, grad, shape(weights), before), again]


@gradient("Conv3DBackpropFilterV2")
def _to_filter_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, _sizes, before = op.inputs
    again = output_of("Conv3D", x, grad, **_like(op))
    return [_to_input(op, shape(x), grad, before), None, again]


# -- functions ---------------------------------------------------------------------------------


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Volumes filtered by (depth, height, width, channels, features).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     volumes, weights = tf.zeros([2, 8, 8, 8, 1]), tf.zeros([3, 3, 3, 1, 16])
    ...     print(tf.nn.conv3d(volumes, weights, [1, 2, 2, 2, 1], "SAME").shape)
    (2, 4, 4, 4, 16)
    """
    return output_of(
        "Conv3D", input, one_name("filters", filters, "filter", filter),
        strides=on_all_axes(strides, 3, "strides"), padding=padding,
        data_format=data_format or "NDHWC", dilations=on_all_axes(dilations, 3, "dilations"),
        name=name,
    )  # fmt: skip


def conv3d_transpose(
    value: Any,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The gradient of `conv3d`, as a layer: volumes grow by the strides.

    The filter is (depth, height, width, features, channels); `output_shape` says all five axes.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     volumes, weights = tf.zeros([2, 4, 4, 4, 16]), tf.zeros([3, 3, 3, 1, 16])
    ...     print(tf.nn.conv3d_transpose(volumes, weights, [2, 8, 8, 8, 1], 2).shape)
    (2, 8, 8, 8, 1)
    """
    weights = one_name("filters", filters, "filter", filter)
    volumes = value if input is None else input
    with name_scope(name, "conv3d_transpose", [volumes, weights, output_shape]) as scope:
        return output_of(
            "Conv3DBackpropInputV2", argument(output_shape, "input_sizes"),
            argument(weights, "filter"), argument(volumes, "out_backprop"),
            strides=on_all_axes(strides, 3, "strides"), padding=padding,
            data_format=data_format or "NDHWC", dilations=on_all_axes(dilations, 3, "dilations"),
            name=scope,
        )  # fmt: skip


def conv3d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """What slopes of the outputs of `conv3d` are to its filter.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     volumes, slopes = tf.zeros([2, 4, 4, 4, 3]), tf.zeros([2, 4, 4, 4, 5])
    ...     print(tf.nn.conv3d_backprop_filter(volumes, [3, 3, 3, 3, 5], slopes, 1, "SAME").shape)
    (3, 3, 3, 3, 5)
    """
    return output_of(
        "Conv3DBackpropFilterV2", input, filter_sizes, out_backprop,
        strides=on_all_axes(strides, 3, "strides"), padding=padding, data_format=data_format,
        dilations=on_all_axes(dilations, 3, "dilations"), name=name,
    )  # fmt: skip


conv3d_backprop_filter_v2 = conv3d_backprop_filter
