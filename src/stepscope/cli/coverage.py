"""`stepscope coverage`: which nodes of a graph were measured, and why others were not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.saved_runs import one_run, run_option, runs_argument
from stepscope.cli.tables import table_options

if TYPE_CHECKING:
    from stepscope.cli.tables import Choice

GRAPH_FILES = ("graph.pb", "graph.pbtxt")


@click.command(name="coverage", epilog="Example: stepscope coverage stepscope-out/train --missing")
@runs_argument
@click.argument("graph", type=click.Path(path_type=Path), required=False)
@run_option
@click.option("--missing", is_flag=True, help="Only nodes without a time of their own.")
@table_options
def command(
    path: Path, graph: Path | None, number: int | None, missing: bool, choice: Choice
) -> None:
    """Account for every node of GRAPH in one run in PATH: measured, or the reason why not.

    GRAPH is a GraphDef file (graph.pb, or .pbtxt); by default the one saved beside the run, as
    `stepscope run` does.
    """
    from stepscope.analysis import coverage
    from stepscope.analysis.coverage import STATES
    from stepscope.cli import tables, wording

    run = one_run(path, number)
    found = coverage(run.metadata, _graph_def(graph or _beside(path, run.found)))
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
    screen = tables.console()
    for state, count in found.counts().items():
        screen.print(f"{count:>7,}  {state}: {STATES[state]}")
    screen.print()
    tables.show_table(rows, columns, choice, what="node")
    if found.added:
        extra = wording.number(sum(found.added.values()), "execution")
        screen.print(f"\nthe engine added {extra} of its own ({wording.time(found.added_ns)})")


def _beside(path: Path, run: str) -> Path:
    """The graph saved with a run: in its directory, or in one above."""
    directory = path if path.is_dir() else path.parent
    for place in (directory / run, directory, *directory.absolute().parents[:2]):
        for name in GRAPH_FILES:
            if (place / name).is_file():
                return place / name
    raise click.UsageError(
        f"there is no graph.pb beside {path}: give the graph's file as the second argument "
        "(stepscope run saves it; tf.io.write_graph, or graph.as_graph_def().SerializeToString(), "
        "writes one)"
    )


def _graph_def(path: Path) -> Any:
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    from stepscope._messages import GraphDef
    from stepscope.errors import UnreadableFileError

    graph = GraphDef()
    try:
        data = path.read_bytes()
        if path.suffix in (".pbtxt", ".txt"):
            text_format.Parse(data.decode(), graph)
        else:
            graph.ParseFromString(data)
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise UnreadableFileError(f"{path}: is no GraphDef: {error}") from error
    if not graph.node:
        raise UnreadableFileError(f"{path}: a GraphDef without nodes, or another kind of file")
    return graph
