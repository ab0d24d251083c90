"""What ran on each thread, in order of time, found without looking at every execution.

An execution that lies inside another on its thread (the body of a call) never covers more of a
span than the other does, so those that lie in no other tell what kept a thread busy. In order of
their beginnings their ends are in order too, and what overlaps a span is found by halving.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.intervals import outermost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns

    Ints = NDArray[np.int64]

__all__ = ["EndOrder", "ThreadOrder"]


class ThreadOrder:
    """The executions of a run by thread; those whose thread is not known are left out."""

    def __init__(self, ops: OpColumns) -> None:
        rows = outermost(ops.start_ns, ops.end_ns, ops.thread)
        rows = rows[ops.thread[rows] != 0]
        self._of_thread: dict[int, tuple[list[int], list[int], list[int]]] = {}
        lanes = ops.thread[rows]
        bounds = np.flatnonzero(np.diff(lanes)) + 1
        for mine in np.split(rows, bounds) if len(rows) else ():
            times = ops.start_ns[mine].tolist(), ops.end_ns[mine].tolist()
            self._of_thread[int(ops.thread[mine[0]])] = mine.tolist(), *times
        self._names = ops.names

    def busy_with(self, thread: int, begin: int, end: int) -> str:
        """The node that ran on a thread for most of a span; "" if none did."""
        most = max(self.ran(thread, begin, end), key=lambda one: one[1], default=None)
        return "" if most is None else self._names.table[self._names.codes[most[0]]]

    def ran(self, thread: int, begin: int, end: int) -> list[tuple[int, int]]:
        """The rows that ran on a thread in a span, in order, and for how much of it each did."""
        if thread not in self._of_thread or begin >= end:
            return []
        rows, starts, ends = self._of_thread[thread]
        first, last = bisect_right(ends, begin), bisect_left(starts, end)
        found = (
            (rows[place], min(ends[place], end) - max(starts[place], begin))
            for place in range(first, last)
        )
        return [(row, overlap) for row, overlap in found if overlap > 0]


class EndOrder:
    """The executions of a run by some key, in order of their ends."""

    def __init__(self, ops: OpColumns, key: Ints) -> None:
        order = np.lexsort((ops.end_ns, key))
        self._starts = ops.start_ns
        self._ends = ops.end_ns
        bounds = np.flatnonzero(np.diff(key[order])) + 1
        self._of_key = {
            int(key[mine[0]]): (mine.tolist(), ops.end_ns[mine].tolist())
            for mine in (np.split(order, bounds) if len(order) else ())
        }

    def last_over(self, key: int, until: int, began_before: int) -> list[int]:
        """The rows that were over last, at `until` or before, of those that began before a time."""
        rows, ends = self._of_key[key]
        place = bisect_right(ends, until) - 1
        found: list[int] = []
        while place >= 0:
            row = rows[place]
            if found and ends[place] < self._ends[found[0]]:
                break
            if self._starts[row] < began_before:
                found.append(row)
            place -= 1
        return sorted(found)
