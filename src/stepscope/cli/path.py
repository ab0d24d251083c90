"""`stepscope path`: the chain of ops and waits that decided a run's length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.cluster_runs import by_one_clock, one_step, say_clocks, say_missing
from stepscope.cli.arguments.saved_runs import one_run, run_option, runs_argument, say_choice
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis import CriticalPath
    from stepscope.cli.arguments.saved_runs import SavedRun
    from stepscope.cli.output.tables import TableChoice
    from stepscope.metadata import RunMetadata

_MEANINGS = {
    "executing": "ops running",
    "transfer": "tensors moving between devices",
    "queue": "waiting in a queue",
    "scheduled": "ready, but not running yet",
    "waiting": "neither: the engine's own work, or not recorded",
}


@click.command(
    name="path",
    epilog="Example: stepscope path stepscope-out --sort time --limit 5",
)
@runs_argument
@run_option
@table_options
def command(path: Path, number: int | None, choice: TableChoice) -> None:
    """The critical path of one run in PATH: what it was waiting for, from beginning to end.

    Also says what a 10% faster op would save. --sort time shows the longest parts first. Where PATH
    holds the directories of several workers, the run is a step of all of them, by one clock.
    """
    from stepscope.analysis import critical_path
    from stepscope.cli.output import tables, terminal, wording

    step = one_step(path, number)
    run = one_run(path, number) if step is None else step[0]
    metadata = run.metadata if step else by_one_clock(path, run.metadata)
    found = critical_path(metadata)
    columns = [
        tables.Column("name", "op", style="bold"),
        tables.Column("op", "type", rank=1),
        tables.Column("kind", "part"),
        tables.time_column("ns", "time"),
        tables.Column("device", "device", wording.device, rank=3),
        tables.Column("blocked_by", "behind", rank=2),
    ]
    if tables.write_for_programs(found, found.rows, columns, choice):
        return
    say_choice(run)
    screen = terminal.console()
    screen.print(_lengths(run, metadata, found), soft_wrap=True)
    _show_kinds(found)
    what = "part of the path"
    tables.show_table(
        _with_share(found), columns, choice, bar="share", what=what, plural="parts of the path"
    )
    if found.savings:
        screen.print("\nif an op were 10% faster, the run would be shorter by")
        saving = [
            tables.Column("name", "op", style="bold"),
            tables.Column("op", "type", rank=1),
            tables.time_column("path_ns", "on the path"),
            tables.time_column("saved_ns", "saves"),
        ]
        screen.print(tables.grid(found.savings, saving, screen.width), soft_wrap=True)
    if step is not None:
        say_clocks(step[1])
        say_missing(step[2])


def _lengths(run: SavedRun, metadata: RunMetadata, found: CriticalPath) -> str:
    """How long the run took, and how long the path is where that is less."""
    from stepscope.analysis.run_length import run_length
    from stepscope.analysis.runs import NamedRun
    from stepscope.cli.output import wording

    length = run_length(NamedRun(run.found or run.name, metadata))
    took = f"{wording.plain(run.name)} took {wording.time(length)}"
    if found.length_ns >= length:
        return took
    return f"{took}, its critical path {wording.time(found.length_ns)}"


def _show_kinds(found: CriticalPath) -> None:
    from stepscope.cli.output import terminal, wording

    screen = terminal.console()
    for kind, ns in sorted(found.by_kind.items(), key=lambda item: -item[1]):
        share = ns / found.length_ns if found.length_ns else 0.0
        screen.print(f"{wording.share(share):>7}  {wording.time(ns):>7}  {_MEANINGS[kind]}")
    screen.print()


def _with_share(found: CriticalPath) -> list[object]:
    """The parts with their length and their part of the whole, for the table to draw."""
    from types import SimpleNamespace

    whole = found.length_ns or 1
    return [
        SimpleNamespace(
            name=part.name,
            op=part.op,
            kind=part.kind,
            ns=part.ns,
            device=part.device,
            blocked_by=part.blocked_by,
            share=part.ns / whole,
        )
        for part in found.rows
    ]
