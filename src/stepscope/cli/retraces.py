"""`stepscope retraces`: which functions were traced again, by what, and what to do."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import runs_argument
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.cli.output.tables import TableChoice

_NONE = "there was none: what is traced are functions of TensorFlow (tf.function, Keras)"


@click.command(
    name="retraces",
    epilog="Example: stepscope retraces stepscope-out/train",
)
@runs_argument
@table_options
def command(path: Path, choice: TableChoice) -> None:
    """Which functions TensorFlow traced again in the program that was recorded in PATH.

    One row for each function and cause: what changed since an earlier graph of it, from what to
    what, and the time that went into graphs after the first. A function that is made anew each time
    is one, by the line that it is written in.
    """
    from rich.text import Text

    from stepscope.analysis import retraces
    from stepscope.cli.output import tables, terminal, wording

    found = retraces(path)
    columns = [
        tables.Column("function", "function", wording.plain, style="bold"),
        tables.count_column("times", "again"),
        tables.time_column("lost_ns", "lost"),
        tables.Column("cause", "because of"),
        tables.Column("argument", "argument", lambda name: wording.plain(name) or "-"),
        tables.Column("values", "from, to", _course),
        tables.Column("where", "called at", wording.place),
        tables.Column("defined", "written at", wording.place, rank=3),
        tables.count_column("nodes", "nodes", rank=1),
        tables.size_column("grew_bytes", "memory", rank=2),
    ]
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    screen = terminal.console()
    built = wording.number(found.traces, "graph")
    lost = f", {wording.time(found.lost_ns)} of it again" if found.rows else ""
    screen.print(
        f"{wording.plain(found.program)} · {built} of functions traced in "
        f"{wording.time(found.trace_ns)}{lost}",
        soft_wrap=True,
    )
    if not found.rows:
        screen.print("no function was traced again" if found.traces else _NONE)
        return
    screen.print()
    tables.show_table(found.rows, columns, choice, what="cause")
    screen.print("\nwhat to do")
    for row in choice.cut(tables.arranged(found.rows, columns, choice), tables.ROWS_SHOWN):
        line = f"{wording.plain(row.function)} ({wording.place(row.where)}): {row.advice}"
        screen.print(Text(fill(line, screen.width, initial_indent="  ", subsequent_indent="    ")))


def _course(values: Sequence[str]) -> str:
    from stepscope.cli.output import wording

    return wording.plain(" → ".join(values)) if values else "-"
