"""`stepscope memory --growth`: what grows from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.cli.output import tables, terminal, wording

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.cli.output.tables import TableChoice


def show_growth(path: Path, choice: TableChoice) -> None:
    """Print what grows in the runs at a path."""
    from rich.text import Text

    from stepscope.analysis import memory_growth
    from stepscope.cli.output import run_report

    found = memory_growth(path)
    columns = [
        tables.Column("key", "held by", wording.plain, style="bold"),
        tables.Column("kind", "kind"),
        tables.Column("bytes", "a step", _size, right=True, least=8),
        tables.Column("low", "least", _size, right=True, least=8),
        tables.Column("high", "most", _size, right=True, least=8),
        tables.size_column("first", "at first", rank=1),
        tables.size_column("last", "at last"),
        tables.count_column("steps", "steps", rank=1),
        tables.Column("step", "of", wording.plain, rank=2),
        tables.Column("source", "made at", wording.place),
    ]
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    screen = terminal.console()
    if found.rows:
        tables.show_table(found.rows, columns, choice, what="owner that grows")
    elif not found.lacking:
        kinds = ", ".join(map(wording.plain, found.steps))
        said = f"nothing grows from step to step in {kinds}"
        screen.print(Text(run_report.filled(said, screen.width)), soft_wrap=True)
    if found.lacking:
        said = f"who holds more is not known: {found.lacking}" if found.rows else found.lacking
        screen.print(Text(run_report.filled(said, screen.width), style="yellow"), soft_wrap=True)


def _size(count: float) -> str:
    return wording.size(round(count))
