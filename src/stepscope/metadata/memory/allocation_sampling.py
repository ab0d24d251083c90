"""Which allocations a sampled log keeps.

An allocation is drawn by the seed, its op, its slot and how many times that op has allocated
there before. A free follows its allocation: the owner of an address, or, where addresses are not
known, the op's output, whose allocations are freed in turn.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope.metadata.memory.allocations import FAILED, FREE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata.memory.allocations import AllocationColumns

    Rows: TypeAlias = NDArray[np.intp]

__all__ = ["sampled"]

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB


def sampled(
    columns: AllocationColumns, rate: float, seed: int, large_bytes: int
) -> NDArray[np.bool_]:
    """Which rows are logged. Refused requests and large allocations always are."""
    failed, freed = columns.event == FAILED, columns.event == FREE
    logged = np.ones(len(columns), bool)
    allocations = np.flatnonzero(~freed & ~failed)
    made = columns.select(allocations)
    logged[allocations] = _drawn(made, rate, seed) | (made.bytes >= large_bytes)

    known = columns.address != 0
    owner = np.stack(
        [
            columns.devices.codes.astype(np.int64),
            columns.address.view(np.int64),
            np.where(known, -1, columns.names.codes),
            np.where(known, -1, columns.slot),
        ]
    )
    rows = np.flatnonzero(~failed)
    rows = rows[np.lexsort((rows, *owner[:, rows]))]
    free, allocation = _pairs(_groups(owner[:, rows]), freed[rows])
    logged[rows[free]] = logged[rows[allocation]]
    return logged


def _groups(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each column's group, where equal columns stand side by side."""
    first = np.ones(keys.shape[1], bool)
    first[1:] = (np.diff(keys, axis=1) != 0).any(axis=0)
    return np.cumsum(first) - 1


def _starts(group: NDArray[np.int64]) -> Rows:
    return np.flatnonzero(np.diff(group, prepend=-1))


def _drawn(columns: AllocationColumns, rate: float, seed: int) -> NDArray[np.bool_]:
    count = len(columns)
    owner = np.stack([columns.names.codes.astype(np.int64), columns.slot.astype(np.int64)])
    order = np.lexsort((np.arange(count), *owner))
    group = _groups(owner[:, order])
    starts = _starts(group)
    seeds = [
        (seed << 40) & _MASK ^ (zlib.crc32(columns.names.table[name].encode()) << 8) ^ (slot & 0xFF)
        for name, slot in owner[:, order[starts]].T.tolist()
    ]
    before = (np.arange(count) - starts[group]).astype(np.uint64)
    draw = _mixed(_mixed(np.array(seeds, np.uint64))[group] + before * np.uint64(_GOLDEN))
    drawn = np.empty(count, bool)
    drawn[order] = draw < np.uint64(min(int(rate * (1 << 64)), _MASK))
    return drawn


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function: neighbouring numbers give unrelated draws."""
    value = value + np.uint64(_GOLDEN)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(_MIX_1)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(_MIX_2)
    mixed: NDArray[np.uint64] = value ^ (value >> np.uint64(31))
    return mixed


def _pairs(group: NDArray[np.int64], freed: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Each free with its allocation; the rows of a group stand together, in order of time.

    The n-th free of a group that finds something allocated frees the group's n-th allocation.
    """
    count = len(group)
    starts = _starts(group)
    total = np.cumsum(np.where(freed, -1, 1))
    balance = total - np.concatenate([[0], total])[starts][group]
    # A running minimum per group: each group lies far below the one before it.
    depth = group * (2 * count + 2)
    lowest = np.minimum(np.minimum.accumulate(balance - depth) + depth, 0)
    lowest_before = np.concatenate([[0], lowest[:-1]])
    lowest_before[starts] = 0
    matched = np.flatnonzero(freed & (balance >= lowest_before))
    made = np.flatnonzero(~freed)
    turn = np.arange(len(matched)) - np.searchsorted(group[matched], group[matched])
    return matched, made[np.searchsorted(group[made], group[matched]) + turn]
