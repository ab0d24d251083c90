"""Columns of tensors and of memory used per op."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stepscope.metadata.readable import number
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["MemoryColumns", "TensorColumns", "check_lengths", "object_column", "times_in_range"]

_EARLIEST_NS = -(1 << 60)
_LATEST_NS = (1 << 63) - 1 + _EARLIEST_NS


def object_column(values: Iterable[Any]) -> NDArray[Any]:
    """Any Python values as a column; NumPy's own types would cut byte strings and join tuples."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        return values
    items = list(values)
    column = np.empty(len(items), dtype=object)
    for row, item in enumerate(items):
        column[row] = item
    return column


def _int64(values: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


def times_in_range(values: ArrayLike) -> NDArray[np.int64]:
    """Times in nanoseconds, of which any two have a difference that is a number of 64 bits.

    Those before 1933 or after 2225, which no clock shows and only damaged files hold, are put at
    that limit. Arithmetic on columns wraps around in silence, or fails, beyond it.
    """
    times = _int64(values)
    if len(times) and (times.min() < _EARLIEST_NS or times.max() > _LATEST_NS):
        return np.clip(times, _EARLIEST_NS, _LATEST_NS)
    return times


def _strings(values: Sequence[str] | StringColumn | str, length: int) -> StringColumn:
    if isinstance(values, str):
        return StringColumn.repeated(values, length)
    return StringColumn.of(values)


def check_lengths(columns: Any) -> None:
    """Refuse columns that do not have the same number of rows."""
    lengths = {
        field.name: len(column)
        for field in fields(columns)
        if (column := getattr(columns, field.name)) is not None
    }
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of {type(columns).__name__} differ in length: {lengths}")


def _one_below_the_other(parts: Sequence[Any], rows: Sequence[int]) -> dict[str, Any]:
    """Each column of the parts, joined; `op_index` counts through, as `rows` says how many."""
    joined: dict[str, Any] = {}
    for field in fields(parts[0]):
        columns = [getattr(part, field.name) for part in parts]
        if isinstance(columns[0], StringColumn):
            joined[field.name] = StringColumn.joined(columns)
        else:
            joined[field.name] = np.concatenate(columns)
    first = np.cumsum([0, *rows[:-1]])
    joined["op_index"] += np.repeat(first, [len(part) for part in parts]).astype(np.int32)
    return joined


@dataclass(frozen=True, slots=True, eq=False)
class TensorColumns:
    """One row per output tensor.

    `op_index` is the row of the op in `OpColumns`; `dtype` is a number of TensorFlow's `DataType`;
    `shape` holds tuples, with -1 for a dimension that is not known and None for an unknown rank.
    """

    op_index: NDArray[np.int32]
    slot: NDArray[np.int32]
    dtype: NDArray[np.int32]
    shape: NDArray[Any]
    bytes: NDArray[np.int64]
    allocated_bytes: NDArray[np.int64]
    address: NDArray[np.uint64]
    allocators: StringColumn

    @classmethod
    def build(
        cls,
        *,
        op_index: ArrayLike,
        slot: ArrayLike,
        dtype: ArrayLike,
        shape: Iterable[tuple[int, ...] | None],
        bytes: ArrayLike,
        allocated_bytes: ArrayLike | None = None,
        address: ArrayLike | None = None,
        allocator: Sequence[str] | StringColumn | str = "cpu",
    ) -> Self:
        """From plain sequences. Without `allocated_bytes` as many as asked for were allocated."""
        size = _int64(bytes)
        columns = cls(
            np.asarray(op_index, dtype=np.int32),
            np.asarray(slot, dtype=np.int32),
            np.asarray(dtype, dtype=np.int32),
            object_column(shape),
            size,
            size if allocated_bytes is None else _int64(allocated_bytes),
            np.zeros(len(size), np.uint64)
            if address is None
            else np.asarray(address, dtype=np.uint64),
            _strings(allocator, len(size)),
        )
        check_lengths(columns)
        return columns

    @classmethod
    def empty(cls) -> Self:
        """No rows."""
        return cls.build(op_index=[], slot=[], dtype=[], shape=[], bytes=[])

    @property
    def allocator(self) -> NDArray[Any]:
        """The allocator's name per row."""
        return self.allocators.values

    def __repr__(self) -> str:
        ops = len(np.unique(self.op_index))
        return f"<TensorColumns: {number(len(self), 'tensor')} of {number(ops, 'execution')}>"

    def __len__(self) -> int:
        return len(self.op_index)

    def for_rows(self, new_row: NDArray[np.int64]) -> Self:
        """The tensors of ops that are kept: `new_row[old]` is an op's new row, -1 for dropped."""
        if not len(self):
            return self
        moved = new_row[self.op_index]
        keep = moved >= 0
        return replace(self.select(keep), op_index=moved[keep].astype(np.int32))

    def select(self, rows: Any) -> Self:
        """Some of the tensors, of the same ops."""
        return type(self)(
            self.op_index[rows],
            self.slot[rows],
            self.dtype[rows],
            self.shape[rows],
            self.bytes[rows],
            self.allocated_bytes[rows],
            self.address[rows],
            self.allocators[rows],
        )

    def in_order(self) -> Self:
        """The tensors in order of `op_index`; those of one op as they are."""
        if (self.op_index[1:] >= self.op_index[:-1]).all():
            return self
        return self.select(np.argsort(self.op_index, kind="stable"))

    def per_execution(self, node: NDArray[np.int32]) -> Self:
        """The outputs of executions of nodes, from those of the nodes (in order of `op_index`).

        `op_index` is then a position in `node`.
        """
        if not len(self) or not len(node):
            return self.select(slice(0))
        counts = np.bincount(self.op_index, minlength=int(node.max()) + 1)
        firsts = np.cumsum(counts) - counts
        of_row = counts[node]
        before = np.cumsum(of_row) - of_row
        rows = np.repeat(firsts[node] - before, of_row) + np.arange(int(of_row.sum()))
        owner = np.repeat(np.arange(len(node), dtype=np.int32), of_row)
        return replace(self.select(rows), op_index=owner)

    @classmethod
    def concat(cls, parts: Sequence[Self], rows: Sequence[int]) -> Self:
        """The tensors of several runs, of which `rows` says how many ops each has, as of one."""
        if not any(map(len, parts)):
            return cls.empty()
        return cls(**_one_below_the_other(parts, rows))


@dataclass(frozen=True, slots=True, eq=False)
class MemoryColumns:
    """Memory that an op used from one allocator: one row per op and allocator.

    `records` holds, per row, its allocations as (time in ns, bytes) pairs; a free is negative.
    """

    op_index: NDArray[np.int32]
    allocators: StringColumn
    total_bytes: NDArray[np.int64]
    peak_bytes: NDArray[np.int64]
    live_bytes: NDArray[np.int64]
    records: NDArray[Any]

    @classmethod
    def build(
        cls,
        *,
        op_index: ArrayLike,
        total_bytes: ArrayLike,
        peak_bytes: ArrayLike,
        live_bytes: ArrayLike,
        allocator: Sequence[str] | StringColumn | str = "cpu",
        records: Iterable[Sequence[tuple[int, int]]] | None = None,
    ) -> Self:
        """From plain sequences."""
        index = np.asarray(op_index, dtype=np.int32)
        columns = cls(
            index,
            _strings(allocator, len(index)),
            _int64(total_bytes),
            _int64(peak_bytes),
            _int64(live_bytes),
            object_column([()] * len(index) if records is None else map(tuple, records)),
        )
        check_lengths(columns)
        return columns

    @classmethod
    def empty(cls) -> Self:
        """No rows."""
        return cls.build(op_index=[], total_bytes=[], peak_bytes=[], live_bytes=[])

    @property
    def allocator(self) -> NDArray[Any]:
        """The allocator's name per row."""
        return self.allocators.values

    def __repr__(self) -> str:
        ops = len(np.unique(self.op_index))
        return f"<MemoryColumns: {number(len(self), 'record')} of {number(ops, 'execution')}>"

    def __len__(self) -> int:
        return len(self.op_index)

    def for_rows(self, new_row: NDArray[np.int64]) -> Self:
        """The memory of ops that are kept: `new_row[old]` is an op's new row, -1 for dropped."""
        if not len(self):
            return self
        moved = new_row[self.op_index]
        keep = moved >= 0
        return type(self)(
            moved[keep].astype(np.int32),
            self.allocators[keep],
            self.total_bytes[keep],
            self.peak_bytes[keep],
            self.live_bytes[keep],
            self.records[keep],
        )

    @classmethod
    def concat(cls, parts: Sequence[Self], rows: Sequence[int]) -> Self:
        """The memory of several runs, of which `rows` says how many ops each has, as of one."""
        if not any(map(len, parts)):
            return cls.empty()
        return cls(**_one_below_the_other(parts, rows))
