"""Some rows of a tensor: what a lookup's gradient is, where all other rows are zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepscope.graph.dtypes import DType
    from stepscope.graph.graph import Graph
    from stepscope.graph.operation import Operation, Tensor
    from stepscope.graph.shapes import TensorShape

__all__ = ["IndexedSlices", "IndexedSlicesValue"]


class IndexedSlicesValue(NamedTuple):
    """What a run gives for `IndexedSlices`: arrays."""

    values: Any
    indices: Any
    dense_shape: Any


@dataclass(frozen=True, eq=False)
class IndexedSlices:
    """`values[i]` belongs at row `indices[i]` of a tensor of `dense_shape`; equal ones add up.

    It stands wherever a tensor may: there it becomes that tensor, if it has a `dense_shape`.
    """

    values: Tensor
    indices: Tensor
    dense_shape: Tensor | None = None

    def parts(self) -> list[Tensor]:
        """Its tensors, in order."""
        known = [] if self.dense_shape is None else [self.dense_shape]
        return [self.values, self.indices, *known]

    def _as_tensor(self, dtype: DType | None = None) -> Tensor:
        from stepscope.graph.build import apply_op

        if dtype is not None and self.dtype.base_dtype is not dtype.base_dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with dtype "
                f"{self.dtype.name}"
            )
        if self.dense_shape is None:
            raise ValueError(
                f"Tensor conversion requested for IndexedSlices without dense_shape: {self!r}"
            )
        rows = self.dense_shape[0]
        dense = apply_op("UnsortedSegmentSum", self.values, self.indices, rows).values()[0]
        dense.set_shape(self.shape)
        return dense

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        from stepscope.graph.constants import constant_as_shape
        from stepscope.graph.shapes import UNKNOWN

        return UNKNOWN if self.dense_shape is None else constant_as_shape(self.dense_shape)

    @property
    def name(self) -> str:
        return self.values.name

    @property
    def op(self) -> Operation:
        return self.values.op

    @property
    def graph(self) -> Graph:
        return self.values.graph

    @property
    def device(self) -> str:
        return self.values.device

    def __repr__(self) -> str:
        shape = "" if self.dense_shape is None else f", dense_shape={self.dense_shape}"
        return f"IndexedSlices(indices={self.indices}, values={self.values}{shape})"
