"""Rows reduced by segment where segments come one after the other, of all rows or of chosen ones.

>>> import stepscope.tf1 as tf
>>> with tf.Graph().as_default(), tf.Session() as session:
...     session.run(tf.segment_sum([1, 2, 3, 4], [0, 0, 1, 3])).tolist()
...     session.run(tf.sparse_segment_mean([[1.0], [2.0], [6.0]], [2, 0, 1], [0, 0, 1])).tolist()
[3, 3, 0, 4]
[[3.5], [2.0]]
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.dtypes import Array
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.constants import ones, zeros_like
from stepscope.ops.arrays.constants import range as range_of
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.indexing import gather
from stepscope.ops.arrays.joining import concat
from stepscope.ops.math.comparison import equal, where_v2
from stepscope.ops.math.division import divide
from stepscope.ops.signatures import (
    FLOATS,
    NUMBERS,
    REALS,
    at_least_rank,
    exactly_rank,
    limited,
    output_of,
)

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
    "sparse_segment_mean",
    "sparse_segment_sqrt_n",
    "sparse_segment_sum",
]

_NORMS: Final = ("Sum", "Mean", "SqrtN")


def _reduced(rows: Array, ids: Array, count: int, ufunc: np.ufunc) -> tuple[Array, Array]:
    """The rows of each segment by `ufunc` (zeros where there are none), and how many they are."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    sizes = np.zeros(count, np.int64)
    if not ids.size:
        return out, sizes
    if ids[0] < 0 or (ids[1:] < ids[:-1]).any():
        raise InvalidArgumentError.without_op("segment ids are not increasing")
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    found = ids[starts]
    if found[-1] >= count:
        raise InvalidArgumentError.without_op(
            f"Segment id {int(found[-1])} out of range [0, {count})"
        )
    out[found] = ufunc.reduceat(rows, starts, axis=0)
    sizes[found] = np.diff(np.append(starts, ids.size))
    return out, sizes


def _scaled(sums: Array, sizes: Array, norm: str) -> Array:
    if norm == "Sum":
        return sums
    divisor = np.maximum(sizes, 1).reshape(-1, *[1] * (sums.ndim - 1))
    if sums.dtype.kind in "iu":
        return np.asarray((sums / divisor).astype(sums.dtype))  # towards zero, as in C
    by = np.sqrt(divisor) if norm == "SqrtN" else divisor
    return np.asarray(sums / by.astype(sums.dtype))


def _count(ids: Array) -> int:
    return int(ids[-1]) + 1 if ids.size else 0


# -- of all rows -------------------------------------------------------------------------------


def _shape(c: ShapeContext) -> TensorShape:
    data, ids = at_least_rank(c.input(0), 1), exactly_rank(c.input(1), 1)
    data[:1].assert_is_compatible_with(ids)
    return TensorShape([None]).concatenate(data[1:])


def _kernel(node: KernelNode) -> Kernel:
    norm = node.op.type.removeprefix("Segment")
    ufunc = {"Max": np.maximum, "Min": np.minimum}.get(norm, np.add)

    def call(data: Any, ids: Any) -> Array:
        if len(data) != len(ids):
            raise InvalidArgumentError.without_op(
                "segment_ids should be the same size as dimension 0 of input."
            )
        out, sizes = _reduced(np.asarray(data), ids, _count(ids), ufunc)
        return _scaled(out, sizes, norm) if norm == "Mean" else out

    return Kernel(call)


for _name in ("Sum", "Mean", "Max", "Min"):
    register(
        f"Segment{_name}",
        inputs=["data: T", "segment_ids: Tindices"],
        outputs=["output: T"],
        attrs=["T: type", "Tindices: type"],
        shape=limited(_shape, REALS if _name in ("Max", "Min") else NUMBERS),
        kernel=_kernel,
    )


@gradient("SegmentSum")
def _sum_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [gather(grad, op.inputs[1]), None]


@gradient("SegmentMean")
def _mean_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    data, ids = op.inputs
    inner = ones(shaping.expand_dims(shaping.rank(data) - 1, 0), dtype="int32")
    each = ones(concat([shaping.shape(ids), inner], 0), dtype=grad.dtype)
    return [gather(divide(grad, segment_sum(each, ids)), ids), None]


@gradient("SegmentMax", "SegmentMin")
def _extreme_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    data, ids = op.inputs
    chosen = equal(data, gather(op.outputs[0], ids))
    shares = divide(grad, segment_sum(cast(chosen, grad.dtype), ids))
    return [where_v2(chosen, gather(shares, ids), zeros_like(data)), None]


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Per segment the sum of its rows; the ids come in order, and those left out are zeros."""
    return output_of("SegmentSum", data, segment_ids, name=name)


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Per segment the mean of its rows."""
    return output_of("SegmentMean", data, segment_ids, name=name)


def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Per segment the largest of its rows, element by element."""
    return output_of("SegmentMax", data, segment_ids, name=name)


def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Per segment the smallest of its rows, element by element."""
    return output_of("SegmentMin", data, segment_ids, name=name)


# -- of chosen rows ----------------------------------------------------------------------------


def _norm_of(op_type: str) -> str:
    name = op_type.removeprefix("SparseSegment").removesuffix("Grad")
    return name.removesuffix("WithNumSegments")


def _check_places(c: ShapeContext) -> TensorShape:
    data = at_least_rank(c.input(0), 1)
    exactly_rank(c.input(1), 1).assert_is_compatible_with(exactly_rank(c.input(2), 1))
    return data[1:]


def _sparse_shape(c: ShapeContext) -> TensorShape:
    inner = _check_places(c)
    count = c.constant(3) if len(c.inputs) > 3 else None
    return TensorShape([None if count is None else int(count)]).concatenate(inner)


def _chosen(data: Array, indices: Array) -> Array:
    if indices.size and (indices.min() < 0 or indices.max() >= len(data)):
        at = int(np.flatnonzero((indices < 0) | (indices >= len(data)))[0])
        raise InvalidArgumentError.without_op(
            f"Bad: indices[{at}] == {int(indices[at])} out of range [0, {len(data)})"
        )
    return data[indices]


def _sparse_kernel(node: KernelNode) -> Kernel:
    norm = _norm_of(node.op.type)

    def call(data: Any, indices: Any, ids: Any, count: Any = None) -> Array:
        rows = _chosen(np.asarray(data), indices)
        number = _count(ids) if count is None else int(count)
        return _scaled(*_reduced(rows, ids, number, np.add), norm)

    return Kernel(call)


def _sparse_grad_kernel(node: KernelNode) -> Kernel:
    norm = _norm_of(node.op.type)

    def call(grad: Any, indices: Any, ids: Any, rows: Any) -> Array:
        out = np.zeros((int(rows), *grad.shape[1:]), grad.dtype)
        if indices.size and (indices.min() < 0 or indices.max() >= int(rows)):
            raise InvalidArgumentError.without_op(f"An index is out of range [0, {int(rows)}).")
        if ids.size and (ids.min() < 0 or ids.max() >= len(grad)):
            raise InvalidArgumentError.without_op(f"A segment is out of range [0, {len(grad)}).")
        shares = _scaled(np.asarray(grad), np.bincount(ids, minlength=len(grad)), norm)
        np.add.at(out, indices, shares[ids])
        return out

    return Kernel(call)


_TYPES: Final = ("T: type", "Tidx: type = int32", "Tsegmentids: type = int32")
_PLACES: Final = ("indices: Tidx", "segment_ids: Tsegmentids")
for _name in _NORMS:
    for _more in (False, True):
        register(
            f"SparseSegment{_name}{'WithNumSegments' if _more else ''}",
            inputs=["data: T", *_PLACES, *(["num_segments: Tnumsegments"] if _more else [])],
            outputs=["output: T"],
            attrs=[
                *(_TYPES[:2] if _more else _TYPES),
                *(["Tnumsegments: type = int32", _TYPES[2]] if _more else []),
                "sparse_gradient: bool = false",
            ],
            shape=limited(_sparse_shape, REALS if _name == "Sum" else FLOATS),
            kernel=_sparse_kernel,
        )
    register(
        f"SparseSegment{_name}Grad",
        inputs=["grad: T", *_PLACES, "output_dim0: int32"],
        outputs=["output: T"],
        attrs=_TYPES,
        shape=limited(_sparse_shape, FLOATS),
        kernel=_sparse_grad_kernel,
    )


@gradient(
    *[f"SparseSegment{norm}" for norm in _NORMS],
    *[f"SparseSegment{norm}WithNumSegments" for norm in _NORMS],
)
def _sparse_gradient(op: Operation, grad: Tensor) -> list[Any]:
    data, indices, ids = op.inputs[:3]
    shape, op_type = shaping.shape(data), f"SparseSegment{_norm_of(op.type)}Grad"
    nothing = [None] * (len(op.inputs) - 1)
    if not op.get_attr("sparse_gradient"):
        return [output_of(op_type, grad, indices, ids, shape[0]), *nothing]
    count = shaping.size(indices)
    rows = output_of(op_type, grad, range_of(count), ids, count)
    return [IndexedSlices(rows, indices, shape), *nothing]


def _sparse(norm: str, name: str | None, count: Any, sparse_gradient: bool, *inputs: Any) -> Tensor:
    if count is None:
        op_type, inputs = f"SparseSegment{norm}", inputs
    else:
        op_type, inputs = f"SparseSegment{norm}WithNumSegments", (*inputs, count)
    return output_of(op_type, *inputs, sparse_gradient=sparse_gradient, name=name)


def sparse_segment_sum(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:  # fmt: skip
    """Per segment the sum of the rows of `data` at its indices."""
    return _sparse("Sum", name, num_segments, sparse_gradient, data, indices, segment_ids)


def sparse_segment_mean(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:  # fmt: skip
    """Per segment the mean of the rows of `data` at its indices."""
    return _sparse("Mean", name, num_segments, sparse_gradient, data, indices, segment_ids)


def sparse_segment_sqrt_n(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:  # fmt: skip
    """Per segment the sum of the rows at its indices, divided by the root of their number."""
    return _sparse("SqrtN", name, num_segments, sparse_gradient, data, indices, segment_ids)
