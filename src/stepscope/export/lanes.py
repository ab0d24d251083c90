"""Which lane a slice is drawn on.

On one lane of a Chrome trace slices may follow or contain each other, but not cross: Perfetto drops
a slice that begins inside another and ends after it. Where that happens the slice moves to a
further lane of the same thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]


def drawing_order(start: Ints, end: Ints) -> Ints:
    """The order in which slices are drawn: by start, a containing one before what it contains."""
    return np.lexsort((-end, start))


def split_lanes(start: Ints, end: Ints, *, may_contain: bool) -> Ints:
    """For each slice the number of its lane, the lowest possible, beginning at 0.

    With `may_contain` a slice stays on the lane of one that contains it, as calls on a thread do;
    without, slices of a lane only follow each other.
    """
    order = drawing_order(start, end) if may_contain else np.lexsort((end, start))
    start, end = start[order], end[order]
    lanes = np.zeros(len(start), np.int64)
    if (start[1:] < np.maximum.accumulate(end)[:-1]).any():
        place = _first_fitting if may_contain else _first_free
        lanes[order] = place(start.tolist(), end.tolist())
    return lanes


def _first_free(starts: list[int], ends: list[int]) -> list[int]:
    busy_until: list[int] = []
    lanes = []
    for start, end in zip(starts, ends, strict=True):
        free = (lane for lane, until in enumerate(busy_until) if until <= start)
        lane = next(free, len(busy_until))
        busy_until[lane : lane + 1] = [end]
        lanes.append(lane)
    return lanes


def _first_fitting(starts: list[int], ends: list[int]) -> list[int]:
    open_on: list[list[int]] = []
    lanes = []
    for start, end in zip(starts, ends, strict=True):
        fitting = (lane for lane, open_ends in enumerate(open_on) if _fits(open_ends, start, end))
        lane = next(fitting, len(open_on))
        if lane == len(open_on):
            open_on.append([])
        open_on[lane].append(end)
        lanes.append(lane)
    return lanes


def _fits(open_ends: list[int], start: int, end: int) -> bool:
    """Whether a slice fits among those still open on a lane, given their ends, innermost last.

    Removes those that ended by `start`: slices come in order of their start.
    """
    while open_ends and open_ends[-1] <= start:
        open_ends.pop()
    return not open_ends or end <= open_ends[-1]
