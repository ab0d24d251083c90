"""Where the time of all steps went, estimated from the runs that a recorder with a budget kept.

Each run counts as many times as it stands for steps (`weights`).

What is estimated for all steps has an **interval**, in which the figure of a recording of every
step is 19 times of 20: from how much sampled runs differ, by the usual theory of stratified samples
(a share is a ratio of two estimates; its error is linearized). How long steps took is known of more
of them than have op times: what these took beyond what the weighed runs did may have been any op's,
and is part of the interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.analysis.intervals import merged, merged_by_key
from stepscope.analysis.profile.op_profile import By, OpProfile, OpRow, groups_by
from stepscope.analysis.runs import NamedRun, iter_named_runs
from stepscope.metadata.self_times import self_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.profile.op_profile import Groups
    from stepscope.analysis.sampling.weights import Weights

__all__ = ["SampledProfile", "SampledRow", "sampled_profile"]

_Z: Final = 1.96


@dataclass(frozen=True, slots=True)
class SampledRow(OpRow):
    """An `OpRow`, and how far its share and median may be off, 19 times of 20."""

    share_within: float
    p50_within: float


@dataclass(frozen=True, slots=True)
class SampledProfile(OpProfile):
    """An `OpProfile` for all steps of a recording, estimated from those that were kept.

    `steps` is how many there were; `runs` on how many it rests.
    """

    rows: tuple[SampledRow, ...]
    steps: int = 0


def sampled_profile(runs: Any, weights: Weights, by: By | str = "type") -> SampledProfile:
    """What `op_profile` would give of all steps, from runs with their names."""
    chosen, groups = groups_by(by)
    sums = _Sums()
    for run in iter_named_runs(runs):
        weight = weights.of_run(run.name)
        if weight > 0 and len(run.metadata.ops):
            sums.add(run, groups, weight, weights.kind_of(run.name))
    return sums.profile(chosen, weights)


class _Sums:
    """Weighted sums by key, and what each run took of each."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.op: list[str] = []
        self.device: list[str] = []
        self.runs: list[tuple[float, str, NDArray[np.intp], NDArray[np.float64]]] = []
        """Weight, kind of a sample, and by key self and total time, calls, bytes, longest, busy."""
        self.covered = 0.0
        self.length = 0.0
        """How long the runs took, weighed."""
        self.not_ok: Counter[str] = Counter()

    def add(self, run: NamedRun, groups: Groups, weight: float, kind: str) -> None:
        ops, column = run.metadata.ops, groups(run.metadata)
        place = np.array([self._place(key) for key in column.table], np.intp)
        used, codes = np.unique(place[column.codes], return_inverse=True)
        self._name(used, codes, ops)
        took = np.maximum(ops.end_ns - ops.start_ns, 0)
        own = self_times(ops.start_ns, ops.end_ns, ops.thread)
        longest = np.zeros(len(used))
        np.maximum.at(longest, codes, took)
        starts, ends = ops.start_ns, np.maximum(ops.end_ns, ops.start_ns)
        open_codes, firsts, lasts = merged_by_key(codes.astype(np.int32), starts, ends)
        by_key = [
            np.bincount(codes, weights=values, minlength=len(used))
            for values in (own, took, np.ones(len(ops)), ops.output_bytes)
        ]
        busy = np.bincount(open_codes, weights=lasts - firsts, minlength=len(used))
        self.runs.append((weight, kind, used, np.array([*by_key, longest, busy])))
        firsts, lasts = merged(np.sort(starts), ends[np.argsort(starts, kind="stable")])
        self.covered += weight * float((lasts - firsts).sum())
        recorded = run.metadata.recorded()
        call = recorded.call if recorded is not None else None
        length = (
            float(ends.max() - starts.min()) if call is None else call.ended_ns - call.started_ns
        )
        self.length += weight * length
        if not run.metadata.status.ok:
            self.not_ok[run.metadata.status.in_words] += 1

    def _place(self, key: str) -> int:
        place = self.keys.setdefault(key, len(self.keys))
        if place == len(self.op):
            self.op.append("\0")
            self.device.append("\0")
        return place

    def _name(self, used: NDArray[np.intp], codes: NDArray[np.intp], ops: Any) -> None:
        for known, column in ((self.op, ops.ops), (self.device, ops.devices)):
            pairs = np.unique(codes.astype(np.int64) * (len(column.table) + 1) + column.codes)
            for pair in pairs.tolist():
                code, value = divmod(pair, len(column.table) + 1)
                key = int(used[code])
                text = column.table[value]
                known[key] = text if known[key] in ("\0", text) else ""

    def profile(self, by: By, weights: Weights) -> SampledProfile:
        count = len(self.keys)
        sums = np.zeros([4, count])
        longest, busy = np.zeros(count), np.zeros(count)
        for weight, _, used, figures in self.runs:
            sums[:, used] += weight * figures[:4]
            longest[used] = np.maximum(longest[used], figures[4])
            busy[used] += weight * figures[5]
        own, total, calls, size = sums
        whole = float(own.sum())
        share = own / whole if whole else own
        within = self._share_within(share, whole, weights)
        medians = [self._quantiles(key, weights) for key in range(count)]
        keys = list(self.keys)
        order = sorted(range(count), key=lambda i: (-own[i], keys[i]))
        rows = tuple(
            SampledRow(
                key=keys[i], op=self.op[i].strip("\0"), device=self.device[i].strip("\0"),
                calls=round(calls[i]), total_ns=round(total[i]), self_ns=round(own[i]),
                covered_ns=round(busy[i]), share=float(share[i]),
                mean_ns=float(total[i] / max(calls[i], 1e-9)), max_ns=int(longest[i]),
                p50_ns=medians[i][0], p90_ns=medians[i][1], p99_ns=medians[i][2],
                bytes=round(size[i]), share_within=float(within[i]), p50_within=medians[i][3],
            )
            for i in order
        )  # fmt: skip
        return SampledProfile(
            by=by, rows=rows, runs=len(self.runs), calls=round(calls.sum()),
            total_ns=round(total.sum()), self_ns=round(whole), covered_ns=round(self.covered),
            not_ok=dict(self.not_ok), steps=weights.steps,
        )  # fmt: skip

    def _share_within(
        self, share: NDArray[np.float64], whole: float, weights: Weights
    ) -> NDArray[np.float64]:
        """By how much shares may be off: the spread, in each sample, of what its runs add."""
        variance = np.zeros(len(share))
        for kind, (sampled, stands_for) in weights.sampled.items():
            rows = [run for run in self.runs if run[1] == kind]
            count = len(rows)
            if count < 2 or not whole:
                # Nothing is known of how they differ: all that it adds may be wrong.
                added = sum(weight * figures[0].sum() for weight, _, _, figures in rows)
                variance += (added / max(whole, 1.0) / _Z) ** 2 if stands_for > count else 0.0
                continue
            off = np.zeros([count, len(share)])
            for place, (_, _, used, figures) in enumerate(rows):
                off[place, used] = figures[0]
                off[place] -= share * figures[0].sum()
            spread = off.var(axis=0, ddof=1)
            variance += stands_for**2 * (1 - sampled / stands_for) * spread / count / whole**2
        unseen = max(0.0, weights.length_ns - self.length) / max(weights.length_ns, 1.0)
        return np.minimum(_of_few(self.runs) * np.sqrt(variance) + unseen, 1.0)

    def _quantiles(self, key: int, weights: Weights) -> tuple[float, float, float, float]:
        """Median, 90th and 99th percentile of what a key took per run, and the median's error."""
        values, weight = [], []
        for one, _, used, figures in self.runs:
            place = np.searchsorted(used, key)
            if place < len(used) and used[place] == key:
                values.append(figures[1][place])
                weight.append(one)
        order = np.argsort(values)
        ordered = np.array(values)[order]
        reached = np.cumsum(np.array(weight)[order])
        reached /= reached[-1]

        def at(q: float) -> float:
            return float(ordered[min(int(np.searchsorted(reached, q)), len(ordered) - 1)])

        # By order statistics: so many of a sample lie below its median, by chance alone.
        sample = max(1, sum(count for count, _ in weights.sampled.values()))
        away = _Z * 0.5 / math.sqrt(min(sample, len(values)))
        return at(0.5), at(0.9), at(0.99), max(at(0.5 + away) - at(0.5), at(0.5) - at(0.5 - away))


def _of_few(runs: Iterable[Any]) -> float:
    """How many standard errors hold 19 of 20: more for a small sample (Student's t, nearly)."""
    count = max(2, sum(1 for run in runs if run[1]))
    return _Z + 2.4 / (count - 1)
