"""What `stepscope memory` and `stepscope oom` share: the table of who holds what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.cli.output import tables, terminal, wording
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis import MemoryRow
    from stepscope.cli.output.tables import Column, TableChoice

by_option = click.option(
    "--by",
    type=click.Choice(["op", "scope", "source"]),
    default="op",
    show_default=True,
    help="Sum up what was held by op, by name scope or by source line.",
)


def device_named(wanted: str, devices: Sequence[str]) -> str:
    """The device that the user means: its full name, or its short one."""
    for device in devices:
        if wanted.upper() in (device.upper(), wording.device(device).upper()):
            return device
    known = ", ".join(map(wording.device, devices))
    raise StepscopeError(f"no memory was recorded on device {wanted}; there is {known}")


def columns(by: str) -> list[Column]:
    """Of a table of who holds what."""
    return [
        tables.Column("key", by, wording.place if by == "source" else str, style="bold"),
        tables.count_column("bytes", "bytes"),
        tables.share_column("share", "share"),
        tables.count_column("tensors", "tensors", rank=2),
        tables.Column("kind", "kind"),
        tables.Column("shapes", "shapes", rank=1),
        *([] if by == "source" else [tables.Column("source", "made at", wording.place)]),
    ]


def show(rows: Sequence[MemoryRow], by: str, choice: TableChoice) -> None:
    """Print who holds what; the table adds up: what is not shown is a row, the sum another."""
    from stepscope.analysis import MemoryRow

    described = columns(by)
    found = tables.arranged(rows, described, choice)
    shown = choice.cut(found, tables.ROWS_SHOWN)
    screen = terminal.console()
    if not shown:
        screen.print("no such row" if rows else "no tensor was live", style="dim")
        return

    def together(what: str, members: Sequence[MemoryRow]) -> MemoryRow:
        return MemoryRow(
            key=what,
            device="",
            kind="",
            persistent=False,
            tensors=sum(row.tensors for row in members),
            bytes=sum(row.bytes for row in members),
            share=sum(row.share for row in members),
        )

    rest = found[len(shown) :]
    more = [together(f"{len(rest):,} more (--limit 0)", rest)] if rest else []
    total = together("in all", found)
    screen.print(tables.grid([*shown, *more, total], described, screen.width), soft_wrap=True)
