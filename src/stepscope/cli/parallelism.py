"""`stepscope parallelism`: how busy threads and devices were, and what waited for a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import one_run, run_option, runs_argument, say_choice
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.analysis import Lane
    from stepscope.cli.output.tables import TableChoice

_SHADES = " ░▒▓█"
_LABEL = 22
_WAITS = 5


@click.command(
    name="parallelism",
    epilog="Example: stepscope parallelism stepscope-out --run 3",
)
@runs_argument
@run_option
@table_options
def command(path: Path, number: int | None, choice: TableChoice) -> None:
    """How much of one run in PATH ran at once: lanes of threads and devices over time.

    A lane is darker where it was busier. While it was idle, it was "held up" if any op was ready
    and waited for a thread, and had "nothing to do" otherwise.
    """
    from stepscope.analysis import parallelism
    from stepscope.cli.output import tables, terminal, wording

    screen = terminal.console()
    run = one_run(path, number)
    found = parallelism(run.metadata, parts=max(20, screen.width - _LABEL - 3))
    columns = [
        tables.Column("name", "lane", wording.device, style="bold"),
        tables.Column("kind", "kind", rank=1),
        tables.count_column("ops", "ops"),
        tables.share_column("fraction", "busy"),
        tables.time_column("busy_ns", "time"),
        tables.time_column("idle_waiting_ns", "held up"),
        tables.time_column("idle_nothing_ns", "nothing to do"),
    ]
    # A lane's course is a list: JSON has it, a cell of CSV is no place for it.
    if tables.write_for_programs(found, found.rows, columns, choice, without=("busy",)):
        return
    say_choice(run)
    screen.print(
        f"{wording.plain(run.name)}: {found.average:.2f} ops at once over "
        f"{wording.time(found.length_ns)}",
        soft_wrap=True,
    )
    if not found.rows:
        return
    screen.print()
    _draw(choice.cut(tables.arranged(found.rows, columns, choice), tables.ROWS_SHOWN))
    screen.print()
    tables.show_table(found.rows, columns, choice, what="lane")
    if found.length_ns:
        levels = ", ".join(
            f"{count} for {wording.share(ns / found.length_ns)}"
            for count, ns in enumerate(found.at_once)
            if ns
        )
        screen.print(f"\nops at once: {levels}")
    if found.waits:
        screen.print("\nready, but waited longest for a thread")
        waited = [
            tables.Column("name", "op", style="bold"),
            tables.Column("op", "type", rank=1),
            tables.time_column("waited_ns", "waited"),
            tables.Column("blocked_by", "behind"),
        ]
        screen.print(tables.grid(found.waits[:_WAITS], waited, screen.width), soft_wrap=True)


def _draw(lanes: Sequence[Lane]) -> None:
    from rich.text import Text

    from stepscope.cli.output import terminal, wording

    screen = terminal.console()
    names = [wording.plain(wording.device(lane.name)) for lane in lanes]
    names = [name if len(name) <= _LABEL else f"…{name[1 - _LABEL :]}" for name in names]
    for name, lane in zip(names, lanes, strict=True):
        shades = "".join(_SHADES[-(-int(busy * 100) // 25)] for busy in lane.busy)
        screen.print(Text.assemble(f"{name:>{_LABEL}} ▕", (shades, "cyan"), "▏"), soft_wrap=True)
