"""Quantiles of numbers that are not kept: DDSketch, which counts them in buckets that grow by 2%.

A quantile that a sketch gives is within 1% of one of the numbers that were added, whatever their
distribution, and sketches of parts add up to the sketch of the whole (Masson, Rim, Lee: DDSketch,
VLDB 2019). Numbers are at least 0, and below 1 all the same: nanoseconds.

>>> sketch = QuantileSketch()
>>> for ns in range(1, 1001):
...     sketch.add(ns * 1000)
>>> round(sketch.quantile(0.5) / 1000), round(sketch.quantile(0.99) / 1000)
(504, 995)
>>> len(sketch.counts) < 400
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ACCURACY", "QuantileSketch", "QuantileSketches"]

ACCURACY: Final = 0.01
_GROWTH: Final = (1 + ACCURACY) / (1 - ACCURACY)
_PER_LOG: Final = 1 / math.log(_GROWTH)
_MIDDLE: Final = 2 / (1 + _GROWTH)
_BUCKETS: Final = 1 << 12
"""More than 64 bits of nanoseconds need."""


class QuantileSketch:
    """Of one series of numbers. `counts` has the buckets that hold any."""

    __slots__ = ("count", "counts", "most", "total")

    def __init__(self, counts: Mapping[int, int] | None = None, total: int = 0, most: int = 0):
        self.counts: dict[int, int] = dict(counts or {})
        self.count = sum(self.counts.values())
        self.total = total
        self.most = most

    def add(self, value: int) -> None:
        """One more number."""
        bucket = math.ceil(math.log(value) * _PER_LOG) if value > 1 else 0
        counts = self.counts
        counts[bucket] = counts.get(bucket, 0) + 1
        self.count += 1
        self.total += value
        self.most = max(value, self.most)

    def add_all(self, values: Sequence[int]) -> None:
        """Many numbers at once."""
        if not values:
            return
        numbers = np.maximum(np.asarray(values, np.int64), 1)
        buckets = np.ceil(np.log(numbers) * _PER_LOG).astype(np.int64)
        for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):
            place = int(bucket)
            self.counts[place] = self.counts.get(place, 0) + int(count)
        self.count += len(values)
        self.total += sum(values)
        self.most = max(self.most, *values)

    def merge(self, other: QuantileSketch) -> None:
        """All that the other holds, too."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.count += other.count
        self.total += other.total
        self.most = max(self.most, other.most)

    def quantile(self, q: float) -> float:
        """The number that a share `q` of all is at most; 0 where there is none."""
        rank = q * (self.count - 1)
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen > rank:
                return min(_value(bucket), float(self.most)) if self.most else 0.0
        return 0.0


def _value(bucket: int) -> float:
    """What stands for the numbers of a bucket: none is further from it than the accuracy."""
    return float(_MIDDLE * _GROWTH**bucket)


class QuantileSketches:
    """Of many series, by number from 0 on; kept as the buckets that hold any, in order.

    >>> sketches = QuantileSketches()
    >>> sketches.add(np.array([0, 1, 0, 0]), np.array([100, 7000, 300, 200]))
    >>> sketches.quantile(0.5, 3).round().tolist()
    [198.0, 6976.0, 0.0]
    """

    __slots__ = ("counts", "keys")

    def __init__(self, keys: Any = (), counts: Any = ()) -> None:
        self.keys: NDArray[np.int64] = np.asarray(keys, np.int64)
        """The series times `_BUCKETS`, plus the bucket; in order, each once."""
        self.counts: NDArray[np.int64] = np.asarray(counts, np.int64)

    def add(self, series: NDArray[Any], values: NDArray[Any]) -> None:
        """Numbers, each of a series."""
        buckets = np.zeros(len(values), np.int64)
        large = values > 1
        buckets[large] = np.ceil(np.log(values[large]) * _PER_LOG)
        keys, counts = np.unique(series.astype(np.int64) * _BUCKETS + buckets, return_counts=True)
        self._merge(keys, counts)

    def merge(self, other: QuantileSketches) -> None:
        """All that the other holds, too."""
        self._merge(other.keys, other.counts)

    def _merge(self, keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        if not len(self.keys):
            self.keys, self.counts = keys, counts
            return
        both, place = np.unique(np.concatenate([self.keys, keys]), return_inverse=True)
        sums = np.zeros(len(both), np.int64)
        np.add.at(sums, place, np.concatenate([self.counts, counts]))
        self.keys, self.counts = both, sums

    def numbers(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Of each bucket that holds any: the series, what stands for its numbers, how many.

        >>> sketches = QuantileSketches()
        >>> sketches.add(np.array([0, 1, 0]), np.array([100, 7000, 100]))
        >>> series, numbers, counts = sketches.numbers()
        >>> series.tolist(), (numbers / [100, 7000]).round(1).tolist(), counts.tolist()
        ([0, 1], [1.0, 1.0], [2, 1])
        """
        bucket = self.keys % _BUCKETS
        return self.keys // _BUCKETS, _MIDDLE * _GROWTH ** bucket.astype(np.float64), self.counts

    def quantile(self, q: float, series: int) -> NDArray[np.float64]:
        """The quantile of each series up to that many; 0 where it holds no number."""
        found = np.zeros(series)
        of = self.keys // _BUCKETS
        sizes = np.zeros(series, np.int64)
        np.add.at(sizes, of, self.counts)
        ends = np.cumsum(self.counts)
        before = np.concatenate([[0], np.cumsum(sizes)])[of]
        reached = (ends - before) > q * (sizes[of] - 1)
        # The first bucket of each series that reaches its rank.
        places = np.flatnonzero(reached)
        first, where = np.unique(of[places], return_index=True)
        found[first] = _MIDDLE * _GROWTH ** (self.keys[places[where]] % _BUCKETS).astype(np.float64)
        return found
