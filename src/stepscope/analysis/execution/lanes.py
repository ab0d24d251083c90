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


# Lanes on which a slice is tried one after the other; with thousands that would take forever.
_TRIED = 32


def drawing_order(start: Ints, end: Ints) -> Ints:
    """The order in which slices are drawn: by start, a containing one before what it contains."""
    if (start[1:] > start[:-1]).all():
        return np.arange(len(start))
    return np.lexsort((-end, start))


def split_lanes(start: Ints, end: Ints, *, may_contain: bool) -> Ints:
    """For each slice the number of its lane, the lowest possible, beginning at 0.

    With `may_contain` a slice stays on the lane of one that contains it, as calls on a thread do;
    without, slices of a lane only follow each other, and so they do on the lanes beyond the first
    32 that so many crossing slices took.
    """
    order = drawing_order(start, end) if may_contain else np.lexsort((end, start))
    start, end = start[order], end[order]
    lanes = np.zeros(len(start), np.int64)
    if not may_contain:
        lanes[order] = lanes_in_order(start, end)
    elif len(meeting := _meeting(start, end)):
        lanes[order[meeting]] = _first_fitting(start[meeting], end[meeting])
    return lanes


def lanes_in_order(start: Ints, end: Ints, first_free_at: int | None = None) -> Ints:
    """For each slice, in order of starts, the lowest lane on which nothing is going on.

    With `first_free_at` lane 0 is taken until then.
    """
    if first_free_at is not None and len(start) and int(start[0]) < first_free_at:
        return np.array(_lowest_free(start, end, first_free_at), np.int64)
    lanes = np.zeros(len(start), np.int64)
    meeting = _meeting(start, end)
    if len(meeting):
        lanes[meeting] = _lowest_free(start[meeting], end[meeting], first_free_at)
    return lanes


def _meeting(start: Ints, end: Ints) -> Ints:
    """The slices, sorted by start, that meet another; those that do not have lane 0."""
    begins = np.ones(len(start) + 1, bool)
    begins[1:-1] = start[1:] >= np.maximum.accumulate(end)[:-1]
    return np.flatnonzero(~(begins[:-1] & begins[1:]))


def _lowest_free(start: Ints, end: Ints, first_free_at: int | None) -> list[int]:
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


def _first_fitting(start: Ints, end: Ints) -> Ints:
    open_on: list[list[int]] = [[] for _ in range(_TRIED)]
    lanes = []
    for begin, until in zip(start.tolist(), end.tolist(), strict=True):
        lane = 0
        for open_ends in open_on:
            # Ends of the slices still open on the lane, innermost last.
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if not open_ends or until <= open_ends[-1]:
                open_ends.append(until)
                break
            lane += 1
        lanes.append(lane)
    found = np.array(lanes, np.int64)
    rest = np.flatnonzero(found == _TRIED)
    if len(rest):
        found[rest] += lanes_in_order(start[rest], end[rest])
    return found
