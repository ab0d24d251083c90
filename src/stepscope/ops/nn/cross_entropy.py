"""Losses from logits: softmax, sparse softmax and sigmoid cross-entropy."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import control_dependencies, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape, broadcast
from stepscope.ops.arrays import constants, conversion, joining, shaping, slicing
from stepscope.ops.math import comparison, elementwise, reductions, unary
from stepscope.ops.math.broadcasting import summed_to
from stepscope.ops.nn import activations
from stepscope.ops.signatures import (
    FLOATS,
    argument,
    exactly_rank,
    limited,
    merge_dims,
    one_name,
    output_of,
)

# -- op types ----------------------------------------------------------------------------------


def _dense_shape(ctx: ShapeContext) -> list[TensorShape]:
    both = broadcast(exactly_rank(ctx.input(0), 2), exactly_rank(ctx.input(1), 2))
    assert both.axes is not None
    return [TensorShape(both.axes[:1]), both]


def _shifted(logits: Array) -> tuple[Array, Array, Array]:
    """Logits minus their row's largest, the exponentials of that, and the sums of these."""
    shifted = np.subtract(logits, np.maximum.reduce(logits, 1, keepdims=True))
    exponentials = np.exp(shifted)
    return shifted, exponentials, np.add.reduce(exponentials, 1, keepdims=True)


def _dense(features: Array, labels: Array) -> tuple[Array, Array]:
    if features.shape != labels.shape:
        features, labels = np.broadcast_arrays(features, labels)
    if not features.size:
        return np.zeros(features.shape[:1], features.dtype), np.zeros_like(features)
    shifted, exponentials, totals = _shifted(features)
    np.subtract(np.log(totals), shifted, shifted)
    np.multiply(shifted, labels, shifted)
    np.divide(exponentials, totals, exponentials)
    np.subtract(exponentials, labels, exponentials)
    return np.add.reduce(shifted, 1), exponentials


register(
    "SoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: T"),
    outputs=("loss: T", "backprop: T"),
    attrs=("T: type",),
    shape=limited(_dense_shape, FLOATS),
    kernel=lambda _node: Kernel(_dense),
)


def _sparse_shape(ctx: ShapeContext) -> list[TensorShape]:
    features, labels = exactly_rank(ctx.input(0), 2), exactly_rank(ctx.input(1), 1)
    assert features.axes is not None
    assert labels.axes is not None
    rows = merge_dims(features.axes[0], labels.axes[0])
    return [TensorShape((rows,)), TensorShape((rows, features.axes[1]))]


def _sparse(features: Array, labels: Array) -> tuple[Array, Array]:
    classes = features.shape[1]
    if not features.size:
        return np.zeros(features.shape[:1], features.dtype), np.zeros_like(features)
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        raise InvalidArgumentError.without_op(
            f"Received a label value of {labels[outside][0]} which is outside the valid range of "
            f"[0, {classes}).  Label values: {' '.join(map(str, labels[:100]))}",
        )
    shifted, exponentials, totals = _shifted(features)
    rows = np.arange(len(labels))
    loss = np.subtract(np.log(totals)[:, 0], shifted[rows, labels])
    np.divide(exponentials, totals, exponentials)
    exponentials[rows, labels] -= features.dtype.type(1)
    return loss, exponentials


register(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: Tlabels"),
    outputs=("loss: T", "backprop: T"),
    attrs=("T: type", "Tlabels: type = int64"),
    shape=limited(_sparse_shape, FLOATS),
    kernel=lambda _node: Kernel(_sparse),
)


# -- gradients ---------------------------------------------------------------------------------


def _per_row(grad: Tensor, rows: Tensor) -> Tensor:
    return shaping.expand_dims(grad, -1) * rows


def _is_zero(grad: Tensor) -> bool:
    if grad.op.type == "ZerosLike":
        return True
    known = constant_value(grad)
    return known is not None and not known.any()


def _through_backprop(grad: Tensor, backprop_grad: Tensor, logits: Tensor) -> Tensor:
    """The gradient of the logits where the backprop output was differentiated too."""
    if _is_zero(backprop_grad):
        return grad
    y = activations.softmax(logits)
    return grad + (backprop_grad - output_of("Sum", backprop_grad * y, [1], keep_dims=True)) * y


@gradient("SoftmaxCrossEntropyWithLogits")
def _dense_gradient(op: Operation, grad: Tensor, backprop_grad: Tensor) -> list[Tensor]:
    logits, labels = op.inputs
    for_logits = _through_backprop(_per_row(grad, op.outputs[1]), backprop_grad, logits)
    for_labels = _per_row(grad, -activations.log_softmax(logits))
    return [summed_to(for_logits, logits, labels), summed_to(for_labels, labels, logits)]


@gradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_gradient(op: Operation, grad: Tensor, backprop_grad: Tensor) -> list[Tensor | None]:
    through = _through_backprop(_per_row(grad, op.outputs[1]), backprop_grad, op.inputs[0])
    return [through, None]


# -- functions ---------------------------------------------------------------------------------


def _need_both(function: str, labels: Any, logits: Any) -> None:
    if labels is None or logits is None:
        raise ValueError(f"{function} needs both `labels` and `logits`, passed by name.")


def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: int | None = None, name: str | None = None, dim: Any = None
) -> Tensor:
    """The cross-entropy of softmax(logits) and label distributions, one value per row."""
    axis = one_name("axis", axis, "dim", dim)
    axis = -1 if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels")
        is_half = logits.dtype.base_dtype is dt.float16
        precise = conversion.cast(logits, dt.float32) if is_half else logits
        labels = conversion.cast(labels, precise.dtype.base_dtype)
        rank = shaping.rank(precise)
        static = logits.shape
        if axis != -1:
            precise = _with_axis_last(precise, axis, rank)
            labels = _with_axis_last(labels, axis, rank)
        shape = shaping.shape(precise)
        op = apply_op(
            "SoftmaxCrossEntropyWithLogits", _as_rows(precise), _as_rows(labels), name=scope
        )
        outer = slicing.slice_(shape, [0], [elementwise.subtract(rank, 1)])
        cost = shaping.reshape(op.values()[0], outer)
        if static.rank is not None:
            kept = static.as_list()
            del kept[axis]
            cost.set_shape(kept)
        return conversion.cast(cost, dt.float16) if is_half else cost


def _with_axis_last(x: Tensor, axis: int, rank: Tensor) -> Tensor:
    before = constants.range(axis)
    after = constants.range(axis + 1, rank)
    return shaping.transpose(x, joining.concat([before, after, [axis]], 0))


def _as_rows(x: Tensor) -> Tensor:
    """The tensor as a matrix: all but the last axis flattened into one."""
    rank = shaping.rank(x)
    shape = shaping.shape(x)
    width = slicing.slice_(shape, [elementwise.subtract(rank, 1)], [1])
    result = shaping.reshape(x, joining.concat([[-1], width], 0))
    if x.shape.rank:
        result.set_shape((x.shape[:-1].num_elements(), x.shape[-1]))
    return result


def softmax_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """As the `_v2` function, without a gradient to the labels."""
    _need_both("softmax_cross_entropy_with_logits", labels, logits)
    axis = dim if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        labels = conversion.stop_gradient(labels, name="labels_stop_gradient")
    return softmax_cross_entropy_with_logits_v2(labels, logits, axis, name=scope)


def sparse_softmax_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """The cross-entropy of softmax(logits) and class numbers, one value per row."""
    _need_both("sparse_softmax_cross_entropy_with_logits", labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = convert_to_tensor(labels)
        logits = convert_to_tensor(logits)
        is_half = logits.dtype.base_dtype is dt.float16
        precise = conversion.cast(logits, dt.float32) if is_half else logits
        static = labels.shape
        labels_shape = shaping.shape(labels)
        _check_label_shapes(static, logits.shape)
        if logits.shape.rank == 2:
            cost = _sparse_rows(precise, labels, name)
            return conversion.cast(cost, dt.float16) if is_half else cost
        checks = []
        if not (static.is_fully_defined() and logits.shape[:-1].is_fully_defined()):
            checks.append(_assert_same_shape(labels, logits))
        with control_dependencies(checks):
            lengths, rank = shaping.shape(logits), cast("Any", shaping.rank(logits))
            classes = lengths[rank - 1]
            rows = shaping.reshape(precise, [-1, classes])
            flat = shaping.reshape(labels, [-1])
            cost = shaping.reshape(_sparse_rows(rows, flat, name), labels_shape)
            cost.set_shape(static)
            return conversion.cast(cost, dt.float16) if is_half else cost


def _sparse_rows(logits: Tensor, labels: Tensor, name: str | None) -> Tensor:
    op_type = "SparseSoftmaxCrossEntropyWithLogits"
    return apply_op(op_type, logits, labels, name=name).values()[0]


def _check_label_shapes(labels: TensorShape, logits: TensorShape) -> None:
    if logits.rank == 0:
        raise ValueError("`logits` cannot be a scalar: the last axis holds the classes.")
    if logits.rank is None or labels.rank is None:
        return
    if labels.rank != logits.rank - 1 or not labels.is_compatible_with(logits[:-1]):
        raise ValueError(
            "`labels.shape` must equal `logits.shape` without its last dimension. Received: "
            f"labels.shape={labels} and logits.shape={logits}"
        )


def _assert_same_shape(labels: Tensor, logits: Tensor) -> Any:
    """An op that fails when the labels are not shaped as the logits without the classes."""
    found = shaping.shape(labels)
    wanted = shaping.shape(logits)[:-1]
    with name_scope(None, "assert_equal_1"):
        condition = reductions.reduce_all(comparison.equal(found, wanted))
        with name_scope(None, "Assert"):
            texts = [
                "Condition x == y did not hold element-wise:",
                f"x ({found.name}) = ",
                f"y ({wanted.name}) = ",
            ]
            for text in texts:
                convert_to_tensor(text)
            data = [texts[0], texts[1], found, texts[2], wanted]
            return apply_op("Assert", condition, data, summarize=3)


def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """max(x, 0) - x * z + log(1 + exp(-|x|)) for logits x and labels z, element by element."""
    _need_both("sigmoid_cross_entropy_with_logits", labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x = argument(logits, "logits")
        z = argument(labels, "labels")
        if not z.shape.is_compatible_with(x.shape):
            raise ValueError(
                f"`logits` and `labels` must have the same shape, received ({x.shape} vs "
                f"{z.shape})."
            )
        zeros = constants.zeros_like(x, dtype=x.dtype.base_dtype)
        positive = comparison.greater_equal(x, zeros)
        above = comparison.where(positive, x, zeros)
        minus_magnitude = comparison.where(positive, unary.negative(x), x)
        with name_scope(None, "mul") as mul:
            product = elementwise.multiply(x, z, name=mul)
        with name_scope(None, "sub") as sub:
            linear = elementwise.subtract(above, product, name=sub)
        return elementwise.add(linear, unary.log1p(unary.exp(minus_magnitude)), name=scope)
