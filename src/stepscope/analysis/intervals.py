"""Arithmetic on spans of time, in whole columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["merged", "self_times"]


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


def self_times(start: Ints, end: Ints, lane: Ints) -> Ints:
    """Per span its length without the spans that lie inside it on the same lane.

    Lane 0 means that the thread is not known: its spans are taken for separate ones.
    """
    own: Ints = np.maximum(end - start, 0)
    known = np.flatnonzero(lane != 0)
    order = known[np.lexsort((-end[known], start[known], lane[known]))]
    if len(order) < 2:
        return own
    lanes, starts, ends = lane[order], start[order], end[order]
    nested = (lanes[1:] == lanes[:-1]) & (starts[1:] < ends[:-1])
    if not nested.any():
        return own
    open_spans: list[int] = []
    for row in order.tolist():
        while open_spans and (
            lane[open_spans[-1]] != lane[row] or end[open_spans[-1]] <= start[row]
        ):
            open_spans.pop()
        if open_spans and end[row] <= end[open_spans[-1]]:
            own[open_spans[-1]] -= end[row] - start[row]
        open_spans.append(row)
    np.maximum(own, 0, out=own)
    return own
