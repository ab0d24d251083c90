"""How long executions took themselves, without what ran nested in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["self_times"]


def self_times(start: Ints, end: Ints, lane: Ints) -> Ints:
    """Per span its length without the spans that lie inside it on the same lane.

    Lane 0 means that the thread is not known: its spans are taken for separate ones.
    """
    end = np.maximum(end, start)  # a clock may have been set back meanwhile
    own: Ints = end - start
    known = np.flatnonzero(lane != 0)
    order = known[np.lexsort((~end[known], start[known], lane[known]))]
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
