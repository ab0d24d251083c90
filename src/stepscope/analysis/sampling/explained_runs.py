"""Why runs took as they did that a recorder kept because something happened in them.

Each is compared with the random sample of its kind: which op took longer, waited longer for a
thread, or that no op was running. Before all that comes whether the process ran at all: while it
stands still an op that is under way takes longer, too, and is not to blame.

Of a run whose op times were given up for the budget there is nothing to compare: then it says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.analysis.program.steps import StepSums, cause_in_words
from stepscope.analysis.run_length import run_span
from stepscope.analysis.runs import NamedRun
from stepscope.metadata import readable
from stepscope.metadata.readers.store_file import numbered_runs
from stepscope.metadata.stored.step_summaries import Level

if TYPE_CHECKING:
    from stepscope.analysis.program.steps import Cause, Outlier
    from stepscope.metadata import RunMetadata
    from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording

__all__ = ["HAPPENED", "ExplainedRun", "explained_runs", "happened"]

HAPPENED: Final = frozenset({"failed", "trigger"})
"""The reasons for which a run is kept because of what happened in it."""
_COMPARED: Final = 12
_TOLD_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """A run that something happened in: `why` says all of it in words.

    `causes` are what was different from others of its kind, the largest first; `stood_still_ns` is
    how long the process did not run meanwhile, or before it since the run before.
    """

    number: int
    kind: str
    reasons: tuple[str, ...]
    why: str
    causes: tuple[Cause, ...] = ()
    stood_still_ns: int = 0


def happened(recording: StepsRecording) -> list[KeptRun]:
    """The runs that were kept because of what happened in them: failed ones, then the longest.

    >>> from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording
    >>> runs = [KeptRun(1, "step", Level.DETAIL, ("first",)),
    ...         KeptRun(7, "step", Level.TIMES, ("trigger",), "took 80 ms"),
    ...         KeptRun(9, "step", Level.LENGTH, ("failed", "latest"))]
    >>> [run.number for run in happened(StepsRecording(kept=tuple(runs)))]
    [9, 7]
    """
    found = [run for run in recording.kept if HAPPENED & set(run.reasons)]
    return sorted(found, key=lambda run: ("failed" not in run.reasons, -_took(run)))


def _took(run: KeptRun) -> int:
    return run.wait_ns * ("was late" in run.why) + run.length_ns


def explained_runs(store: Path, recording: StepsRecording, most: int = 100) -> list[ExplainedRun]:
    """Of the first so many runs that something happened in, why; of the others what is known.

    Only these and some of the random sample of their kinds are read from the store.
    """
    runs = happened(recording)
    told = runs[:most]
    usual = _usual_runs(recording, {run.kind for run in told})
    wanted = [run.number for run in told if run.level >= Level.TIMES]
    there = dict(numbered_runs(store, sorted({*wanted, *(n for ns in usual.values() for n in ns)})))
    sums = StepSums()
    for kind, numbers in usual.items():
        _take_in(sums, kind, [(n, there[n]) for n in numbers if n in there])
    explained = []
    for run in runs:
        metadata = there.get(run.number) if run.number in wanted else None
        explained.append(_explained(run, metadata, sums if run.kind in usual else None, recording))
    return explained


def _usual_runs(recording: StepsRecording, kinds: Iterable[str]) -> dict[str, list[int]]:
    """By kind, the numbers of some runs with op times in which nothing happened.

    The random sample; where there is none of it, or too few, any others.
    """
    found: defaultdict[str, list[tuple[bool, int]]] = defaultdict(list)
    wanted = set(kinds)
    for run in recording.kept:
        if run.kind in wanted and run.level >= Level.TIMES and not HAPPENED & set(run.reasons):
            found[run.kind].append(("sample" not in run.reasons, run.number))
    return {kind: [n for _, n in sorted(runs)[:_COMPARED]] for kind, runs in found.items()}


def _take_in(sums: StepSums, kind: str, runs: Sequence[tuple[int, RunMetadata]]) -> None:
    for place, (number, metadata) in enumerate(runs):
        run = NamedRun(f"run_{number:06d}", metadata)
        if not place:
            sums.add(kind, run, -1)  # the first of a kind is compared with nothing
        sums.add(kind, run, number)


def _explained(
    run: KeptRun, metadata: RunMetadata | None, sums: StepSums | None, recording: StepsRecording
) -> ExplainedRun:
    began, ended = (run.started_ns, run.ended_ns) if metadata is None else run_span(metadata)
    still = _stood_still(recording, began - run.wait_ns, ended)
    causes: tuple[Cause, ...] = ()
    late = run.why.startswith("began ")  # and its own length was usual
    if metadata is not None and sums is not None and not late and "failed" not in run.reasons:
        different: Outlier = sums.compared(run.kind, NamedRun(run.name, metadata), run.number)
        causes = tuple(cause for cause in different.causes if cause.more_ns > _TOLD_NS // 10)
    said = [run.why or "failed"]
    if still >= _TOLD_NS:
        said.append(f"the process did not run for {readable.time(still)} of it")
    said += map(cause_in_words, causes)
    if metadata is None and run.level < Level.TIMES and not late:
        said.append("its op times were given up for the budget")
    return ExplainedRun(run.number, run.kind, run.reasons, "; ".join(said), causes, still)


def _stood_still(recording: StepsRecording, began: int, ended: int) -> int:
    return sum(
        max(0, min(ended, until) - max(began, since)) for since, until in recording.standstills
    )
