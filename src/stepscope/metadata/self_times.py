"""How long executions took themselves, without what ran nested in them.

Of a run of millions of executions the lanes are looked at one after the other, so that what is
worked out on the way is as large as one lane and not several times the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["self_times"]

_MANY: Final = 1_000_000
_FEW_LANES: Final = 64


def self_times(start: Ints, end: Ints, lane: Ints) -> Ints:
    """Per span its length without the spans that lie inside it on the same lane.

    Lane 0 means that the thread is not known: its spans are taken for separate ones.

    >>> start, end = np.array([0, 10, 5]), np.array([100, 30, 8])
    >>> self_times(start, end, np.array([1, 1, 2])).tolist()
    [80, 20, 3]
    """
    # A clock may have been set back meanwhile.
    own: Ints = np.maximum(end, start)
    own -= start
    for rows in _lanes(lane):
        _without_nested(own, rows, start[rows], np.maximum(end[rows], start[rows]), lane[rows])
    np.maximum(own, 0, out=own)
    return own


def _lanes(lane: Ints) -> Iterator[Ints]:
    """Rows of lanes that are known: all of them, of very many those of each lane by itself."""
    if len(lane) > _MANY:
        lanes = np.unique(lane).tolist()
        if len(lanes) <= _FEW_LANES:
            for one in lanes:
                if one:
                    yield np.flatnonzero(lane == one)
            return
    yield np.flatnonzero(lane)


def _without_nested(own: Ints, rows: Ints, start: Ints, end: Ints, lane: Ints) -> None:
    """Take off the length of those of the rows that are nested in another."""
    if len(rows) > _MANY and (start[1:] >= end[:-1]).all():
        return  # of one lane, one after the other
    order = np.lexsort((~end, start, lane))
    if len(order) < 2:
        return
    start, end, lane, rows = start[order], end[order], lane[order], rows[order]
    nested = (lane[1:] == lane[:-1]) & (start[1:] < end[:-1])
    if not nested.any():
        return
    open_spans: list[tuple[int, int]] = []
    on = None
    for row, begin, until, of in zip(
        rows.tolist(), start.tolist(), end.tolist(), lane.tolist(), strict=True
    ):
        if of != on:
            open_spans.clear()
            on = of
        while open_spans and open_spans[-1][1] <= begin:
            open_spans.pop()
        if open_spans and until <= open_spans[-1][1]:
            own[open_spans[-1][0]] -= until - begin
        open_spans.append((row, until))
