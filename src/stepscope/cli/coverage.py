"""`stepscope coverage`: which nodes of a graph were measured, and why others were not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli.arguments.saved_runs import one_run, run_option, runs_argument, say_choice
from stepscope.cli.output.tables import table_options

if TYPE_CHECKING:
    from stepscope.cli.output.tables import TableChoice


@click.command(
    name="coverage",
    epilog="Example: stepscope coverage stepscope-out/train --missing",
)
@runs_argument
@click.argument("graph", type=click.Path(path_type=Path), required=False)
@run_option
@click.option("--missing", is_flag=True, help="Only nodes without a time of their own.")
@table_options
def command(
    path: Path, graph: Path | None, number: int | None, missing: bool, choice: TableChoice
) -> None:
    """Account for every node of GRAPH in one run in PATH: measured, or the reason why not.

    GRAPH is a GraphDef file (graph.pb, or .pbtxt), the .meta file of a checkpoint, or an event file
    with a graph. By default it is the graph that `stepscope run` saved beside the run of a session
    or in the run of a function, or the one in the run's event file or logdir.
    """
    from stepscope.analysis import coverage
    from stepscope.analysis.coverage.report import STATES
    from stepscope.cli.output import tables, terminal, wording
    from stepscope.metadata import LoadedRun
    from stepscope.metadata.executed_graphs import executed_graphs
    from stepscope.metadata.readers.users_graph import graph_in_file, graph_of

    run = one_run(path, number)
    loaded = LoadedRun(run.found, run.metadata)
    wanted = graph_in_file(graph, loaded) if graph is not None else graph_of(path, loaded)
    found = coverage(run.metadata, wanted)
    rows = [row for row in found.rows if not missing or row.state != "measured"]
    columns = [
        tables.Column("name", "node", style="bold"),
        tables.Column("op", "type", rank=1),
        tables.Column("reason", "fate"),
        tables.count_column("executions", "calls"),
        tables.time_column("total_ns", "time"),
        tables.Column("function", "function", rank=2),
    ]
    if not any(row.function for row in rows):
        columns.pop()
    if tables.write_for_programs(found, rows, columns, choice):
        return
    say_choice(run)
    screen = terminal.console()
    for state, count in found.counts().items():
        screen.print(f"{count:>7,}  {state}: {STATES[state]}")
    if found.unknown and run.metadata.status.known and not executed_graphs(run.metadata):
        screen.print(
            "         a run with RunOptions(output_partition_graphs=True) tells more", style="dim"
        )
    screen.print()
    tables.show_table(rows, columns, choice, what="node")
    if found.added:
        extra = wording.number(sum(found.added.values()), "execution")
        screen.print(f"\nthe engine added {extra} of its own ({wording.time(found.added_ns)})")
