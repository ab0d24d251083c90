"""The user's graph that a run was a run of: in a file that is named, or found beside the run.

Read are `GraphDef` files, binary or text, the `.meta` of a checkpoint, and the graphs that event
files hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import StepscopeError, UnreadableFileError
from stepscope.metadata.readers._load import LoadedRun, stored_graph

if TYPE_CHECKING:
    from collections.abc import Iterable


__all__ = ["graph_in_file", "graph_of"]

GRAPH_FILES = ("graph.pb", "graph.pbtxt")
_EVENT_FILES = "*.tfevents.*"
_OP_EXECUTIONS = "op executions"
"""What a loss of a run says is missing that has no ops."""


def graph_of(path: Path, run: LoadedRun) -> Any:
    """The graph of a run in `path`.

    First the one saved for this run, in its store or beside it, then the one that its function's
    record holds, then those in its event files, then the one saved for all runs of the directory.
    An error says what to do where there is none.
    """
    if (stored := stored_graph(path, run.name)) is not None:
        from stepscope._messages import GraphDef

        return GraphDef.FromString(stored)
    directory = path if path.is_dir() else path.parent
    if (own := _saved_in(directory / run.name)) is not None:
        return graph_in_file(own, run)
    written = [graphs.pre_optimization_graph for graphs in run.metadata.function_graphs]
    if written:
        # Functions that it calls are in the library of the outermost.
        return max(written, key=lambda graph: len(graph.library.function))
    if (logged := _logged(path, run)) is not None:
        return logged
    for place in (directory, *directory.absolute().parents[:2]):
        if (shared := _saved_in(place)) is not None:
            return graph_in_file(shared, run)
    if run.metadata.engine == "tensorflow eager":
        name = run.name if path.is_dir() else path.name
        raise StepscopeError(
            f"{name} is eager code, which has no graph: every op that it executed has a time "
            "(stepscope top shows them)"
        )
    if not len(run.metadata.ops):
        _refuse_without_ops(path, run)
    raise StepscopeError(
        f"there is no graph.pb beside {path}, and no event file with the graph of this run as it "
        "was written: give the graph's file as the second argument (stepscope run saves it; "
        "tf.io.write_graph, or graph.as_graph_def().SerializeToString(), writes one)"
    )


def _refuse_without_ops(path: Path, run: LoadedRun) -> None:
    """Raise an error that says why there are no ops, if a loss of the run does."""
    for loss in run.metadata.completeness.losses:
        if loss.what == _OP_EXECUTIONS:
            raise StepscopeError(f"{run.name or path.name} has no ops: {loss.reason}")


def graph_in_file(path: Path, run: LoadedRun) -> Any:
    """The graph in a file; of several in an event file the one that is the run's."""
    from google.protobuf import text_format

    from stepscope._messages import DecodeError, GraphDef, MetaGraphDef
    from stepscope.metadata.readers import event_file

    if path.is_dir():
        saved = _saved_in(path)
        if saved is None:
            raise UnreadableFileError(f"{path}: a directory without {' or '.join(GRAPH_FILES)}")
        path = saved
    graph = GraphDef()
    try:
        data = path.read_bytes()
        if event_file.recognises(path, data):
            logged = _best(_in_events(data), run)
            if logged is None:
                raise UnreadableFileError(
                    f"{path}: an event file without the graph of this run as it was written"
                )
            return logged
        if path.suffix in (".pbtxt", ".txt"):
            text_format.Parse(data.decode(), graph)
        elif path.suffix == ".meta":
            graph = MetaGraphDef.FromString(data).graph_def
        else:
            graph.ParseFromString(data)
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise UnreadableFileError(
            f"{path}: is no GraphDef, which tf.io.write_graph writes ({error})"
        ) from error
    if not any(node.op for node in graph.node):
        raise UnreadableFileError(f"{path}: a GraphDef without nodes, or another kind of file")
    return graph


def _saved_in(directory: Path) -> Path | None:
    return next((directory / n for n in GRAPH_FILES if (directory / n).is_file()), None)


def _logged(path: Path, run: LoadedRun) -> Any:
    """The graph in the run's own event file, or in others of its directory; None without one."""
    own = None if path.is_dir() else _best(_in_file(path), run)
    if own is not None:
        return own
    files = path.rglob(_EVENT_FILES) if path.is_dir() else path.parent.glob(_EVENT_FILES)
    return _best((graph for file in sorted(files) for graph in _in_file(file)), run)


def _in_file(path: Path) -> list[Any]:
    from stepscope.metadata.readers import event_file

    try:
        data = path.read_bytes()
    except OSError:
        return []
    return _in_events(data) if event_file.recognises(path, data) else []


def _in_events(data: bytes) -> list[Any]:
    from stepscope._messages import DecodeError, GraphDef
    from stepscope.metadata.readers import event_file

    found = []
    for content in event_file.graphs(data):
        try:
            found.append(GraphDef.FromString(content))
        except DecodeError:
            continue
    return found


def _best(graphs: Iterable[Any], run: LoadedRun) -> Any:
    """The graph that holds the most of the run's ops, of equal ones the last; None if all none.

    A graph as executed, which `TensorBoardWriter` adds where it is given no other, is no answer:
    what was taken out is not in it. Its arguments and results are ops that no user writes.
    """
    names = set(run.metadata.ops.name.tolist())
    best, most = None, 0
    for graph in graphs:
        if any(node.op.startswith("_") for node in graph.node):
            continue
        here = sum(node.name in names for node in graph.node)
        if here and here >= most:
            best, most = graph, here
    return best
