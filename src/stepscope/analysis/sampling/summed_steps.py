"""How long all steps of a recording with a budget took, and what limits them.

How many there were, how many failed and how long they took is in the recording's summaries: counts
are of all steps, lengths of all of which one was noted, quantiles within 1%. What the time of a
step went into is seen in its first run and the random sample of its kind, of which some are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.program.steps import StepRow, Steps
from stepscope.analysis.runs import NamedRun
from stepscope.analysis.sampling.weights import samples
from stepscope.metadata.readers.store_file import numbered_runs
from stepscope.metadata.stored.quantiles import QuantileSketch

if TYPE_CHECKING:
    from stepscope.analysis.program.verdict import Verdict
    from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording
    from stepscope.metadata.stored.step_summaries import StepSummary

__all__ = ["SampledRuns", "of_all_steps", "steps_of_summaries", "verdict_of_all"]

READ: Final = 20
"""So many runs of each kind's sample are looked at."""


class SampledRuns:
    """The first run of each kind of step and some of its random sample, read in their order.

    After iterating, `kinds` has by what analyses call a kind of run what the recorder does.
    """

    def __init__(self, store: Path, recording: StepsRecording, most: int = READ) -> None:
        self.kinds: dict[str, set[str]] = {}
        self._store = store
        self._kind: dict[int, str] = {}
        first: dict[str, KeptRun] = {}
        for run in recording.kept:
            if "first" in run.reasons:
                first.setdefault(run.kind, run)
        chosen = [run for runs in samples(recording).values() for run in runs[:most]]
        self._runs = {run.number: run for run in (*first.values(), *chosen)}

    @property
    def numbers(self) -> list[int]:
        """Those of the runs, in order."""
        return sorted(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[NamedRun]:
        names = RunKinds()
        for number, metadata in numbered_runs(self._store, self.numbers):
            kept = self._runs[number]
            run = NamedRun(kept.name, metadata)
            self.kinds.setdefault(names.of(run), set()).add(kept.kind)
            yield run


def of_all_steps(
    row: StepRow, summaries: Sequence[StepSummary], kept: Iterable[KeptRun] = ()
) -> StepRow:
    """A row of some runs, with the figures of all of its kind from their summaries.

    What only all lengths in their order could tell, a trend and which lie far out, is not known.
    `kept` are all runs in the store: `worst_run` is the place of the longest among them.
    """
    lengths = QuantileSketch()
    for summary in summaries:
        lengths.merge(summary.lengths)
    if not lengths.count:
        return row
    runs = sum(summary.runs for summary in summaries)
    return replace(
        row,
        runs=runs,
        total_ns=round(lengths.total / lengths.count * runs),
        median_ns=lengths.quantile(0.5),
        p90_ns=lengths.quantile(0.9),
        p99_ns=lengths.quantile(0.99),
        worst_ns=lengths.most,
        worst_run=_longest(kept, {summary.kind for summary in summaries}),
        trend=0.0,
        failed=sum(summary.failed for summary in summaries),
        far=0,
        outliers=(),
        rests_on=lengths.count,
    )


def _longest(kept: Iterable[KeptRun], kinds: set[str]) -> int:
    lengths = [
        (run.length_ns, place)
        for place, run in enumerate(kept)
        if run.kind in kinds and "slowest" in run.reasons
    ]
    return max(lengths, default=(0, -1))[1]


def verdict_of_all(
    found: Verdict, recording: StepsRecording, kinds: Mapping[str, set[str]]
) -> Verdict:
    """A verdict on `SampledRuns`, with the lengths of all steps; `kinds` is what these told."""
    rows = []
    for row in found.rows:
        theirs = [one for one in recording.summaries if one.kind in kinds.get(row.step.key, ())]
        rows.append(replace(row, step=of_all_steps(row.step, theirs, recording.kept)))
    rows.sort(key=lambda row: -row.step.total_ns)
    total = sum(row.step.total_ns for row in rows)
    return replace(found, rows=tuple(rows), runs=recording.steps, total_ns=total)


def steps_of_summaries(recording: StepsRecording) -> Steps:
    """A row for each kind of step, from the summaries alone: no run is read.

    >>> from stepscope.metadata.readers.kept_file import StepsRecording
    >>> from stepscope.metadata.stored.step_summaries import StepSummary
    >>> summary = StepSummary("train_step", "embedded", at=[900_000, 99_998, 0, 2], failed=1)
    >>> summary.lengths.add_all([4_000_000] * 100_000)
    >>> row, = steps_of_summaries(StepsRecording(summaries=(summary,)))
    >>> row.key, row.runs, row.rests_on, round(row.median_ns / 1e6, 1)
    ('train_step', 1000000, 100000, 4.0)
    """
    ops = defaultdict(list)
    first: dict[str, tuple[int, KeptRun]] = {}
    for place, run in enumerate(recording.kept):
        if run.ops:
            ops[run.kind].append(run.ops)
        if "first" in run.reasons:
            first.setdefault(run.kind, (place, run))
    rows = []
    for summary in recording.summaries:
        counts = sorted(ops[summary.kind])
        place, began = first.get(summary.kind, (0, None))
        bare = StepRow(
            key=summary.kind, engine=summary.engine, runs=summary.runs, total_ns=0,
            first_ns=0 if began is None else began.length_ns, first_run=place,
            median_ns=0.0, p90_ns=0.0, p99_ns=0.0, worst_ns=0, worst_run=-1, trend=0.0,
            ops=counts[len(counts) // 2] if counts else 0, failed=summary.failed, far=0,
            outliers=(), lengths_ns=(),
        )  # fmt: skip
        rows.append(of_all_steps(bare, [summary], recording.kept))
    rows.sort(key=lambda row: (-row.total_ns, row.key))
    return Steps(tuple(rows), recording.steps, sum(row.total_ns for row in rows))
