"""Sums over any number of executions, taken in a batch at a time.

What is kept: per key the sums, per key and run one number, and the stretches of time in which
anything of a key ran, joined where they touch. It does not grow with the executions themselves.

A run of millions of executions is taken in as it lies in its columns, some at a time: what is
worked out on the way is as large as `_CHUNK` rows. Of its stretches no more is kept than the
columns that there are, until they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.intervals import Covered, merged, merged_by_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.metadata import StringColumn

    Ints: TypeAlias = NDArray[np.int64]
    Codes: TypeAlias = NDArray[np.int32]

__all__ = ["Batch", "ProfileSums", "summed"]

_PENDING: Final = 1_000_000
_CHUNK: Final = 500_000


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
        before = self.total.copy()
        for rows in _chunks(len(codes)):
            of, spent = codes[rows], np.maximum(batch.end[rows] - batch.start[rows], 0)
            self.calls += np.bincount(of, minlength=count)
            self.total += summed(of, spent, count)
            self.own += summed(of, batch.own[rows], count)
            self.bytes += summed(of, batch.bytes[rows], count)
            np.maximum.at(self.longest, of, spent)
            _share(self.type_of, of, batch.types[rows])
            _share(self.device_of, of, batch.devices[rows])
        if len(codes):
            self._per_run.append(_per_run(batch, codes, self.total - before))
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


def _chunks(rows: int) -> Iterator[slice]:
    for first in range(0, rows, _CHUNK):
        yield slice(first, min(rows, first + _CHUNK))


def _per_run(batch: Batch, codes: Codes, spent: Ints) -> tuple[Codes, Ints]:
    """The time of each key in each of the batch's runs; `spent` is that in all of them."""
    first, last = int(batch.run[0]), int(batch.run[-1])
    if first == last:
        there = np.zeros(len(spent), bool)
        there[codes] = True
        mine = np.flatnonzero(there)
        return mine.astype(np.int32), spent[mine]
    runs = last - first + 1
    pairs, which = np.unique(
        codes.astype(np.int64) * runs + (batch.run - first), return_inverse=True
    )
    per_run = summed(which, np.maximum(batch.end - batch.start, 0), len(pairs))
    return (pairs // runs).astype(np.int32), per_run


class _Stretches:
    """When anything ran, by key: joined now and then, so that only what is apart is kept.

    Executions of one large run, which come in order of their starts, are kept as they are: joining
    them would leave nearly as many. They are looked at from the first to the last in the end.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Codes, Ints, Ints]] = []
        self._long: list[tuple[Codes, Ints, Ints]] = []
        self._rows = 0
        self._kept = 0

    def add(self, codes: Codes, start: Ints, end: Ints) -> None:
        if len(codes) > _PENDING and (start[1:] >= start[:-1]).all():
            self._long.append((codes, start, end))
            return
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
        if len(self._long) == 1 and not self._rows:
            return _in_order(*self._long[0], count)
        self._parts += [(codes, start, np.maximum(end, start)) for codes, start, end in self._long]
        self._rows += sum(len(codes) for codes, _, _ in self._long)
        self._long = []
        total = np.zeros(count, np.int64)
        if not self._rows:
            return total, 0
        self._join()
        ((codes, firsts, lasts),) = self._parts
        np.add.at(total, codes, lasts - firsts)
        firsts, lasts = merged(firsts, lasts)
        return total, int((lasts - firsts).sum())


def _in_order(codes: Codes, start: Ints, end: Ints, count: int) -> tuple[Ints, int]:
    by_key, in_all = Covered(count), Covered(1)
    for rows in _chunks(len(codes)):
        by_key.add(codes[rows], start[rows], end[rows])
        in_all.add(np.zeros_like(codes[rows]), start[rows], end[rows])
    return by_key.ns, int(in_all.ns[0])


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
