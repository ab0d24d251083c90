"""Which lane a slice is drawn on.

On one lane of a Chrome trace slices may follow or contain each other, but not cross: Perfetto drops
a slice that begins inside another and ends after it. Where that happens the slice moves to a
further lane of the same thread.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]


def drawing_order(start: Ints, end: Ints) -> Ints:
    """The order in which slices are drawn: by start, a containing one before what it contains."""
    if (start[1:] > start[:-1]).all():
        return np.arange(len(start))
    return np.lexsort((-end, start))


def split_lanes(start: Ints, end: Ints, *, may_contain: bool) -> Ints:
    """For each slice the number of its lane, the lowest possible, beginning at 0.

    With `may_contain` a slice stays on the lane of one that contains it, as calls on a thread do;
    without, slices of a lane only follow each other.
    """
    order = drawing_order(start, end) if may_contain else np.lexsort((end, start))
    start, end = start[order], end[order]
    lanes = np.zeros(len(start), np.int64)
    # A slice that meets no other has lane 0; only those that do are looked at one by one.
    begins = np.ones(len(start) + 1, bool)
    begins[1:-1] = start[1:] >= np.maximum.accumulate(end)[:-1]
    meeting = np.flatnonzero(~(begins[:-1] & begins[1:]))
    if len(meeting):
        start, end = start[meeting], end[meeting]
        place = _first_fitting if may_contain else lowest_free_lanes
        lanes[order[meeting]] = place(start, end)
    return lanes


def lowest_free_lanes(start: Ints, end: Ints, first_free_at: int | None = None) -> list[int]:
    """For each slice, in order of starts, the lowest lane on which nothing is going on.

    With `first_free_at` lane 0 is taken until then.
    """
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    # The two lanes that nearly all slices are on are looked at first; the heaps hold the others.
    first = first_free_at
    second: int | None = None
    count = 2
    lanes = []
    for begin, until in zip(start.tolist(), end.tolist(), strict=True):
        if first is None or first <= begin:
            first, lane = until, 0
        elif second is None or second <= begin:
            second, lane = until, 1
        else:
            while busy and busy[0][0] <= begin:
                heappush(free, heappop(busy)[1])
            if free:
                lane = heappop(free)
            else:
                lane, count = count, count + 1
            heappush(busy, (until, lane))
        lanes.append(lane)
    return lanes


def _first_fitting(start: Ints, end: Ints) -> list[int]:
    open_on: list[list[int]] = []
    lanes = []
    for begin, until in zip(start.tolist(), end.tolist(), strict=True):
        lane = 0
        for open_ends in open_on:
            # Ends of the slices still open on the lane, innermost last.
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if not open_ends or until <= open_ends[-1]:
                break
            lane += 1
        else:
            open_on.append([])
        open_on[lane].append(until)
        lanes.append(lane)
    return lanes
