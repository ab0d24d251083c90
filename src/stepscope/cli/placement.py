"""`stepscope placement`: on which device each op ran, and what moved between devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import one_run, run_option, runs_argument, say_choice
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.cli.output.tables import TableChoice


@click.command(
    name="placement",
    epilog="Example: stepscope placement stepscope-out --different",
)
@runs_argument
@run_option
@click.option("--different", is_flag=True, help="Only ops that are not where asked for.")
@table_options
def command(path: Path, number: int | None, different: bool, choice: TableChoice) -> None:
    """On which device each op of one run in PATH ran, what was asked for, and why they differ."""
    from stepscope.analysis import placement
    from stepscope.cli.output import tables, terminal, wording

    run = one_run(path, number)
    report = placement(run.metadata)
    rows = report.different if different else report.rows
    columns = [
        tables.Column("name", "op", style="bold"),
        tables.Column("op", "type", rank=1),
        tables.Column("assigned", "device", wording.device),
        tables.Column("requested", "asked for", lambda name: wording.device(name) or "-"),
        tables.Column("reason", "why"),
        tables.count_column("calls", "calls", rank=2),
    ]
    if tables.write_for_programs(report, rows, columns, choice):
        return
    say_choice(run)
    screen = terminal.console()
    for device, count in report.devices.items():
        screen.print(f"{wording.device(device)}: {wording.number(count, 'execution')}")
    if any(row.requested for row in report.rows):
        screen.print(f"{wording.number(len(report.different), 'op')} not where asked for\n")
    else:
        screen.print("no op was asked to be on a device, or the file does not say so\n")
    tables.show_table(rows, columns, choice, what="op")
    if report.transfers:
        screen.print("\nmoved between devices")
        moved = [
            tables.Column("tensor", "tensor", style="bold"),
            tables.Column("source", "from", wording.device),
            tables.Column("target", "to", wording.device),
            tables.count_column("calls", "calls"),
            tables.size_column("bytes", "bytes"),
            tables.time_column("ns", "time"),
        ]
        rows_shown = choice.cut(list(report.transfers), tables.ROWS_SHOWN)
        screen.print(tables.grid(rows_shown, moved, screen.width), soft_wrap=True)
