"""`stepscope memory --flame` and `--at`: who held memory at an instant, scope by scope."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stepscope.cli.arguments.saved_runs import all_runs
from stepscope.cli.output import tables, terminal, wording

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis import FlameRow
    from stepscope.cli.output.tables import TableChoice

_SHOWN = 60
_LEAST = 0.005
"""A smaller part of the whole is not drawn, unless all rows are asked for."""


def show_flame(
    path: Path, number: int | None, instant: str, device: str | None, choice: TableChoice
) -> None:
    """Print the tree of one run at a path: of the one with the highest peak, or that number."""
    from rich.text import Text

    from stepscope.analysis import memory_flame
    from stepscope.cli.output.held_memory import device_named

    runs = [run[:2] for run in all_runs(path, number)]
    if device is not None:
        known = {name for _, run in runs for name in run.device_peaks()}
        device = device_named(device, sorted(known))
    found = memory_flame(runs, instant, device)
    columns = [
        tables.Column("name", "scope", style="bold"),
        tables.size_column("bytes", "bytes"),
        tables.share_column("share", "share"),
        tables.count_column("tensors", "tensors", rank=1),
        tables.Column("kind", "kind"),
        tables.Column("shapes", "shapes", rank=2),
        tables.Column("source", "made at", wording.place, rank=1),
    ]
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    screen = terminal.console()
    about = "about " if found.estimated else ""
    screen.print(
        Text.assemble(
            (wording.device(found.device), "bold cyan"),
            f"  {about}{wording.size(found.bytes)} after {wording.time(found.at_ns)} in "
            f"{wording.plain(found.run)}; its peak is {wording.size(found.peak_bytes)}",
        ),
        soft_wrap=True,
    )
    screen.print()
    if not found.rows:
        screen.print("no tensor was live", style="dim")
        return
    shown = [row for row in found.rows if row.share >= _LEAST or choice.limit == 0]
    rows = [_indented(row) for row in shown]
    tables.show_table(rows, columns, choice, bar="share", what="scope", limit=_SHOWN)
    if len(shown) < len(found.rows) and len(rows) <= (choice.limit or _SHOWN):
        rest = wording.number(len(found.rows) - len(shown), "row")
        screen.print(Text(f"and {rest} below 0.5% (--limit 0 shows all)", style="dim"))


def _indented(row: FlameRow) -> FlameRow:
    return replace(row, name="  " * row.depth + wording.plain(row.name))
