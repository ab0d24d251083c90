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
    """`values[i]` belongs at row `indices[i]` of a tensor of `dense_shape`; equal ones add up."""

    values: Tensor
    indices: Tensor
    dense_shape: Tensor | None = None

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
        return f"IndexedSlices(indices={self.indices.name!r}, values={self.values.name!r})"
