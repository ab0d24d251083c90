"""Where the time of all steps went, from the summaries of a recording with a budget alone.

Of each kind of step a summary has the op times of two lots of runs: those that were kept for what
they were, which stand for themselves, and those that the budget had left something for, which stand
for all others. A figure of all steps is the first plus the second times so many.

How sure a share is comes from the batches that the second lot was dealt out to: by how much the
share of one differs from that of another (a jackknife's variance, in its linear form). By how much
longer all steps took than those that were summed up is added: that time may have been any op's.

>>> from stepscope.metadata import OpColumns
>>> from stepscope.metadata.stored.step_summaries import StepSummary
>>> summary = StepSummary("train", at=[0, 960, 40, 0])
>>> for run in range(40):                              # MatMul takes 3 or 5 ms of 4 or 6
...     ms = 5_000_000 if run % 5 == 0 else 3_000_000
...     summary.lengths.add(ms + 1_000_000)
...     summary.noted(OpColumns.build(
...         name=["mul", "add"], op=["MatMul", "AddV2"], device=["/cpu:0"] * 2, thread=[1, 1],
...         scheduled_ns=[0, 0], start_ns=[0, ms], end_ns=[ms, ms + 1_000_000]), ns=ms + 1_000_000)
>>> profile = profile_of_summaries(StepsRecording(summaries=(summary,)), "type")
>>> [(row.key, row.calls, round(row.share, 3)) for row in profile.rows]
[('MatMul', 1000, 0.773), ('AddV2', 1000, 0.227)]
>>> profile.steps, profile.runs, profile.self_ns / 1e6 / 1000
(1000, 40, 4.4)
>>> 0 < profile.rows[0].share_within < 0.02
True
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from stepscope.analysis.sampling.sampled_profile import SampledProfile, SampledRow
from stepscope.metadata.readers.kept_file import StepsRecording

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata.stored.step_summaries import OpSums, StepSummary

    Floats = NDArray[np.float64]

__all__ = ["GROUPINGS", "SummedBy", "profile_of_summaries"]

SummedBy = Literal["type", "name"]
GROUPINGS: Final = ("type", "name")
"""What summaries can be asked by."""
_Z: Final = 1.96
_ACCURACY: Final = 0.01


def profile_of_summaries(recording: StepsRecording, by: SummedBy) -> SampledProfile:
    """What `op_profile` would give of all steps, by type or name of their ops."""
    parts = [part for summary in recording.summaries for part in _parts(summary)]
    keys: dict[str, int] = {}
    for part in parts:
        for key in part.keys(by):
            keys.setdefault(key, len(keys))
    table = _Table(keys, by)
    for part in parts:
        table.add(part)
    return table.profile(recording)


class _Part(NamedTuple):
    """The sums of some runs of a kind, and how many steps each stands for."""

    sums: OpSums
    weight: float
    stands_for: int
    """How many steps all of them do; 0 where each stands for itself."""

    def keys(self, by: SummedBy) -> list[str]:
        return self.sums.name if by == "name" else self.sums.op


def _parts(summary: StepSummary) -> Iterator[_Part]:
    if len(summary.apart):
        # Where nothing was left to chance what there is stands for all.
        alone = summary.runs / summary.apart_runs if not summary.noted_runs else 1.0
        stands_for = summary.runs if alone > 1 else 0
        yield _Part(summary.apart, alone, stands_for)
    if len(summary.ops):
        yield _Part(summary.ops, summary.scale, summary.runs - summary.apart_runs)


class _Table:
    """Weighed sums by key."""

    def __init__(self, keys: dict[str, int], by: SummedBy) -> None:
        self._by: SummedBy = by
        self._keys = keys
        count = len(keys)
        names = ("calls", "total", "own", "bytes", "covered")
        self._figures = {name: np.zeros(count) for name in names}
        self._longest = np.zeros(count)
        self._op = ["\0"] * count
        self._device = ["\0"] * count
        self._sketched: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        """Of each part the key of a number of a sketch, its bucket's value, and its weight."""
        self._runs = np.zeros(count)
        """In how many runs a key was, of those that were summed up."""
        self._of: list[tuple[_Part, NDArray[Any]]] = []

    def add(self, part: _Part) -> None:
        """Take in some runs."""
        sums, count = part.sums, len(self._keys)
        place = np.array([self._keys[key] for key in part.keys(self._by)], np.intp)
        self._of.append((part, place))
        named = {
            "calls": sums.calls,
            "total": sums.total_ns,
            "own": sums.own_ns,
            "bytes": sums.bytes,
        }
        for name, column in named.items():
            self._figures[name] += part.weight * np.bincount(place, column, count)
        if self._by == "type":
            types = np.array([self._keys[kind] for kind in sums.types], np.intp)
            covered = np.bincount(types, sums.type_covered_ns, count)
            sketches, series = sums.type_sketches, types
        else:
            covered = np.bincount(place, sums.total_ns, count)
            sketches, series = sums.sketches, place
        self._figures["covered"] += part.weight * covered
        np.maximum.at(self._longest, place, sums.longest_ns)
        of, values, counts = sketches.numbers()
        self._sketched.append((series[of], values, part.weight * counts))
        self._runs += np.bincount(series[of], counts, count)
        for key, op, device in zip(place.tolist(), sums.op, sums.device, strict=True):
            for known, text in ((self._op, op), (self._device, device)):
                known[key] = text if known[key] in ("\0", text) else ""

    def profile(self, recording: StepsRecording) -> SampledProfile:
        """The rows, the largest first."""
        figures, names = self._figures, list(self._keys)
        whole = max(float(figures["own"].sum()), 1.0)
        share = figures["own"] / whole
        within = self._within(share, whole, recording)
        order = sorted(range(len(names)), key=lambda i: (-figures["own"][i], names[i]))
        quantiles = self._quantiles()
        rows = tuple(
            SampledRow(
                key=names[i], op=self._op[i], device=self._device[i],
                calls=round(figures["calls"][i]), total_ns=round(figures["total"][i]),
                self_ns=round(figures["own"][i]), covered_ns=round(figures["covered"][i]),
                share=float(share[i]),
                mean_ns=float(figures["total"][i] / max(figures["calls"][i], 1)),
                max_ns=int(self._longest[i]), p50_ns=quantiles[i][0], p90_ns=quantiles[i][1],
                p99_ns=quantiles[i][2], bytes=round(figures["bytes"][i]),
                share_within=float(within[i]), p50_within=quantiles[i][3],
            )
            for i in order
        )  # fmt: skip
        covered = sum(part.weight * part.sums.covered_ns for part, _ in self._of)
        failed = sum(summary.failed for summary in recording.summaries)
        return SampledProfile(
            by=self._by,
            rows=rows,
            runs=sum(part.sums.runs for part, _ in self._of),
            calls=round(figures["calls"].sum()),
            total_ns=round(figures["total"].sum()),
            self_ns=round(whole) if names else 0,
            covered_ns=round(covered),
            not_ok={"failed": failed} if failed else {},
            steps=recording.steps,
        )

    def _within(self, share: Floats, whole: float, recording: StepsRecording) -> Floats:
        """How far shares may be off, 19 times of 20."""
        variance, fewest = np.zeros(len(share)), 16
        for part, place in self._of:
            runs = part.sums.runs
            if not part.stands_for or runs >= part.stands_for:
                continue
            batches = np.flatnonzero(part.sums.batch_runs)
            added = part.weight * float(part.sums.own_ns.sum()) / whole
            if len(batches) < 2:
                variance += (added / _Z) ** 2  # nothing is known of how they differ
                continue
            fewest = min(fewest, len(batches))
            off = np.zeros([len(batches), len(share)])
            for row, batch in enumerate(batches.tolist()):
                own = np.bincount(place, part.sums.batch_own_ns[batch], len(share))
                off[row] = own - share * own.sum()
            off -= off.mean(axis=0)
            spread = (off**2).sum(axis=0) * len(batches) / (len(batches) - 1)
            chosen = 1 - runs / part.stands_for
            variance += part.weight**2 * chosen * spread / whole**2
        unseen = self._unseen(recording)
        times = _Z + 2.4 / max(1, fewest - 1)
        return np.minimum(times * np.sqrt(variance) + unseen, 1.0)

    def _unseen(self, recording: StepsRecording) -> float:
        """The part of all steps' time by which they took longer than those summed up."""
        whole = seen = 0.0
        for summary in recording.summaries:
            if not summary.with_times or not summary.lengths.count:
                continue
            whole += summary.lengths.total / summary.lengths.count * summary.runs
            others = summary.scale * summary.noted_ns if summary.noted_runs else 0.0
            alone = 1.0 if summary.noted_runs else summary.runs / summary.apart_runs
            seen += others + alone * summary.apart_ns
        return max(0.0, whole - seen) / max(whole, 1.0)

    def _quantiles(self) -> list[tuple[float, float, float, float]]:
        """By key the median, 90th and 99th percentile of what runs took, and the median's error."""
        count = len(self._keys)
        if not self._sketched:
            return [(0.0, 0.0, 0.0, 0.0)] * count
        key, value, weight = (
            np.concatenate(column) for column in zip(*self._sketched, strict=True)
        )
        order = np.lexsort((value, key))
        key, value, weight = key[order], value[order], weight[order]
        edges = np.searchsorted(key, np.arange(count + 1))
        found = []
        for i in range(count):
            values = value[edges[i] : edges[i + 1]]
            if not len(values):
                found.append((0.0, 0.0, 0.0, 0.0))
                continue
            reached = np.cumsum(weight[edges[i] : edges[i + 1]])
            reached /= reached[-1]

            def at(q: float, values: Any = values, reached: Any = reached) -> float:
                return float(values[min(int(np.searchsorted(reached, q)), len(values) - 1)])

            away = min(0.5, _Z * 0.5 / math.sqrt(max(self._runs[i], 1.0)))
            middle = at(0.5)
            within = max(at(0.5 + away) - middle, middle - at(0.5 - away))
            found.append((middle, at(0.9), at(0.99), within + _ACCURACY * middle))
        return found
