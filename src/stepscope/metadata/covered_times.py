"""When at least one of several executions ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["merged_by_key"]


def merged_by_key(
    key: NDArray[np.int32], start: Ints, end: Ints
) -> tuple[NDArray[np.int32], Ints, Ints]:
    """Spans that overlap as one, those of each key by themselves; in order of keys and time.

    >>> key, start, end = np.array([1, 0, 1]), np.array([0, 5, 20]), np.array([30, 9, 40])
    >>> [column.tolist() for column in merged_by_key(key, start, end)]
    [[0, 1], [5, 0], [9, 40]]
    """
    if not len(start):
        return key, start, end
    order = np.lexsort((start, key))
    key, start = key[order], start[order]
    end = np.maximum(end[order], start)
    # The largest end so far, of the same key: ends as ranks, and those of a later key above all.
    ranked = np.sort(end)
    above = key.astype(np.int64) * len(key)
    reach = ranked[np.maximum.accumulate(above + np.searchsorted(ranked, end)) - above]
    opens = np.ones(len(key), bool)
    opens[1:] = (key[1:] != key[:-1]) | (start[1:] > reach[:-1])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(key)) - 1
    return key[first], start[first], reach[last]
