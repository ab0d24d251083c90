"""What layers are made of besides products and activations: bias, moments, the largest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape, unknown_shape
from stepscope.ops.arrays import constants, conversion, joining, shaping
from stepscope.ops.math import comparison, division, elementwise, random, reductions, unary
from stepscope.ops.math.matmul import matmul
from stepscope.ops.nn import activations
from stepscope.ops.signatures import (
    NUMBERS,
    REALS,
    argument,
    at_least_rank,
    exactly_rank,
    limited,
    merge_dims,
    one_name,
    output_of,
)

# -- bias --------------------------------------------------------------------------------------


def _bias_shape(ctx: ShapeContext) -> TensorShape:
    value = at_least_rank(ctx.input(0), 2)
    bias = exactly_rank(ctx.input(1), 1)
    if value.axes is None:
        return value
    assert bias.axes is not None
    axis = 1 if ctx.attr("data_format") == b"NCHW" else len(value.axes) - 1
    axes = list(value.axes)
    axes[axis] = merge_dims(axes[axis], bias.axes[0])
    return TensorShape(axes)


def _bias_kernel(node: KernelNode) -> Kernel:
    if node.attr("data_format") != b"NCHW":
        return Kernel(np.add, out="positional", forwards=(0,))

    def add_to_channels(value: Array, bias: Array, out: Array | None = None) -> Any:
        return np.add(value, bias.reshape((-1,) + (1,) * (value.ndim - 2)), out)

    return Kernel(add_to_channels, out="positional", forwards=(0,))


register(
    "BiasAdd",
    inputs=("value: T", "bias: T"),
    outputs=("output: T",),
    attrs=("T: type", "data_format: string = 'NHWC'"),
    shape=limited(_bias_shape, NUMBERS),
    kernel=_bias_kernel,
)


def _bias_gradient_shape(ctx: ShapeContext) -> TensorShape:
    shape = at_least_rank(ctx.input(0), 2)
    if shape.axes is None:
        return unknown_shape(1)
    return TensorShape((shape.axes[1 if ctx.attr("data_format") == b"NCHW" else -1],))


def _bias_gradient_kernel(node: KernelNode) -> Kernel:
    first = node.attr("data_format") == b"NCHW"
    total: Callable[..., Any] = np.add.reduce

    def back(grad: Array, out: Array | None = None) -> Any:
        rank = grad.ndim
        axes = (0, *range(2, rank)) if first else tuple(range(rank - 1))
        return total(grad, axes, grad.dtype, out)

    return Kernel(back, out="positional")


register(
    "BiasAddGrad",
    inputs=("out_backprop: T",),
    outputs=("output: T",),
    attrs=("T: type", "data_format: string = 'NHWC'"),
    shape=limited(_bias_gradient_shape, NUMBERS),
    kernel=_bias_gradient_kernel,
)


@gradient("BiasAdd")
def _bias_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    return [grad, output_of("BiasAddGrad", grad, data_format=op.get_attr("data_format"))]


@gradient("BiasAddGrad")
def _bias_second(op: Operation, grad: Tensor) -> Tensor:
    x = op.inputs[0]
    shape = shaping.shape(x)
    if op.get_attr("data_format") == b"NCHW":
        ones = output_of("OnesLike", shape[2:])
        grad = shaping.reshape(grad, joining.concat([[-1], ones], 0))
    return shaping.broadcast_to(grad, shape)


# -- the largest elements ----------------------------------------------------------------------


def _top_k_shape(ctx: ShapeContext) -> list[TensorShape]:
    shape = at_least_rank(ctx.input(0), 1)
    exactly_rank(ctx.input(1), 0)
    known = ctx.constant(1)
    k = None if known is None else int(known)
    if k is not None and k < 0:
        raise ValueError(f"Need k >= 0, got {k}")
    if shape.axes is None:
        return [shape, shape]
    last = shape.axes[-1]
    if k is not None and last is not None and last < k:
        raise ValueError(f"input must have last dimension >= k = {k} but is {last}")
    result = TensorShape((*shape.axes[:-1], k))
    return [result, result]


def _top_k_kernel(node: KernelNode) -> Kernel:
    index_type = node.output_dtypes[1].numpy

    def top_k(x: Array, k: Array) -> tuple[Array, Array]:
        length, count = x.shape[-1], int(k)
        if not 0 <= count <= length:
            raise InvalidArgumentError.without_op(
                f"input must have at least k columns. Had {length}, needed {count}"
            )
        # A stable sort of the reversed row, read backwards, puts the earlier of equals first.
        order = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :count]
        indices = length - 1 - order
        return np.take_along_axis(x, indices, -1), indices.astype(index_type)

    return Kernel(top_k)


register(
    "TopKV2",
    inputs=("input: T", "k: Tk"),
    outputs=("values: T", "indices: index_type"),
    attrs=(
        "sorted: bool = true",
        "T: type",
        "Tk: type = int32",
        "index_type: type = int32",
    ),
    shape=limited(_top_k_shape, REALS),
    kernel=_top_k_kernel,
)


@gradient("TopKV2")
def _top_k_gradient(op: Operation, grad: Tensor, _indices: Tensor) -> list[Tensor | None]:
    lengths = shaping.shape(op.inputs[0])
    chosen = output_of("Cast", op.outputs[1], DstT="int32")
    # Every row's indices as places in the flat input.
    outer = output_of("Prod", lengths[:-1], [0], keep_dims=True)
    rows = shaping.reshape(chosen, joining.concat([outer, shaping.shape(chosen)[-1:]], 0))
    starts = constants.range(outer[0]) * lengths[-1]
    places = shaping.reshape(rows + shaping.expand_dims(starts, -1), [-1, 1])
    size = shaping.reshape(output_of("Prod", lengths, [0]), [1])
    flat = output_of("ScatterNd", places, shaping.reshape(grad, [-1]), size)
    return [shaping.reshape(flat, lengths), None]


def _in_top_k_shape(ctx: ShapeContext) -> TensorShape:
    predictions, targets = exactly_rank(ctx.input(0), 2), exactly_rank(ctx.input(1), 1)
    assert predictions.axes is not None
    assert targets.axes is not None
    return TensorShape((merge_dims(predictions.axes[0], targets.axes[0]),))


def _in_top_k(predictions: Array, targets: Array, k: Array) -> Array:
    classes = predictions.shape[1]
    valid = (targets >= 0) & (targets < classes)
    if not classes:
        return np.zeros(targets.shape, np.bool_)
    rows = np.arange(len(targets))
    chosen = predictions[rows, np.where(valid, targets, 0)]
    better = np.count_nonzero(predictions > chosen[:, None], axis=1)
    result: Array = valid & np.isfinite(predictions).all(axis=1) & (better < k)
    return result


register(
    "InTopKV2",
    inputs=("predictions: float32", "targets: T", "k: T"),
    outputs=("precision: bool",),
    attrs=("T: type = int32",),
    shape=_in_top_k_shape,
    kernel=lambda _node: Kernel(_in_top_k),
)


# -- functions ---------------------------------------------------------------------------------


def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """The bias added along the channels: the last axis, or axis 1 for "NC..." formats."""
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        wire = "NHWC"
        if data_format is not None:
            if data_format.startswith("NC"):
                wire = "NCHW"
            elif not (data_format.startswith("N") and data_format.endswith("C")):
                raise ValueError(
                    "`data_format` must be of the form `N...C` or `NC...`. Received: "
                    f"data_format={data_format}"
                )
        value = argument(value, "input")
        bias = convert_to_tensor(bias, value.dtype.base_dtype, "bias")
        return apply_op("BiasAdd", value, bias, data_format=wire, name=scope).values()[0]


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """The product of x and the weights, plus the biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        x = argument(x, "x")
        weights = argument(weights, "weights")
        biases = argument(biases, "biases")
        return bias_add(matmul(x, weights), biases, name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(x times the weights, plus the biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        x = argument(x, "x")
        weights = argument(weights, "weights")
        biases = argument(biases, "biases")
        return activations.relu(bias_add(matmul(x, weights), biases), name=scope)


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance over the axes. `shift` is not used."""
    del shift
    keep = bool(one_name("keepdims", keepdims, "keep_dims", keep_dims))
    with name_scope(name, "moments", [x]):
        x = convert_to_tensor(x, name="x")
        is_half = x.dtype.base_dtype is dt.float16
        y = conversion.cast(x, dt.float32) if is_half else x
        mean = reductions.reduce_mean(y, axes, True, name="mean")
        spread = elementwise.squared_difference(y, conversion.stop_gradient(mean))
        variance = reductions.reduce_mean(spread, axes, True, name="variance")
        if not keep:
            mean = shaping.squeeze(mean, axes)
            variance = shaping.squeeze(variance, axes)
        if is_half:
            return conversion.cast(mean, dt.float16), conversion.cast(variance, dt.float16)
        return mean, variance


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: Any,
    name: str | None = None,
) -> Tensor:
    """X with this mean and variance brought to 0 and 1, then scaled and shifted where given."""
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inverse = unary.rsqrt(convert_to_tensor(variance) + variance_epsilon)
        if scale is not None:
            inverse = inverse * scale
        values = argument(x, "x")
        kind = values.dtype.base_dtype
        product = values * conversion.cast(inverse, kind)
        shift: Tensor = convert_to_tensor(mean) * inverse
        shift = -shift if offset is None else offset - shift
        return product + conversion.cast(shift, kind)


def l2_normalize(
    x: Any,
    axis: Any = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: Any = None,
) -> Tensor:
    """Divide x by sqrt(max(sum(x squared), epsilon)), with sums along the axis."""
    axis = one_name("axis", axis, "dim", dim)
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = argument(x, "x")
        squares = reductions.reduce_sum(unary.square(x), axis, True)
        inverse = unary.rsqrt(elementwise.maximum(squares, epsilon))
        return elementwise.multiply(x, inverse, name=scope)


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Zero a random share (`rate`, or 1 - `keep_prob`) of the elements and scale up the others.

    Where `noise_shape` has a 1, the elements along that axis share one decision.
    """
    rate = one_name("rate", rate, "keep_prob", None if keep_prob is None else 1.0 - keep_prob)
    if rate is None:
        raise ValueError("dropout needs `rate` (or the older `keep_prob`).")
    with name_scope(name, "dropout", [x]):
        values = argument(x, "x")
        dtype = values.dtype.base_dtype
        if not dtype.is_floating:
            raise ValueError(
                "`x.dtype` must be a floating point tensor as `x` will be scaled. Received: "
                f"x_dtype={dtype}"
            )
        if isinstance(rate, Tensor):
            rate.shape.assert_has_rank(0)
            kept = elementwise.subtract(convert_to_tensor(1, dtype), rate)
            scaled = division.realdiv(values, kept)
        elif not 0 <= rate < 1:
            raise ValueError(
                "`rate` must be a scalar tensor or a float in the range [0, 1). Received: "
                f"rate={rate}"
            )
        elif rate == 0:
            random.get_seed(seed)  # a run with rate 0 numbers its random ops as others do
            return values
        else:
            scaled = elementwise.multiply(values, convert_to_tensor(1 / (1 - rate), dtype))
        shape = shaping.shape(values) if noise_shape is None else _noise_shape(values, noise_shape)
        noise = random.random_uniform(shape, dtype=dtype, seed=seed)
        kept_ones = comparison.greater_equal(noise, rate)
        result = comparison.where_v2(kept_ones, scaled, convert_to_tensor(0, dtype))
        result.set_shape(values.shape)
        return result


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    """The shape with None replaced by the tensor's own length where that is known."""
    if isinstance(noise_shape, Tensor):
        return noise_shape
    asked = TensorShape(noise_shape)
    if asked.axes is None or x.shape.axes is None or len(asked.axes) != len(x.shape.axes):
        return noise_shape
    return [own if d is None else d for d, own in zip(asked.axes, x.shape.axes, strict=True)]


class TopK(NamedTuple):
    """What `top_k` returns."""

    values: Tensor
    indices: Tensor


def top_k(
    input: Any,
    k: Any = 1,
    sorted: bool = True,
    index_type: Any = dt.int32,
    name: str | None = None,
) -> TopK:
    """The k largest elements along the last axis, with their indices, the largest first."""
    op = apply_op("TopKV2", input, k, sorted=sorted, index_type=index_type, name=name)
    return TopK(*op.values())


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether each target class is among the k best predictions of its row."""
    with name_scope(name, "in_top_k", [predictions, targets]):
        return apply_op("InTopKV2", predictions, targets, k, name=name).values()[0]
