"""Rows into several tensors and back: DynamicPartition, DynamicStitch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape
from stepscope.ops.arrays import indexing, shaping
from stepscope.ops.arrays.constants import range as range_of
from stepscope.ops.math.reductions import reduce_prod

# -- DynamicPartition --------------------------------------------------------------------------


def _partition_shape(c: ShapeContext) -> list[TensorShape]:
    data, partitions = c.input(0), c.input(1)
    count = c.attr("num_partitions")
    if data.rank is None or partitions.rank is None:
        return [UNKNOWN] * count
    data[: partitions.rank].assert_is_compatible_with(partitions)
    return [TensorShape([None]).concatenate(data[partitions.rank :])] * count


def _partition_kernel(node: KernelNode) -> Kernel:
    count = node.attr("num_partitions")

    def call(data: Any, partitions: Any) -> Any:
        which = np.asarray(partitions)
        flat = which.reshape(-1)
        bad = np.flatnonzero((flat < 0) | (flat >= count))
        if len(bad):
            raise InvalidArgumentError.without_op(
                f"partitions[{int(bad[0])}] = {int(flat[bad[0]])} is not in [0, {count})"
            )
        rows = np.asarray(data).reshape((flat.size, *np.shape(data)[which.ndim :]))
        parts = tuple(rows[flat == i] for i in range(count))
        return parts if count > 1 else parts[0]

    return Kernel(call)


register(
    "DynamicPartition",
    inputs=("data: T", "partitions: int32"),
    outputs=("outputs: num_partitions * T",),
    attrs=("num_partitions: int", "T: type"),
    shape=_partition_shape,
    kernel=_partition_kernel,
)


@gradient("DynamicPartition")
def _partition_gradient(op: Operation, *grads: Tensor) -> list[Tensor | None]:
    data, partitions = op.inputs
    prefix = shaping.shape(partitions)
    places = shaping.reshape(range_of(reduce_prod(prefix)), prefix)
    parts = dynamic_partition(places, partitions, op.get_attr("num_partitions"))
    return [shaping.reshape(dynamic_stitch(parts, list(grads)), shaping.shape(data)), None]


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """The rows of `data`, by the number of the part that each belongs to.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     parts = tf.dynamic_partition([10, 20, 30], [0, 1, 0], 2)
    ...     [part.tolist() for part in session.run(parts)]
    [[10, 30], [20]]
    """
    return apply_op(
        "DynamicPartition", data, partitions, num_partitions=num_partitions, name=name
    ).outputs


# -- DynamicStitch -----------------------------------------------------------------------------


def _stitch_shape(c: ShapeContext) -> TensorShape:
    count = c.attr("N")
    inner = UNKNOWN
    for i in range(count):
        indices, data = c.input(i), c.input(count + i)
        if indices.rank is not None and data.rank is not None:
            data[: indices.rank].assert_is_compatible_with(indices)
            inner = inner.merge_with(data[indices.rank :])
    known = [c.constant(i) for i in range(count)]
    if any(value is None for value in known):
        return TensorShape([None]).concatenate(inner)
    rows = 1 + max(int(np.max(value, initial=-1)) for value in known if value is not None)
    return TensorShape([rows]).concatenate(inner)


def _stitch_kernel(node: KernelNode) -> Kernel:
    count = node.attr("N")

    def call(*inputs: Any) -> Array:
        indices = [np.asarray(i) for i in inputs[:count]]
        data = [np.asarray(d) for d in inputs[count:]]
        largest = max((int(i.max()) for i in indices if i.size), default=-1)
        inner = data[0].shape[indices[0].ndim :]
        out = np.zeros((largest + 1, *inner), data[0].dtype)
        for where, rows in zip(indices, data, strict=True):
            out[where.reshape(-1)] = rows.reshape((where.size, *inner))
        return out

    return Kernel(call)


for _name in ("DynamicStitch", "ParallelDynamicStitch"):
    register(
        _name,
        inputs=("indices: N * int32", "data: N * T"),
        outputs=("merged: T",),
        attrs=("N: int", "T: type"),
        shape=_stitch_shape,
        kernel=_stitch_kernel,
    )


@gradient("DynamicStitch", "ParallelDynamicStitch")
def _stitch_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    count = op.get_attr("N")
    places = list(op.inputs)[:count]
    return [*[None] * count, *(indexing.gather(grad, where) for where in places)]


def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """One tensor whose rows are those of `data` at their indices; of equal ones the last."""
    return apply_op("DynamicStitch", list(indices), list(data), name=name).values()[0]
