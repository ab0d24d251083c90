"""`stepscope account`: where the wall clock of a whole program went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import runs_argument
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis import Account
    from stepscope.cli.output.tables import TableChoice


@click.command(
    name="account",
    epilog="Example: stepscope account stepscope-out/train",
)
@runs_argument
@table_options
def command(path: Path, choice: TableChoice) -> None:
    """Where the wall clock went of the program that `stepscope run` recorded in PATH.

    Each moment of its main thread belongs to one row, and the rows sum to the whole: a module that
    is imported while a function is traced is an import, a function that is traced inside a run is
    traced. Steps are runs that were not the first of their kind; where ops of several kinds ran at
    once, it counts as computing. Runs of other threads went on meanwhile and are said apart.
    """
    from stepscope.analysis import account
    from stepscope.cli.output import tables, terminal, wording

    found = account(path)
    columns = [
        tables.Column("part", "part", style="bold"),
        tables.time_column("ns", "time"),
        tables.share_column("share", "share"),
        tables.count_column("count", "how many"),
        tables.Column("mostly", "mostly", wording.plain, rank=1),
        tables.Column("where", "at", wording.place, rank=2),
    ]
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    screen = terminal.console()
    screen.print(_heading(found), soft_wrap=True)
    if found.died:
        screen.print("it died: this is up to its death", style="yellow")
    elif not found.ended:
        screen.print("it died or is still going: this is up to what it noted last", style="yellow")
    if found.other_runs:
        ran = wording.number(found.other_runs, "run")
        screen.print(f"beside it, on other threads: {ran} in {wording.time(found.other_ns)}")
    screen.print()
    tables.show_table(found.rows, columns, choice, bar="share", what="part")


def _heading(found: Account) -> str:
    from stepscope.analysis.program.account import STEPS
    from stepscope.cli.output import wording

    steps = found.runs - found.first_runs
    facts = [
        wording.plain(found.program),
        wording.time(found.whole_ns),
        f"{wording.time(found.ns(*STEPS))} in {wording.number(steps, 'step')}",
    ]
    return " · ".join(facts)
