"""Batch normalisation as one node: values, moments and running averages, and the way back.

The three versions differ in their outputs and in which types they take; the arithmetic is the same.
Moments are computed in single precision whatever the type of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape
from stepscope.ops.arrays import conversion, shaping
from stepscope.ops.flow.gradients import gradients
from stepscope.ops.math import reductions, unary
from stepscope.ops.signatures import exactly_rank, limited, merge_dims

_VERSIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_VALUES = {"FusedBatchNorm": (dt.float32,)}
_ANY_VALUES = (dt.float16, dt.float32)


def _channels_first(data_format: bytes) -> bool:
    return data_format.startswith(b"NC")


def _rank(data_format: bytes) -> int:
    return len(data_format)


def _channel_axis(data_format: bytes) -> int:
    return 1 if _channels_first(data_format) else _rank(data_format) - 1


def _channels_of(ctx: ShapeContext, values: TensorShape, vectors: Sequence[int]) -> int | None:
    """The number of channels that the values and all these inputs, vectors, agree on."""
    assert values.axes is not None
    channels = values.axes[_channel_axis(ctx.attr("data_format"))]
    for index in vectors:
        (length,) = exactly_rank(ctx.input(index), 1).axes or (None,)
        channels = merge_dims(channels, length)
    return channels


class _Layout:
    """Images of one shape as rows of channels, and back."""

    def __init__(self, data_format: bytes) -> None:
        self._moved = _channels_first(data_format)

    def rows(self, x: Array) -> Array:
        x = np.moveaxis(x, 1, -1) if self._moved else x
        return np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])

    def images(self, rows: Array, like: Array) -> Array:
        if not self._moved:
            return rows.reshape(like.shape).astype(like.dtype, copy=False)
        shape = (like.shape[0], *like.shape[2:], like.shape[1])
        moved = np.moveaxis(rows.reshape(shape), -1, 1)
        return np.ascontiguousarray(moved, like.dtype)


def _column_sums(rows: Array) -> Array:
    # One row of ones times the matrix: BLAS sums in blocks, which is faster and more exact.
    sums: Array = np.dot(np.ones(len(rows), np.float32), rows)
    return sums


# -- forward -----------------------------------------------------------------------------------


def _forward_shape(ctx: ShapeContext) -> list[TensorShape]:
    values = exactly_rank(ctx.input(0), _rank(ctx.attr("data_format")))
    vectors = (1, 2) if ctx.attr("is_training") else (1, 2, 3, 4)
    channels = _channels_of(ctx, values, vectors)
    assert values.axes is not None
    axes = list(values.axes)
    axes[_channel_axis(ctx.attr("data_format"))] = channels
    shapes = [TensorShape(axes), *[TensorShape((channels,))] * 4]
    return [*shapes, UNKNOWN] if ctx.op_type.endswith("V3") else shapes


def _forward_kernel(node: KernelNode) -> Kernel:
    layout = _Layout(node.attr("data_format"))
    training, factor = bool(node.attr("is_training")), np.float32(1)
    epsilon = np.float32(node.attr("epsilon"))
    if "exponential_avg_factor" in node.op.op_type.attrs:
        factor = np.float32(node.attr("exponential_avg_factor"))
    reserve = (np.zeros((), np.float32),) if node.op.type.endswith("V3") else ()

    def running(old: Array, new: Array) -> Array:
        if factor == 1:
            return new.copy()
        if old.shape != new.shape:
            raise InvalidArgumentError.without_op(
                f"with exponential_avg_factor={factor:g} the running mean and variance are inputs "
                f"of {new.shape[0]} channels; found {old.shape}",
            )
        return np.asarray((1 - factor) * old + factor * new)

    def train(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Any:
        rows = layout.rows(x)
        count = len(rows)
        if not rows.size:
            unknown = np.full(scale.shape, np.nan, np.float32)
            return (np.empty_like(x), *(unknown.copy() for _ in range(4)), *reserve)
        found = _column_sums(rows) / np.float32(count)
        centred = rows - found
        spread = _column_sums(np.square(centred)) / np.float32(count)
        np.multiply(centred, scale / np.sqrt(spread + epsilon), out=centred)
        np.add(centred, offset, out=centred)
        unbiased = spread * np.float32(count / max(count - 1, 1))
        averages = running(mean, found), running(variance, unbiased)
        return (layout.images(centred, x), *averages, found, spread, *reserve)

    def infer(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Any:
        rows = layout.rows(x)
        result = (rows - mean) * (scale / np.sqrt(variance + epsilon)) + offset
        kept = (mean.copy(), variance.copy(), mean.copy(), variance.copy())
        return (layout.images(result, x), *kept, *reserve)

    return Kernel(train if training else infer)


_OPTIONS = (
    "epsilon: float = 0.0001",
    "exponential_avg_factor: float = 1.0",
    "data_format: string = 'NHWC'",
    "is_training: bool = true",
)
for _name in _VERSIONS:
    _plain = _name == "FusedBatchNorm"
    _u = "T" if _plain else "U"
    register(
        _name,
        inputs=("x: T", f"scale: {_u}", f"offset: {_u}", f"mean: {_u}", f"variance: {_u}"),
        outputs=(
            "y: T", f"batch_mean: {_u}", f"batch_variance: {_u}",
            f"reserve_space_1: {_u}", f"reserve_space_2: {_u}",
            *([f"reserve_space_3: {_u}"] if _name.endswith("V3") else []),
        ),
        attrs=("T: type", *([] if _plain else ["U: type"]), *_OPTIONS),
        shape=limited(_forward_shape, _VALUES.get(_name, _ANY_VALUES)),
        kernel=_forward_kernel,
    )  # fmt: skip


# -- the way back ------------------------------------------------------------------------------


def _backward_shape(ctx: ShapeContext) -> list[TensorShape]:
    values = exactly_rank(ctx.input(1), _rank(ctx.attr("data_format")))
    channels = _channels_of(ctx, values, (2, 3, 4))
    assert values.axes is not None
    axes = list(values.axes)
    axes[_channel_axis(ctx.attr("data_format"))] = channels
    vector, nothing = TensorShape((channels,)), TensorShape((0,))
    return [TensorShape(axes), vector, vector, nothing, nothing]


def _backward_kernel(node: KernelNode) -> Kernel:
    layout = _Layout(node.attr("data_format"))
    training = bool(node.attr("is_training"))
    epsilon = np.float32(node.attr("epsilon"))
    nothing = np.empty(0, np.float32)

    def back(grad: Array, x: Array, scale: Array, mean: Array, variance: Array, *_: Any) -> Any:
        flow = layout.rows(grad)
        centred = layout.rows(x) - mean
        inverse = np.float32(1) / np.sqrt(variance + epsilon)
        to_offset = _column_sums(flow)
        products = _column_sums(flow * centred)
        to_scale = products * inverse
        if training and len(flow):
            count = np.float32(len(flow))
            centred *= products / count * np.square(inverse)
            flow = flow - to_offset / count - centred
        to_x = flow * (scale * inverse)
        return layout.images(to_x, x), to_scale, to_offset, nothing.copy(), nothing.copy()

    return Kernel(back)


for _name in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"):
    _plain = _name == "FusedBatchNormGrad"
    _u, _scale = ("T", "T") if _plain else ("U", "float32")
    register(
        _name,
        inputs=(
            "y_backprop: T", "x: T", f"scale: {_scale}",
            f"reserve_space_1: {_u}", f"reserve_space_2: {_u}",
            *([f"reserve_space_3: {_u}"] if _name.endswith("V3") else []),
        ),
        outputs=(
            "x_backprop: T", f"scale_backprop: {_u}", f"offset_backprop: {_u}",
            f"reserve_space_{3 + _name.endswith('V3')}: {_u}",
            f"reserve_space_{4 + _name.endswith('V3')}: {_u}",
        ),
        attrs=(
            "T: type", *([] if _plain else ["U: type"]),
            *[option for option in _OPTIONS if not option.startswith("exponential")],
        ),
        shape=limited(_backward_shape, (dt.float32,) if _plain else _ANY_VALUES),
        kernel=_backward_kernel,
    )  # fmt: skip

_TO_LAST = {b"NCHW": (0, 2, 3, 1), b"NCDHW": (0, 2, 3, 4, 1)}
_TO_FIRST = {b"NCHW": (0, 3, 1, 2), b"NCDHW": (0, 4, 1, 2, 3)}


@gradient(*_VERSIONS)
def _forward_gradient(op: Operation, grad: Tensor, *_: Tensor) -> list[Tensor | None]:
    x, scale, _offset, mean, variance = op.inputs
    wire = op.get_attr("data_format")
    training = op.get_attr("is_training")
    moved = not training and wire in _TO_LAST
    if training:
        mean, variance = op.outputs[3], op.outputs[4]
    elif moved:
        x, grad = shaping.transpose(x, _TO_LAST[wire]), shaping.transpose(grad, _TO_LAST[wire])
    to_x, to_scale, to_offset, *_rest = apply_op(
        op.type.replace("Norm", "NormGrad"), grad, x, scale, mean, variance,
        *([op.outputs[5]] if op.type.endswith("V3") else []),
        epsilon=op.get_attr("epsilon"),
        data_format={b"NCHW": b"NHWC", b"NCDHW": b"NDHWC"}[wire] if moved else wire,
        is_training=training,
    ).values()  # fmt: skip
    if moved:
        to_x = shaping.transpose(to_x, _TO_FIRST[wire])
    return [to_x, to_scale, to_offset, None, None]


@gradient("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _backward_gradient(op: Operation, *grads: Tensor) -> list[Any]:
    """The formula of the node written out in other ops, and gradients through those."""
    flow, x, scale, mean, variance = op.inputs[:5]
    pieces = _written_out(op, flow, x, scale, mean, variance)
    found = gradients(pieces, [flow, x, scale], list(grads[:3]))
    return [*found, *[None] * (len(op.inputs) - 3)]


def _written_out(
    op: Operation, flow: Tensor, x: Tensor, scale: Tensor, mean: Tensor, variance: Tensor
) -> list[Tensor]:
    wire, kind = op.get_attr("data_format"), x.dtype.base_dtype
    axis, rank = _channel_axis(wire), _rank(wire)
    others = [n for n in range(rank) if n != axis]
    channels = [-1 if n == axis else 1 for n in range(rank)]
    x, flow = conversion.cast(x, dt.float32), conversion.cast(flow, dt.float32)
    epsilon = op.get_attr("epsilon")
    training = op.get_attr("is_training")
    if training:
        middle = reductions.reduce_mean(x, others, True)
        centred: Any = x - middle
        spread = reductions.reduce_mean(unary.square(centred), others, True)
    else:
        centred = x - shaping.reshape(mean, channels)
        spread = shaping.reshape(variance, channels)
    inverse: Any = unary.rsqrt(spread + epsilon)
    wide: Any = shaping.reshape(scale, channels)
    to_scale = reductions.reduce_sum(flow * centred * inverse, others)
    to_offset = reductions.reduce_sum(flow, others)
    if training:
        average: Any = reductions.reduce_mean(flow * centred, others, True)
        flow = flow - reductions.reduce_mean(flow, others, True) - (
            centred * average * unary.square(inverse)
        )  # fmt: skip
    return [conversion.cast(flow * wide * inverse, kind), to_scale, to_offset]


# -- functions ---------------------------------------------------------------------------------


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Images with each channel brought to mean 0 and variance 1, scaled and shifted.

    Returns the result, and the mean and variance to keep for when `is_training` is False, where
    they are the ones given. `exponential_avg_factor` below 1 averages them with those given.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError(
            "Both `mean` and `variance` must be given when `is_training` is False or "
            f"`exponential_avg_factor` is not 1.0. Found mean={mean!r}, variance={variance!r}, "
            f"is_training={is_training}, exponential_avg_factor={exponential_avg_factor}."
        )
    x = convert_to_tensor(x, name="input")
    scale = convert_to_tensor(scale, name="scale")
    offset = convert_to_tensor(offset, name="offset")
    mean = constant_op([], dt.float32) if mean is None else mean
    variance = constant_op([], dt.float32) if variance is None else variance
    result, *running = apply_op(
        "FusedBatchNormV3", x, scale, offset, mean, variance,
        epsilon=float(np.float32(epsilon)),
        exponential_avg_factor=float(np.float32(exponential_avg_factor)),
        data_format=data_format, is_training=is_training, name=name,
    ).values()  # fmt: skip
    return result, running[0], running[1]
