"""What a recorder with a budget saw of all steps, and which of them it kept and why."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from stepscope.cli.output import program_verdict, tables, terminal, wording
from stepscope.metadata.stored.step_summaries import Level

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from stepscope.analysis import Verdict
    from stepscope.analysis.sampling.explained_runs import ExplainedRun
    from stepscope.cli.output.tables import TableChoice
    from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording

__all__ = ["happened", "info", "shown", "slowed"]

LEVELS: Final = {
    Level.COUNT: "nothing",
    Level.LENGTH: "length",
    Level.TIMES: "op times",
    Level.DETAIL: "all",
}
"""What was recorded of a run, in a word or two."""
_TOLD: Final = 0.02
"""Lengths that are less apart are taken for the same."""
_MOST: Final = 20
"""So many runs are named that something happened in."""


def info(path: Path, choice: TableChoice) -> bool:
    """What `stepscope info` shows of a recording with a budget that has not all of its steps.

    False where there is none. What all steps did comes from its summaries; of runs only those are
    read that something happened in, and some of each kind's random sample.
    """
    from stepscope.analysis.advice import program_at
    from stepscope.analysis.sampling.all_steps import all_steps
    from stepscope.analysis.sampling.explained_runs import explained_runs

    found = all_steps(path)
    if found is None:
        return False
    recording, verdict = found.recording, found.verdict
    explained = explained_runs(found.store, recording)
    rows = tuple(_kept_row(place, run) for place, run in enumerate(recording.kept))
    columns = _columns()
    result = _info(rows, verdict, recording.kept, tuple(explained))
    if tables.write_for_programs(result, rows, columns, choice):
        return True
    screen = terminal.console()
    screen.print(shown(recording, explained))
    advice = found.sums.advice(program_at(path))
    for part in program_verdict.parts(verdict, advice, path, path, screen.width):
        screen.print(part, soft_wrap=True)
        screen.print()
    if verdict.rows:
        screen.print(
            f"What limits them is seen in {wording.number(found.read, 'run')}: the first of each "
            "kind and some of its random sample.\n"
        )
    kept = wording.number(len(rows), "run")
    screen.print(f"{kept} kept in {wording.plain(str(path))}; --run takes the #\n")
    tables.show_table(rows, columns, choice, what="run")
    return True


@dataclass(frozen=True, slots=True)
class KeptRow:
    """One kept run, by what the recorder noted of it; `number` is what `--run` calls it."""

    run: str
    number: int
    kind: str
    engine: str
    status: str
    level: str
    reasons: str
    ops: int
    ns: int


def _kept_row(place: int, run: KeptRun) -> KeptRow:
    return KeptRow(
        run.name, place, run.kind, run.engine, run.status, LEVELS[run.level],
        ", ".join(run.reasons), run.ops, run.length_ns,
    )  # fmt: skip


def _columns() -> list[tables.Column]:
    return [
        tables.Column("run", "run", style="bold"),
        tables.Column("number", "#", right=True),
        tables.Column("reasons", "kept as"),
        tables.Column("level", "recorded", rank=1),
        tables.Column("engine", "engine", lambda engine: engine or "not said", rank=2),
        tables.Column("status", "status", rank=1),
        tables.count_column("ops", "ops"),
        tables.time_column("ns", "length"),
    ]


def _info(
    rows: tuple[KeptRow, ...],
    verdict: Verdict,
    kept: tuple[KeptRun, ...],
    happened: tuple[ExplainedRun, ...],
) -> object:
    from stepscope.analysis import Result

    @dataclass(frozen=True)
    class KeptInfo(Result):
        rows: tuple[KeptRow, ...]
        verdict: Verdict
        kept: tuple[KeptRun, ...]
        happened: tuple[ExplainedRun, ...]

    return KeptInfo(rows, verdict, kept, happened)


def shown(recording: StepsRecording, explained: list[ExplainedRun]) -> RenderableType:
    """What was seen of all steps, from the summaries, and why runs were kept."""
    parts: list[RenderableType] = [_heading(recording), Text(), kinds(recording)]
    if explained:
        parts += [Text(), Text("kept because of what happened in them:"), happened(explained)]
    if recording.standstills:
        still = sum(until - since for since, until in recording.standstills)
        times = wording.number(len(recording.standstills), "time")
        parts.append(Text(f"the process did not run {times}, {wording.time(still)} in all"))
    asked = [why for why, _ in recording.triggered if not why.startswith("run ")]
    if asked:
        parts.append(Text(f"what was before was kept for: {wording.plain('; '.join(asked))}"))
    for (kind, reason), count in sorted(recording.dropped.items()):
        what = f"had to go, for the bounds of memory and disk: {count:,} kept as {reason}"
        parts.append(Text(f"{what}, of {wording.plain(kind)}", style="yellow"))
    return Group(*parts, Text())


def slowed(kept: Sequence[KeptRun], lengths_ns: Sequence[int]) -> Text | None:
    """How lengths of recorded runs differ from those that `shown` has: recording them is in these.

    `lengths_ns` are what is said of the kept runs below it; None where both say the same.
    """
    if not kept or len(kept) != len(lengths_ns):
        return None
    more = median(ns - run.length_ns for run, ns in zip(kept, lengths_ns, strict=True))
    if more < _TOLD * median(lengths_ns):
        return None
    return Text(
        "These lengths are the program's own. From here on they are those of recorded runs, with "
        f"what recording took in them: {wording.time(round(more))} more, the median.\n"
    )


def _heading(recording: StepsRecording) -> Text:
    share = recording.budget
    budget = "no budget" if share is None else f"a budget of {100 * share:g}%"
    steps = wording.number(recording.steps, "step")
    return Text(
        f"{steps}, of which {len(recording.kept):,} were kept; recording cost "
        f"{recording.overhead:.1%} of the program's own time, with {budget}"
    )


def kinds(recording: StepsRecording) -> Table:
    """A row for each kind of step, from its summary."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("kind of step", overflow="fold", ratio=1)
    for title in ("steps", "op times of", "failed", "median", "p99", "longest", "kept"):
        table.add_column(title, justify="right", no_wrap=True)
    for summary in recording.summaries:
        lengths = summary.lengths
        kept = sum(run.kind == summary.kind for run in recording.kept)
        table.add_row(
            wording.plain(summary.kind),
            f"{summary.runs:,}",
            f"{summary.with_times:,}",
            wording.count(summary.failed),
            wording.spent(lengths.quantile(0.5)),
            wording.spent(lengths.quantile(0.99)),
            wording.spent(lengths.most),
            f"{kept:,}",
        )
    return table


def happened(runs: list[ExplainedRun]) -> Table:
    """The runs that something happened in, with why."""
    table = Table.grid(padding=(0, 2, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for run in runs[:_MOST]:
        table.add_row(f"run_{run.number:06d}", wording.plain(f"{run.kind}: {run.why}"))
    if len(runs) > _MOST:
        table.add_row("", f"and {len(runs) - _MOST:,} more (--json has all)")
    return table
