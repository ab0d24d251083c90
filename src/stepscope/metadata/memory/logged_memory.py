"""What an executor's log counted of memory: what each execution took of allocators and gave back.

A log has a row per change, by the microseconds of a clock. Here it becomes the memory of ops, and
the allocations of a run, which have to know more: which of the op's outputs an allocation is, and
in which order things happened inside of a microsecond, as far as that can be told.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns, object_column
from stepscope.metadata.strings import StringColumn

__all__ = ["CHANGE", "LoggedMemory", "changes_in_time", "memory_of_ops", "outputs_of_changes"]

CHANGE: Final = np.dtype(
    [("time_us", "i8"), ("bytes", "i8"), ("row", "u4"), ("allocator", "u2"), ("later", "u2")]
)


class LoggedMemory(NamedTuple):
    """What the executions of a run took of allocators."""

    changes: NDArray[Any]
    """As `CHANGE`: those of an execution and an allocator one after the other, in order. Bytes less
    than 0 were given back; `later` says whether the execution was over by then."""
    allocators: tuple[str, ...]


def memory_of_ops(memory: LoggedMemory, op_of: NDArray[np.int64]) -> MemoryColumns:
    """The memory of ops: `op_of` has the row of the op of each row of the log, -1 of none.

    >>> changes = np.array(
    ...     [(5, 40, 0, 0, 0), (5, 8, 0, 0, 0), (6, -40, 0, 0, 0), (9, -8, 0, 0, 1)], CHANGE
    ... )
    >>> found = memory_of_ops(LoggedMemory(changes, ("cpu",)), np.array([7]))
    >>> found.op_index.tolist(), found.total_bytes.tolist(), found.peak_bytes.tolist()
    ([7], [48], [48])
    >>> found.live_bytes.tolist(), found.records[0]
    ([8], ((5000, 40), (5000, 8), (6000, -40), (9000, -8)))
    """
    changes = memory.changes
    if not len(changes):
        return MemoryColumns.empty()
    row, allocator, size = changes["row"], changes["allocator"], changes["bytes"]
    new = (row[1:] != row[:-1]) | (allocator[1:] != allocator[:-1])
    firsts = np.concatenate([[0], np.flatnonzero(new) + 1])
    counts = np.diff(firsts, append=len(changes))
    level = np.cumsum(size)
    level -= np.repeat(level[firsts] - size[firsts], counts)
    live = np.add.reduceat(np.where(changes["later"] != 0, 0, size), firsts)
    pairs = list(zip((changes["time_us"] * 1000).tolist(), size.tolist(), strict=True))
    records = np.empty(len(firsts), object)
    ends = (firsts + counts).tolist()
    for place, (first, end) in enumerate(zip(firsts.tolist(), ends, strict=True)):
        records[place] = tuple(pairs[first:end])
    op = op_of[row[firsts]]
    order = np.argsort(op, kind="stable")
    order = order[op[order] >= 0]
    return MemoryColumns(
        op[order].astype(np.int32),
        StringColumn(allocator[firsts[order]].astype(np.int32), memory.allocators),
        np.add.reduceat(np.maximum(size, 0), firsts)[order],
        np.maximum.reduceat(level, firsts)[order],
        live[order],
        object_column(records[order]),
    )


def outputs_of_changes(
    changes: NDArray[Any], op: NDArray[np.int64], tensors: TensorColumns
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per change which tensor it is of, -1 of none, and the change that took what it gave back.

    `op` is the op of each change, as the tensors count them. What a kernel still has when it is
    over, and is as large as one of its outputs, is taken for that.
    """
    size = changes["bytes"]
    took, gave = np.flatnonzero(size > 0), np.flatnonzero(size < 0)
    pairs = _paired(_keys(op, np.abs(size)), took, gave)
    taken_at = np.full(len(changes), -1, np.int64)
    taken_at[gave] = pairs
    within = pairs[(pairs >= 0) & (changes["later"][gave] == 0)]
    left = np.setdiff1d(took, within, assume_unique=True)
    keys = _keys(
        np.concatenate([op[left], tensors.op_index]), np.concatenate([size[left], tensors.bytes])
    )
    found = _paired(keys, np.arange(len(left), len(keys)), np.arange(len(left)))
    which = np.full(len(changes), -1, np.int64)
    which[left] = np.where(found >= 0, found - len(left), -1)
    known = gave[pairs >= 0]
    which[known] = which[taken_at[known]]
    return which, taken_at


def changes_in_time(
    changes: NDArray[Any],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    taken_at: NDArray[np.int64],
    read_ns: NDArray[np.int64],
) -> NDArray[np.int64]:
    """When each change was, in nanoseconds: the clock tells microseconds, the ops' times more.

    `start_ns` and `end_ns` are those of its op, `read_ns` when its tensor was read last, 0 where
    that is not known. What was read last in the microsecond in which it was given back was given
    back by the reader.
    """
    told = changes["time_us"] * 1000
    later = changes["later"] != 0
    last = np.where(changes["bytes"] < 0, told + 999, told)
    inside = np.clip(last, start_ns, np.maximum(start_ns, end_ns))
    by_reader = later & (read_ns >= told) & (read_ns < told + 1000)
    found = np.where(later, np.where(by_reader, read_ns, told), inside)
    before = np.where(taken_at >= 0, found[taken_at], found)
    return np.asarray(np.maximum(found, before), np.int64)


def _keys(op: NDArray[Any], size: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers that are the same where both are."""
    order = np.lexsort((size, op))
    new = np.empty(len(order), np.int64)
    new[:1] = 0
    new[1:] = (op[order][1:] != op[order][:-1]) | (size[order][1:] != size[order][:-1])
    keys = np.empty(len(order), np.int64)
    keys[order] = np.cumsum(new)
    return keys


def _paired(
    keys: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Per place of `second` that of `first` with the same key, each once, in order; else -1."""
    ranks = [_ranks(keys[places]) for places in (first, second)]
    most = int(max((int(rank.max(initial=0)) for rank in ranks), default=0)) + 1
    known, asked = (
        keys[places] * most + rank for places, rank in zip((first, second), ranks, strict=True)
    )
    order = np.argsort(known)
    place = np.searchsorted(known, asked, sorter=order)
    place = np.minimum(place, max(len(known) - 1, 0))
    if not len(known):
        return np.full(len(second), -1, np.int64)
    found = order[place]
    return np.where(known[found] == asked, first[found], -1)


def _ranks(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same key come before each."""
    order = np.argsort(keys, kind="stable")
    inside = keys[order]
    firsts = np.flatnonzero(np.diff(inside, prepend=-1))
    counts = np.diff(firsts, append=len(keys))
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys)) - np.repeat(firsts, counts)
    return ranks
