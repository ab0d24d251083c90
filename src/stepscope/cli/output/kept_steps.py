"""What a recorder with a budget saw of all steps, and which of them it kept and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from stepscope.cli.output import wording

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording

__all__ = ["shown"]

_SAID: Final = ("failed", "trigger")
_MOST: Final = 20
"""So many runs are named that something happened in."""


def shown(recording: StepsRecording) -> RenderableType:
    """All of it, from the summaries; no run is looked at."""
    parts: list[RenderableType] = [_heading(recording), Text(), _kinds(recording)]
    happened = [run for run in recording.kept if set(run.reasons) & set(_SAID)]
    happened.sort(key=lambda run: "failed" not in run.reasons)
    if happened:
        parts += [Text(), Text("kept because of what happened in them:"), _happened(happened)]
    asked = [why for why, _ in recording.triggered if not why.startswith("run ")]
    if asked:
        parts.append(Text(f"what was before was kept for: {wording.plain('; '.join(asked))}"))
    for (kind, reason), count in sorted(recording.dropped.items()):
        what = f"had to go, for the bounds of memory and disk: {count:,} kept as {reason}"
        parts.append(Text(f"{what}, of {wording.plain(kind)}", style="yellow"))
    return Group(*parts, Text())


def _heading(recording: StepsRecording) -> Text:
    share = recording.budget
    budget = "no budget" if share is None else f"a budget of {100 * share:g}%"
    steps = wording.number(recording.steps, "step")
    return Text(
        f"{steps}, of which {len(recording.kept):,} were kept; recording cost "
        f"{recording.overhead:.1%} of the program's own time, with {budget}"
    )


def _kinds(recording: StepsRecording) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("kind of step", overflow="fold", ratio=1)
    for title in ("steps", "op times of", "failed", "median", "p99", "longest", "kept"):
        table.add_column(title, justify="right", no_wrap=True)
    for summary in recording.summaries:
        lengths = summary.lengths
        kept = sum(run.kind == summary.kind for run in recording.kept)
        table.add_row(
            wording.plain(summary.kind), f"{summary.runs:,}", f"{summary.noted_runs:,}",
            wording.count(summary.failed), wording.spent(lengths.quantile(0.5)),
            wording.spent(lengths.quantile(0.99)), wording.spent(lengths.most), f"{kept:,}",
        )  # fmt: skip
    return table


def _happened(runs: list[KeptRun]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for run in runs[:_MOST]:
        table.add_row(f"run_{run.number:06d}", wording.plain(f"{run.kind}: {run.why or 'failed'}"))
    if len(runs) > _MOST:
        table.add_row("", f"and {len(runs) - _MOST:,} more (--json has all)")
    return table
