"""`stepscope coverage`: which nodes of a graph were measured, and why others were not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.saved_runs import one_run, run_option, runs_argument, say_choice
from stepscope.cli.tables import table_options
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.cli.saved_runs import SavedRun
    from stepscope.cli.tables import Choice

GRAPH_FILES = ("graph.pb", "graph.pbtxt")


@click.command(
    name="coverage",
    short_help="Why an op has no time of its own.",
    epilog="Example: stepscope coverage stepscope-out/train --missing",
)
@runs_argument
@click.argument("graph", type=click.Path(path_type=Path), required=False)
@run_option
@click.option("--missing", is_flag=True, help="Only nodes without a time of their own.")
@table_options
def command(
    path: Path, graph: Path | None, number: int | None, missing: bool, choice: Choice
) -> None:
    """Account for every node of GRAPH in one run in PATH: measured, or the reason why not.

    GRAPH is a GraphDef file (graph.pb, or .pbtxt); by default the one that `stepscope run` saved
    beside the run of a session, or in the run of a function.
    """
    from stepscope.analysis import coverage
    from stepscope.analysis.coverage import STATES
    from stepscope.cli import tables, wording

    run = one_run(path, number)
    wanted = _graph_def(graph) if graph is not None else _graph_of(path, run)
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
    screen = tables.console()
    for state, count in found.counts().items():
        screen.print(f"{count:>7,}  {state}: {STATES[state]}")
    screen.print()
    tables.show_table(rows, columns, choice, what="node")
    if found.added:
        extra = wording.number(sum(found.added.values()), "execution")
        screen.print(f"\nthe engine added {extra} of its own ({wording.time(found.added_ns)})")


def _graph_of(path: Path, run: SavedRun) -> Any:
    """The graph of a run: saved beside it, or the one that its function's record holds."""
    directory = path if path.is_dir() else path.parent
    own, above = directory / run.found, (directory, *directory.absolute().parents[:2])
    if (found := _graph_in(own)) is not None:
        return _graph_def(found)
    written = [graphs.pre_optimization_graph for graphs in run.metadata.function_graphs]
    if written:
        # Functions that it calls are in the library of the outermost.
        return max(written, key=lambda graph: len(graph.library.function))
    for place in above:
        if (found := _graph_in(place)) is not None:
            return _graph_def(found)
    if run.metadata.engine == "tensorflow eager":
        raise StepscopeError(
            f"{run.name} is eager code, which has no graph: every op that it executed has a time "
            "(stepscope top shows them)"
        )
    raise click.UsageError(
        f"there is no graph.pb beside {path}: give the graph's file as the second argument "
        "(stepscope run saves it; tf.io.write_graph, or graph.as_graph_def().SerializeToString(), "
        "writes one)"
    )


def _graph_in(directory: Path) -> Path | None:
    return next((directory / n for n in GRAPH_FILES if (directory / n).is_file()), None)


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
