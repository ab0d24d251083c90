"""What is known of all runs behind a page after reading each of them once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stepscope.analysis.cluster.clock import OneClock
from stepscope.analysis.cluster.tasks import is_local, task_column
from stepscope.analysis.profile.node_history import NodeHistory
from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.program.run_parts import PartSums
from stepscope.analysis.program.verdict import Verdict, VerdictSums
from stepscope.analysis.run_length import run_span
from stepscope.analysis.runs import NamedRun
from stepscope.analysis.typical_run import RunCandidates, TypicalRun
from stepscope.metadata.readers import is_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepscope.analysis import Clocks
    from stepscope.metadata import Note
    from stepscope.web.run_sources import SourcedRun

__all__ = ["LossRow", "RunRow", "Survey", "surveyed"]

_DAMAGE_KEPT = 100


class RunRow(NamedTuple):
    """One run, as the list of runs has it. `started_ns` is by the clock of its record."""

    number: int
    name: str
    set: int
    kind: str
    engine: str
    recorder: str
    status: str
    ok: bool
    ops: int
    ns: int
    started_ns: int
    peak_bytes: int
    losses: int
    overhead_ns: int
    has_memory: bool
    out_of_memory: bool


class LossRow(NamedTuple):
    """Something that runs lack: of how many of them, and how many in all."""

    what: str
    reason: str
    lost: int
    runs: int


@dataclass(slots=True)
class Survey:
    """A row for each run that can be read, in order; sums over them.

    `number_of_run` counts all, also those that cannot be read: what `--run` calls them.
    `lines` are those of source files at which ops were made.
    """

    rows: list[RunRow] = field(default_factory=list)
    number_of_run: list[int] = field(default_factory=list)
    set_of_run: list[int] = field(default_factory=list)
    verdict: Verdict = field(default_factory=lambda: Verdict((), 0, 0))
    parts: PartSums = field(default_factory=PartSums)
    history: NodeHistory = field(default_factory=NodeHistory)
    typical: TypicalRun | None = None
    losses: list[LossRow] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    overhead_ns: int = 0
    tasks: set[str] = field(default_factory=set)
    lines: set[str] = field(default_factory=set)
    clocks: Clocks | None = None
    """Of the tasks, where single runs are of several."""

    @property
    def readable(self) -> bool:
        """Whether there is any run that can be read."""
        return bool(self.rows)

    def row(self, number: int) -> RunRow | None:
        """The row of a run; None of one that cannot be read."""
        return next((row for row in self.rows if row.number == number), None)


def surveyed(
    runs: Iterable[SourcedRun],
    again: Callable[[], Iterable[SourcedRun]],
    notes: Iterable[Note] = (),
) -> Survey:
    """Look at all runs, keeping none of them; `again` gives them once more.

    Runs of several tasks are looked at by one clock. `notes` are `notes_for_verdict` of the program
    whose runs they are.
    """
    found = Survey()
    clock = OneClock(lambda: (item.run.metadata for item in again()))
    sums, kinds, candidates = VerdictSums(), RunKinds(), RunCandidates()
    lost: Counter[tuple[str, str]] = Counter()
    in_runs: Counter[tuple[str, str]] = Counter()
    for number, (of_set, run) in enumerate(runs):
        found.number_of_run.append(number)
        found.set_of_run.append(of_set)
        if is_unread(run.metadata):
            _note(found.damage, run.metadata.status.message)
            continue
        metadata = clock.of(run.metadata)
        named = NamedRun(run.name, metadata)
        sums.add(named)
        kind = kinds.of(named)
        candidates.add(number, metadata)
        began, ended = run_span(metadata)
        found.parts.add(kind, metadata, began, ended)
        found.history.add(number, metadata)
        for loss in metadata.completeness.losses:
            lost[loss.what, loss.reason] += loss.count
            in_runs[loss.what, loss.reason] += 1
        for loss in metadata.completeness.damage:
            _note(found.damage, f"{run.name}: {loss.reason}" if run.name else loss.reason)
        found.lines.update(metadata.sources.values())
        found.overhead_ns += metadata.overhead.ns
        found.tasks.update(t for t in task_column(metadata.ops).table if not is_local(t))
        found.rows.append(_row(number, of_set, kind, named, began, ended))
    found.clocks = clock.clocks
    found.verdict = sums.verdict(notes)
    found.losses = [
        LossRow(what, reason, lost[what, reason], count)
        for (what, reason), count in in_runs.most_common()
    ]
    found.typical = candidates.chosen() if found.rows else None
    return found


def _row(number: int, of_set: int, kind: str, run: NamedRun, began: int, ended: int) -> RunRow:
    metadata = run.metadata
    peaks = metadata.device_peaks()
    return RunRow(
        number=number,
        name=run.name,
        set=of_set,
        kind=kind,
        engine=metadata.engine,
        recorder=metadata.recorder,
        status=metadata.status.in_words,
        ok=metadata.status.ok,
        ops=len(metadata.ops),
        ns=ended - began,
        started_ns=began,
        peak_bytes=max(peaks.values(), default=0),
        losses=len(metadata.completeness.losses),
        overhead_ns=metadata.overhead.ns,
        has_memory=any(peaks.values()),
        out_of_memory=metadata.out_of_memory is not None,
    )


def _note(sentences: list[str], sentence: str) -> None:
    if len(sentences) < _DAMAGE_KEPT and sentence not in sentences:
        sentences.append(sentence)
