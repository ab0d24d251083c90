"""Sums over any number of executions, taken in a batch at a time.

What is kept: per key the sums, per key and run one number, and the stretches of time in which
anything of a key ran, joined where they touch. It does not grow with the executions themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.intervals import merged, merged_by_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import StringColumn

    Ints: TypeAlias = NDArray[np.int64]
    Codes: TypeAlias = NDArray[np.int32]

__all__ = ["Batch", "ProfileSums", "summed"]

_PENDING = 1_000_000


class Batch(NamedTuple):
    """Executions, one row each; `run` numbers their runs through."""

    keys: StringColumn
    types: StringColumn
    devices: StringColumn
    run: Ints
    start: Ints
    end: Ints
    own: Ints
    bytes: Ints


class ProfileSums:
    """The sums so far; a key's place in every array is its place in `keys`."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.calls = self.total = self.own = self.longest = self.bytes = np.zeros(0, np.int64)
        self.type_of: list[str | None] = []
        self.device_of: list[str | None] = []
        self._per_run: list[tuple[Codes, Ints]] = []
        self._open = _Stretches()

    def add(self, batch: Batch) -> None:
        """Take in executions; a run must be in one batch as a whole."""
        keys = self.keys
        place = np.array([keys.setdefault(key, len(keys)) for key in batch.keys.table], np.int32)
        codes = place[batch.keys.codes] if len(place) else batch.keys.codes
        count = len(keys)
        more = count - len(self.calls)
        if more:
            grown = np.zeros(more, np.int64)
            for field in ("calls", "total", "own", "longest", "bytes"):
                setattr(self, field, np.concatenate([getattr(self, field), grown]))
            self.type_of += [None] * more
            self.device_of += [None] * more
        spent = np.maximum(batch.end - batch.start, 0)
        self.calls += np.bincount(codes, minlength=count)
        self.total += summed(codes, spent, count)
        self.own += summed(codes, batch.own, count)
        self.bytes += summed(codes, batch.bytes, count)
        np.maximum.at(self.longest, codes, spent)
        _share(self.type_of, codes, batch.types)
        _share(self.device_of, codes, batch.devices)
        if len(codes):
            first = int(batch.run.min())
            runs = int(batch.run.max()) - first + 1
            pairs, which = np.unique(
                codes.astype(np.int64) * runs + (batch.run - first), return_inverse=True
            )
            per_run = summed(which, spent, len(pairs))
            self._per_run.append(((pairs // runs).astype(np.int32), per_run))
        self._open.add(codes, batch.start, batch.end)

    def covered(self) -> tuple[Ints, int]:
        """Per key the time in which at least one execution ran, and that for all together."""
        return self._open.lengths(len(self.keys))

    def percentiles_per_run(self, percentiles: tuple[int, ...]) -> list[NDArray[np.float64]]:
        """Per key, percentiles of its time per run, over the runs that have it."""
        count = len(self.keys)
        if not self._per_run:
            return [np.zeros(count) for _ in percentiles]
        group = np.concatenate([codes for codes, _ in self._per_run])
        values = np.concatenate([values for _, values in self._per_run])
        order = np.lexsort((values, group))
        values = values[order]
        size = np.bincount(group, minlength=count)
        first = np.cumsum(size) - size
        results = []
        for percentile in percentiles:
            position = (size - 1).clip(0) * (percentile / 100)
            low = first + np.floor(position).astype(np.int64)
            high = first + np.ceil(position).astype(np.int64)
            below, above = (
                values[p.clip(0, len(values) - 1)].astype(np.float64) for p in (low, high)
            )
            results.append(below + (above - below) * (position - np.floor(position)))
        return results


class _Stretches:
    """When anything ran, by key: joined now and then, so that only what is apart is kept."""

    def __init__(self) -> None:
        self._parts: list[tuple[Codes, Ints, Ints]] = []
        self._rows = 0
        self._kept = 0

    def add(self, codes: Codes, start: Ints, end: Ints) -> None:
        self._parts.append((codes, start, np.maximum(end, start)))
        self._rows += len(codes)
        # Each joining handles at least as many new rows as old ones: linear in all.
        if self._rows > _PENDING + 2 * self._kept:
            self._join()

    def _join(self) -> None:
        codes, start, end = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts = [merged_by_key(codes, start, end)]
        self._rows = self._kept = sum(len(part[0]) for part in self._parts)

    def lengths(self, count: int) -> tuple[Ints, int]:
        total = np.zeros(count, np.int64)
        if not self._rows:
            return total, 0
        self._join()
        ((codes, firsts, lasts),) = self._parts
        np.add.at(total, codes, lasts - firsts)
        firsts, lasts = merged(firsts, lasts)
        return total, int((lasts - firsts).sum())


def summed(codes: NDArray[np.integer], values: Ints, count: int) -> Ints:
    """The sum of `values` per code, in integers throughout: a float would round large sums."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, codes, values)
    return sums


def _share(known: list[str | None], codes: Codes, of: StringColumn) -> None:
    """For each code the one string its executions share, or "" where they have several."""
    count = len(known)
    lowest = np.full(count, len(of.table), np.int64)
    highest = np.full(count, -1, np.int64)
    np.minimum.at(lowest, codes, of.codes)
    np.maximum.at(highest, codes, of.codes)
    for code in np.flatnonzero(highest >= 0).tolist():
        low, high = int(lowest[code]), int(highest[code])
        found = of.table[low] if low == high else ""
        known[code] = found if known[code] in (None, found) else ""
