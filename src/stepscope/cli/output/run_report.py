"""What `stepscope run` shows when the script is done. Renders; computes nothing.

The report goes to stderr: stdout is the script's.
"""

from __future__ import annotations

import shlex
from collections import Counter
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stepscope.cli.output import tables, terminal, wording
from stepscope.metadata.readable import telling_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from stepscope.analysis import OpProfile
    from stepscope.metadata import RunMetadata
    from stepscope.recorder.budget import Budget

_FAILURES_SHOWN = 10
_ENDS_SHOWN = 4
_LOSSES_SHOWN = 5

NamedRuns = list[tuple[str, "RunMetadata"]]


def heading(script: str, engine: str, trace: str, table: OpProfile) -> Text:
    """Which script ran on which engine, and how much of it was seen."""
    steps = getattr(table, "steps", 0)
    of = f" (estimated from {wording.number(table.runs, 'run')})" if steps else ""
    facts = [
        f"engine: {engine}",
        wording.number(steps or table.runs, "run"),
        f"{wording.number(table.calls, 'op')} in {wording.time(table.total_ns)}{of}",
        f"trace: {trace}",
    ]
    return Text.assemble(
        ("stepscope", "bold cyan"), " ", (wording.plain(script), "bold"), "\n", " · ".join(facts)
    )


def death(how: str, in_flight: Sequence[str], width: int) -> Text:
    """How a script died that could not report by itself, and in which ops, where that is known."""
    lines = [Text(filled(wording.plain(how), width), style="bold red")]
    lines += [Text(f"  in flight  {wording.plain(op)}", style="red") for op in in_flight]
    return Text("\n").join(lines)


_WITHIN = tables.Column("share_within", "±", lambda within: f"{100 * within:.1f}", right=True)
"""Where shares are estimated for all steps: how far they may be off, in points, 19 times of 20."""


def ops(table: OpProfile, width: int, top: int) -> RenderableType:
    """The op types by time, the largest first; `top` of them."""
    columns = [
        tables.Column("key", "op", style="bold"),
        tables.Column("device", "device", _device),
        tables.count_column("calls", "calls"),
        tables.time_column("total_ns", "total"),
        tables.time_column("mean_ns", "mean"),
        tables.time_column("max_ns", "longest", rank=1),
        tables.share_column("share", "share"),
        *([_WITHIN] if getattr(table, "steps", 0) else []),
        tables.size_column("bytes", "output"),
    ]
    shown, rest = table.rows[:top], table.rows[top:]
    parts = [tables.grid(shown, columns, width, bar="share")]
    if rest:
        spent = sum(row.total_ns for row in rest)
        parts.append(
            Text(
                f"and {wording.number(len(rest), 'more op type')} in {wording.time(spent)} "
                "(--top shows more)",
                style="dim",
            )
        )
    return Group(*parts)


def _device(name: str) -> str:
    return wording.device(name) if name else "(several)"


def ends_of_input(runs: NamedRuns, width: int) -> RenderableType | None:
    """The runs that found no more input, which is how many a loop ends; None where none did."""
    ended = [wording.plain(name) for name, run in runs if _found_no_more(run)]
    if not ended:
        return None
    shown = ", ".join(ended[:_ENDS_SHOWN])
    more = f" and {len(ended) - _ENDS_SHOWN:,} more" if len(ended) > _ENDS_SHOWN else ""
    what = f"{wording.number(len(ended), 'run')} found no more input (OUT_OF_RANGE)"
    return Text(filled(f"{what}, and the program went on: {shown}{more}", width))


def _found_no_more(run: RunMetadata) -> bool:
    return run.status.code == "OUT_OF_RANGE"


def failures(runs: NamedRuns, *, ends_too: bool = False) -> RenderableType | None:
    """The runs that failed: how, and what was in flight; None where all went well.

    The end of an input is a failure only with `ends_too`: the program did not know what to do.
    """
    failed = [
        (name, run.status)
        for name, run in runs
        if not run.status.ok and (ends_too or not _found_no_more(run))
    ]
    if not failed:
        return None
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(style="red", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, status in failed[:_FAILURES_SHOWN]:
        telling = wording.plain(next(iter(telling_lines(status.message)), ""))
        grid.add_row(f"  {wording.plain(name)}", wording.plain(status.code), telling)
        for op in status.outcomes:
            waited = f", {wording.time(op.waited_ns)}" if op.waited_ns else ""
            how = f"({op.outcome.replace('_', ' ')}{waited})"
            grid.add_row("", "  in flight", wording.plain(f"{op.name} {how}"))
    parts: list[RenderableType] = [
        Text(f"{wording.number(len(failed), 'run')} failed", style="bold red"),
        grid,
    ]
    if len(failed) > _FAILURES_SHOWN:
        parts.append(Text(f"  and {len(failed) - _FAILURES_SHOWN:,} more", style="dim"))
    return Group(*parts)


class Costs(NamedTuple):
    """What the user waited for because of recording: before the script, in it, and after it.

    `exporting_ns` went into files that were asked for besides (`--report`, `--pb`, ...).
    """

    starting_ns: int
    during_ns: int
    reporting_ns: int
    exporting_ns: int = 0

    @property
    def recording_ns(self) -> int:
        """All of it, without such files."""
        return self.starting_ns + self.during_ns + self.reporting_ns


def cost(costs: Costs, whole_ns: int, budget: Budget | None = None) -> Text:
    """What recording cost: what the user waited for because of it, of the whole time.

    That is all of it: starting, noting, reading, decoding, writing files and making this report.
    What the script's engine needs in any case is not recording, nor are files that were asked for
    besides: what those took is said apart. Where it is more than the budget, it is said of what
    that is a budget, and what came of it.
    """
    recording_ns = costs.recording_ns
    whole_ns -= costs.exporting_ns
    share = recording_ns / max(1, whole_ns)
    starting, during, reporting, exporting = map(wording.time, costs)
    return Text(
        f"recording cost {wording.time(recording_ns)}, {share:.1%} of the "
        f"{wording.time(whole_ns)} that the script took:\n  {during} to note and store runs, "
        f"{starting} to start, {reporting} to report"
        + (f"\n  {exporting} more went into files asked for besides" if costs.exporting_ns else "")
        + (_budgeted(budget) if budget is not None and share > budget.share else "")
    )


def _budgeted(budget: Budget) -> str:
    spent, own = wording.time(budget.spent_ns), wording.time(budget.own_ns)
    found = (
        f"\n  the budget of {100 * budget.share:g}% is for noting runs, which took {spent}, "
        f"{budget.overhead:.1%} of the {own}\n  from the first run on; starting and reporting come "
        "once, whatever the budget"
    )
    if budget.overhead > budget.share:
        found += ",\n  and the first runs of each kind are noted in detail whatever that costs"
    return found


def losses(runs: NamedRuns, others: Sequence[str] = (), width: int = 80) -> RenderableType | None:
    """What was not measured, the same loss of several runs once; None where nothing is missing.

    `others` are losses that belong to no run.
    """

    def paragraph(text: str) -> Text:
        return Text(filled(wording.plain(text), width, "  "))

    count: Counter[tuple[str, str]] = Counter()
    in_runs: Counter[tuple[str, str]] = Counter()
    for _, run in runs:
        for loss in run.completeness.losses:
            count[loss.what, loss.reason] += loss.count
            in_runs[loss.what, loss.reason] += 1
    if not count and not others:
        return None
    lines = [Text("not measured", style="bold yellow"), *map(paragraph, others)]
    for (what, reason), runs_with_it in in_runs.most_common(_LOSSES_SHOWN):
        lost = count[what, reason]
        amount = f"{lost:,} " if lost else ""
        where = wording.number(runs_with_it, "run")
        lines.append(paragraph(f"{amount}{what} (in {where}): {reason}"))
    if len(in_runs) > _LOSSES_SHOWN:
        lines.append(Text(f"  and {len(in_runs) - _LOSSES_SHOWN:,} more", style="dim"))
    return Group(*lines)


def filled(text: str, width: int, indent: str = "") -> str:
    """The text in lines that fit; what is one word, a path, is not cut."""
    return fill(
        text, width, initial_indent=indent, subsequent_indent=indent + "  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def say(line: str, style: str = "", indent: str = "") -> None:
    """Print a sentence to stdout, folded to the width."""
    screen = terminal.console()
    screen.print(Text(filled(line, screen.width, indent), style=style), soft_wrap=True)


def files(store: Path, timeline: Path | None, others: Sequence[Path] = ()) -> Text:
    """Where everything was written. One path per line, so that it can be copied."""
    directory = shlex.quote(str(store.parent))
    paths = [wording.plain(f"{store}  (stepscope info {directory} lists its runs)")]
    paths += [wording.plain(str(other)) for other in others]
    if timeline is not None:
        paths.append(
            f"{wording.plain(str(timeline))}  (open it in ui.perfetto.dev or chrome://tracing)"
        )
    label = "wrote  "
    return Text("\n".join((label if i == 0 else " " * len(label)) + p for i, p in enumerate(paths)))


def show(
    parts: Iterable[RenderableType | Callable[[], RenderableType] | None], console: Console
) -> None:
    """Print the parts that are there, each after a blank line.

    One that is a function is made when all before it is on the screen.
    """
    for made in parts:
        if made is None:
            continue
        part = made() if callable(made) else made
        console.print()
        # Paths are there to be copied: they are not cut into lines.
        console.print(part, soft_wrap=isinstance(part, Text))


def notes(remarks: Sequence[str], width: int = 80) -> Text | None:
    """Remarks, each beginning on a line of its own; one that names a command can be copied."""
    if not remarks:
        return None
    shown = map(wording.plain, remarks)
    lines = [line if ": stepscope " in line else filled(line, width) for line in shown]
    return Text("\n".join(lines), style="yellow")
