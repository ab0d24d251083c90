"""Arithmetic on spans of time, in whole columns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stepscope.metadata.covered_times import merged_by_key
from stepscope.metadata.self_times import self_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = [
    "Covered",
    "highest_places",
    "merged",
    "merged_by_key",
    "outermost",
    "self_times",
    "sums_at",
]


def merged(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Spans joined where they touch or overlap, in order of time."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum(end[order], start[order])
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    first = np.flatnonzero(opens)
    last = np.concatenate([first[1:] - 1, [len(start) - 1]])
    return start[first], reach[last]


def sums_at(place: NDArray[np.integer], values: NDArray[np.integer], count: int) -> Ints:
    """The sum of the values at each of so many places, to the nanosecond however large they are.

    >>> sums_at(np.array([0, 2, 0]), np.array([1, 5, 2]), 3).tolist()
    [3, 0, 5]
    """
    found = np.zeros(count, np.int64)
    np.add.at(found, place, values)
    return found


class Covered:
    """How long at least one span of each key went on, taken in order of starts, some at a time.

    >>> covered = Covered(2)
    >>> covered.add(np.array([0, 1, 0]), np.array([0, 2, 5]), np.array([10, 4, 12]))
    >>> covered.add(np.array([0, 1]), np.array([11, 20]), np.array([15, 21]))
    >>> covered.ns.tolist()
    [15, 3]
    """

    def __init__(self, keys: int) -> None:
        self.ns = np.zeros(keys, np.int64)
        self._reach = np.full(keys, np.iinfo(np.int64).min)
        """Until when each key is covered."""

    def add(self, key: NDArray[np.integer], start: Ints, end: Ints) -> None:
        """Take in spans, none of which begins before the last one of those before."""
        if not len(start):
            return
        order = np.argsort(key, kind="stable")
        key, start = key[order], start[order]
        end = np.maximum(end[order], start)
        opens = np.ones(len(key), bool)
        opens[1:] = key[1:] != key[:-1]
        first = np.flatnonzero(opens)
        # The largest end before each, of the same key: ends as ranks, those of a later key above.
        before = np.empty_like(end)
        before[1:] = end[:-1]
        before[first] = self._reach[key[first]]
        ranked = np.sort(before)
        above = np.cumsum(opens) * len(key)
        reach = ranked[np.maximum.accumulate(above + np.searchsorted(ranked, before)) - above]
        np.add.at(self.ns, key, np.maximum(end - np.maximum(start, reach), 0))
        np.maximum.at(self._reach, key, end)


def outermost(start: Ints, end: Ints, lane: Ints) -> NDArray[np.intp]:
    """The spans that lie in no other on the same lane, in order of lanes and time.

    Lane 0 means that the thread is not known: all of its spans are there.
    """
    # Complement rather than negation: the least of all numbers has no opposite.
    order = np.lexsort((~end, start, lane))
    lanes, ends = lane[order], end[order]
    if not len(order):
        return order
    opens = np.concatenate([[True], lanes[1:] != lanes[:-1]])
    # Ends as ranks, and those of a later lane above all: one running maximum serves all lanes.
    keep = opens | (lanes == 0)
    # In place: runs of many workers are looked at side by side, and memory is what they lack.
    ranks = np.searchsorted(np.sort(ends), ends)
    del ends, lanes
    above = np.cumsum(opens)
    above *= len(order)
    ranks += above
    np.maximum.accumulate(ranks, out=above)
    keep[1:] |= ranks[1:] > above[:-1]
    kept: NDArray[np.intp] = order[keep]
    return kept


def highest_places(values: Ints, most: int) -> Ints:
    """Places of values, in order and not more than that: of each stretch the highest.

    >>> highest_places(np.array([1, 5, 2, 7, 3, 3]), 3).tolist()
    [1, 3, 4]
    """
    if len(values) <= most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), most + 1).astype(np.int64).tolist()
    return np.array([a + int(values[a:b].argmax()) for a, b in pairwise(edges)])
