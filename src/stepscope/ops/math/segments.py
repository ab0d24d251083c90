"""Rows added up by segment, and the distinct and the missing values of a list."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import as_dtype, int32
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.indexing import gather
from stepscope.ops.signatures import NUMBERS, limited, output_of

# -- UnsortedSegmentSum ------------------------------------------------------------------------


def _segment_shape(c: ShapeContext) -> TensorShape:
    data, ids, count = c.input(0), c.input(1), c.constant(2)
    if ids.rank is None or data.rank is None:
        return UNKNOWN
    data[: ids.rank].assert_is_compatible_with(ids)
    return TensorShape([None if count is None else int(count)]).concatenate(data[ids.rank :])


def _segment_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy

    def call(data: Any, ids: Any, count: Any, out: Any = None) -> Any:
        ids, data = np.asarray(ids), np.asarray(data)
        limit, inner = int(count), data.shape[ids.ndim :]
        if ids.size and int(ids.max()) >= limit:
            raise InvalidArgumentError.without_op(
                f"segment_ids {int(ids.max())} is out of range [0, {limit})"
            )
        if out is None:
            out = np.zeros((limit, *inner), dtype)
        else:
            out.fill(0)
        flat, rows = ids.reshape(-1), data.reshape((ids.size, *inner))
        if ids.size and int(ids.min()) < 0:  # such rows belong nowhere
            kept = flat >= 0
            flat, rows = flat[kept], rows[kept]
        np.add.at(out, flat, rows)
        return out

    return Kernel(call, out="keyword")


register(
    "UnsortedSegmentSum",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: type", "Tnumsegments: type = int32"],
    shape=limited(_segment_shape, NUMBERS),
    kernel=_segment_kernel,
)


@gradient("UnsortedSegmentSum")
def _segment_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    data, ids, _count = op.inputs
    inside = output_of("GreaterEqual", ids, 0)
    rows = gather(grad, output_of("Maximum", ids, output_of("ZerosLike", ids)))
    # One axis of length 1 for every axis that the rows have and the ids have not.
    extra = shaping.reshape(shaping.rank(data) - shaping.rank(ids), [1])
    lengths = output_of("ConcatV2", [output_of("Shape", inside), output_of("Fill", extra, 1)], 0)
    chosen = output_of("Reshape", inside, lengths)
    return [output_of("SelectV2", chosen, rows, output_of("ZerosLike", rows)), None, None]


def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Per segment the sum of the rows whose id it is; rows with a negative id are left out."""
    return output_of("UnsortedSegmentSum", data, segment_ids, num_segments, name=name)


# -- ListDiff ----------------------------------------------------------------------------------


def _list_difference_kernel(node: KernelNode) -> Kernel:
    kind = node.attr("out_idx").numpy

    def call(x: Any, y: Any) -> Any:
        kept = ~np.isin(x, y)
        return np.asarray(x)[kept], np.flatnonzero(kept).astype(kind)

    return Kernel(call)


register(
    "ListDiff",
    inputs=["x: T", "y: T"],
    outputs=["out: T", "idx: out_idx"],
    attrs=["T: type", "out_idx: type = int32"],
    shape=lambda _c: [unknown_shape(1), unknown_shape(1)],
    kernel=_list_difference_kernel,
)


# -- Unique ------------------------------------------------------------------------------------


def _unique_kernel(node: KernelNode) -> Kernel:
    kind = node.attr("out_idx").numpy
    counts = node.op.type == "UniqueWithCounts"

    def call(x: Any) -> Any:
        values, first, inverse, count = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), dtype=kind)
        place[order] = np.arange(len(order), dtype=kind)
        result = values[order], place[inverse]
        return (*result, count[order].astype(kind)) if counts else result

    return Kernel(call)


def _unique_shape(c: ShapeContext) -> list[TensorShape]:
    if c.input(0).rank not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is {c.input(0).brief()}")
    shapes = [unknown_shape(1), c.input(0).with_rank(1)]
    return [*shapes, unknown_shape(1)] if c.op_type == "UniqueWithCounts" else shapes


register(
    "Unique",
    inputs=["x: T"],
    outputs=["y: T", "idx: out_idx"],
    attrs=["T: type", "out_idx: type = int32"],
    shape=_unique_shape,
    kernel=_unique_kernel,
)
register(
    "UniqueWithCounts",
    inputs=["x: T"],
    outputs=["y: T", "idx: out_idx", "count: out_idx"],
    attrs=["T: type", "out_idx: type = int32"],
    shape=_unique_shape,
    kernel=_unique_kernel,
)


def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The distinct values in order of first appearance, and each element's place among them."""
    y, idx = apply_op("Unique", x, out_idx=as_dtype(out_idx), name=name).values()
    return y, idx


def unique_with_counts(
    x: Any, out_idx: Any = int32, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`unique`, and how often each value appears."""
    y, idx, count = apply_op("UniqueWithCounts", x, out_idx=as_dtype(out_idx), name=name).values()
    return y, idx, count
