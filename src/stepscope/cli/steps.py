"""`stepscope steps`: what ran, how often, and how long it took."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import named_runs, runs_argument
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.text import Text

    from stepscope.analysis import StepRow
    from stepscope.analysis.program.steps import Outlier
    from stepscope.cli.output.tables import Column, TableChoice

_SPARK = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH = range(10, 41)


@click.command(
    name="steps",
    epilog="Example: stepscope steps stepscope-out/train",
)
@runs_argument
@table_options
def command(path: Path, choice: TableChoice) -> None:
    """What ran in PATH (each function, step of Keras or set of fetches), and how long it took.

    The first run of each is apart from the rest: it builds. "trend" is how much longer the last
    third of the rest took than the first, where that is no chance. Below are the runs that took
    much longer than the others, and what was different in them. A run's number is what --run of
    other commands takes.

    Of a recording with a budget it is answered for all steps, from summaries: lengths are of all
    that were noted, quantiles within 1%.
    """
    from stepscope.analysis import steps
    from stepscope.analysis.cluster.clock import OneClock
    from stepscope.cli.output import tables, terminal, wording
    from stepscope.metadata import iter_runs

    if _show_all_steps(path, choice):
        return
    found = steps(OneClock(lambda: iter_runs(path)).passing(named_runs(path)))
    columns = _columns()
    without = ("outliers", "lengths_ns")
    if tables.write_for_programs(found, found.rows, columns, choice, without=without):
        return
    screen = terminal.console()
    screen.print(f"{wording.number(found.runs, 'run')} · {wording.time(found.total_ns)} in all\n")
    tables.show_table(found.rows, columns, choice, what="kind of run", plural="kinds of runs")
    shown = choice.cut(tables.arranged(found.rows, columns, choice), tables.ROWS_SHOWN)
    for row in shown:
        for text in _below(row, screen.width):
            screen.print(text, soft_wrap=True)


def _show_all_steps(path: Path, choice: TableChoice) -> bool:
    """Show all steps of a recording with a budget, if it is one that has not all of its runs."""
    from stepscope.analysis.sampling.explained_runs import explained_runs
    from stepscope.analysis.sampling.summed_steps import steps_of_summaries
    from stepscope.analysis.sampling.weights import sampled_at
    from stepscope.cli.output import kept_steps, run_report, tables, terminal, wording

    recorded = sampled_at(path)
    if recorded is None:
        return False
    found = steps_of_summaries(recorded[1])
    columns = [column for column in _columns() if column.field not in ("trend", "far")]
    if tables.write_for_programs(
        found, found.rows, columns, choice, without=("outliers", "lengths_ns")
    ):
        return True
    noted = sum(row.rests_on for row in found.rows)
    run_report.say(
        f"{wording.number(found.runs, 'step')} · {wording.time(found.total_ns)} in all, by "
        f"summaries of all of them: the length of {noted:,} was noted, the first among them; "
        "quantiles are within 1%"
    )
    terminal.console().print()
    tables.show_table(found.rows, columns, choice, what="kind of run", plural="kinds of runs")
    explained = explained_runs(*recorded)
    if explained:
        terminal.console().print("\nkept because of what happened in them:")
        terminal.console().print(kept_steps.happened(explained))
    return True


def _columns() -> list[Column]:
    from stepscope.cli.output import tables

    return [
        tables.Column("key", "what", style="bold"),
        tables.count_column("runs", "runs"),
        tables.time_column("first_ns", "first"),
        tables.time_column("median_ns", "median"),
        tables.time_column("p90_ns", "p90"),
        tables.time_column("p99_ns", "p99", rank=1),
        tables.time_column("worst_ns", "worst"),
        tables.Column("worst_run", "run", lambda run: "-" if run < 0 else str(run), right=True),
        tables.Column("trend", "trend", _trend, right=True),
        tables.count_column("far", "far out", rank=2),
        tables.count_column("failed", "failed", rank=3),
        tables.count_column("ops", "ops", rank=2),
        tables.time_column("total_ns", "total", rank=1),
    ]


def _trend(change: float) -> str:
    return f"{change:+.0%}" if change else "-"


def _below(row: StepRow, width: int) -> Iterator[Text]:
    """The lengths as a line of blocks, and what was different in the longest."""
    from rich.text import Text

    from stepscope.cli.output import run_report, wording

    if row.rest < 2:
        return
    name = wording.plain(row.key)
    rest = row.lengths_ns[1:]
    line = spark(rest, min(_SPARK_WIDTH[-1], width - 4))
    least, most = wording.time(min(rest)), wording.time(max(rest))
    after = f", {wording.number(len(rest), 'run')} after the first"
    yield Text.assemble("\n", (name, "bold"), after)
    yield Text.assemble("  ", (line, "cyan"), f"  {least} to {most}")
    for outlier in row.outliers:
        yield Text(run_report.filled(_outlier(outlier), width, "  "))
    if row.far > len(row.outliers):
        yield Text(f"  and {row.far - len(row.outliers):,} more far out", style="dim")


def _outlier(outlier: Outlier) -> str:
    from stepscope.analysis.program.steps import cause_in_words
    from stepscope.cli.output import wording

    said = f"run {outlier.run}: {wording.time(outlier.ns)}, {wording.time(outlier.over_ns)} more"
    if not outlier.causes:
        return f"{said} than usual; nothing in it stands out"
    return f"{said} than usual: {', '.join(map(cause_in_words, outlier.causes))}"


def spark(values: tuple[int, ...], width: int) -> str:
    """Values as blocks, from 0 to the largest; of more than the width, the largest of each piece.

    >>> spark((1, 2, 3, 8), 10)
    '▁▂▃█'
    >>> spark((1, 1, 1, 8), 2)
    '▁█'
    """
    width = max(1, min(width, len(values)))
    edges = [len(values) * i // width for i in range(width + 1)]
    highest = [max(values[a:b]) for a, b in pairwise(edges)]
    top = max(highest) or 1
    return "".join(_SPARK[min(7, max(0, -(-8 * value // top) - 1))] for value in highest)
