"""The user's source lines of the nodes that a run executed.

TensorFlow keeps the frames that made each op of a graph, also of the graphs of functions that it
calls. Of the graph as executed it keeps nothing: there, calls are inlined
(`StatefulPartitionedCall/dense/MatMul`), loops and conditionals lowered (`while/body/_9/add`,
`while/merge/_20`), arguments renamed, and optimizers put in ops of their own. So each executed name
is traced back to an op as it was written:

1. the op of that name, where a call's ops are named after the call;
2. the op that an optimizer made it from, by the name it gave it;
3. the op whose name its own begins with: what a loop was lowered to is of the loop's line;
4. an argument or a result: the op that stands for it in the function's graph.

What none of it explains has no line, and `missing_lines` counts it.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.source_lines import innermost_of_user
from stepscope.analysis.coverage.executed import path_of, sources_of_name
from stepscope.metadata import GraphFacts, Loss
from stepscope.metadata.xplane import ANNOTATION, FIRST_NODE

__all__ = ["called_lines", "executed_lines", "lines_of", "missing_lines", "written_lines"]

_BRANCHES: Final = {"then_branch": "then", "else_branch": "else", "cond": "cond", "body": "body"}
"""By the attribute that names a function, what lowering calls the part that it becomes."""
_FED: Final = re.compile(r"_(?:arg|retval)_(.+)_\d+_\d+\Z")
_RESULT: Final = re.compile(r"(?:_retval)?_RetVal\Z")
_NUMBER: Final = re.compile(r"_\d+\Z")
"""What a node gets whose name is that of a result as well."""
_BOUNDARY: Final = "Func/"
"""What inlining puts before the names of a call's inputs and outputs."""
_DEEPEST: Final = 20
_MADE_BY_NO_LINE: Final = frozenset({FIRST_NODE, "_SINK"})
_known: weakref.WeakKeyDictionary[Any, tuple[int, dict[str, str]]] = weakref.WeakKeyDictionary()
"""By graph, the lines of its ops when it had that version."""
_executed: weakref.WeakKeyDictionary[Any, dict[Any, ExecutedLines]] = weakref.WeakKeyDictionary()
"""By the graphs that executors execute, the lines of their nodes, by what was written, and when."""


class GraphsAsExecuted(Protocol):
    """Graphs as executors execute them."""

    @property
    def facts(self) -> GraphFacts:
        """Of all their nodes."""


class ExecutedLines(NamedTuple):
    """The lines of the nodes of graphs, as written and as executed."""

    lines: dict[str, str]
    """`file:line` by name."""
    missing: NDArray[np.bool_]
    """Per node as executed, whether it has none, though a line made it."""


def lines_of(
    written: Sequence[Any], executed: GraphsAsExecuted, interface: Callable[[], Mapping[str, str]]
) -> ExecutedLines:
    """The lines of the nodes of graphs, as written and as executed; worked out once for both.

    `interface` is as for `executed_lines`.
    """
    known = _executed.setdefault(executed, {})
    key = tuple((weakref.ref(graph), graph.version) for graph in written)
    if key not in known:
        found: dict[str, str] = {}
        for graph in written:
            found |= written_lines(graph)
        names = executed.facts.names.values.tolist()
        found |= executed_lines(found, names, interface() if written else {})
        missing = [name not in found and name not in _MADE_BY_NO_LINE for name in names]
        known[key] = ExecutedLines(found, np.array(missing, dtype=bool))
    return known[key]


def written_lines(graph: Any) -> dict[str, str]:
    """`file:line` of the user's code per op of a TensorFlow graph, where TensorFlow knows it.

    Ops of functions that it calls are there under the names that they have once inlined, without
    the numbers that lowering adds: `call/add`, `while/body/add`.
    """
    found: dict[str, str] = {}
    for path, lines in _opened(graph):
        for name, line in lines.items():
            found.setdefault(path + name, line)
    return found


def _opened(graph: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, dict[str, str]]]:
    """The graph and those of the functions it calls, with what their ops' names begin with."""
    yield path, _lines_in(graph)
    functions = getattr(graph, "_functions", None)
    if not functions or depth == _DEEPEST:
        return
    for op in graph.get_operations():
        for part, name in versions.functions_called_by(op):
            called = getattr(functions.get(name), "graph", None)
            if called is not None:
                inside = f"{path}{op.name}/" + (f"{_BRANCHES.get(part, part)}/" if part else "")
                yield from _opened(called, inside, depth + 1)


def called_lines(names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The lines of the nodes of functions that were called by these names, as `written_lines`.

    And their interface, as `executed_lines` takes it. A name that nodes of several functions have,
    made by different lines, has none.
    """
    found: dict[str, str] = {}
    interface: dict[str, str] = {}
    for name in names:
        lines, results = _lines_of_function(name)
        for node, line in lines.items():
            if found.setdefault(node, line) != line:
                found[node] = ""
        interface |= results
    return {node: line for node, line in found.items() if line}, interface


@functools.lru_cache(1024)
def _lines_of_function(name: str, depth: int = 0) -> tuple[dict[str, str], dict[str, str]]:
    """The same of one function and those it calls; a function never changes."""
    known = versions.function_frames(name)
    if known is None:
        return {}, {}
    found = {node: innermost_of_user(frames) for node, frames in known.frames.items()}
    for node, part, called in known.calls if depth < _DEEPEST else ():
        path = f"{node}/" + (f"{_BRANCHES.get(part, part)}/" if part else "")
        for inner, line in _lines_of_function(called, depth + 1)[0].items():
            found.setdefault(path + inner, line)
    return {node: line for node, line in found.items() if line}, known.interface


def _lines_in(graph: Any) -> dict[str, str]:
    version, lines = _known.get(graph, (-1, {}))
    if version != graph.version:
        version, lines = graph.version, {}
        # The same code makes many ops, and comparing frames takes far less than looking at them.
        lines_of_frames: dict[Any, str] = {}
        for op in graph.get_operations():
            frames = op.traceback
            if not frames:
                continue
            line = lines_of_frames.get(frames)
            if line is None:
                line = innermost_of_user((f.filename, f.lineno) for f in reversed(list(frames)))
                lines_of_frames[frames] = line
            if line:
                lines[op.name] = line
        _known[graph] = version, lines
    return lines


def executed_lines(
    written: Mapping[str, str], executed: Iterable[str], interface: Mapping[str, str]
) -> dict[str, str]:
    """The lines of executed nodes that are not under their own names in `written`.

    `interface` has the op of a function's graph by the name of each argument and result.
    """
    found = {}
    for name in executed:
        if name not in written:
            line = _line_of(name, written, interface)
            if line:
                found[name] = line
    return found


def _line_of(name: str, written: Mapping[str, str], interface: Mapping[str, str]) -> str:
    if (fed := _FED.match(name)) is not None:
        return written.get(fed.group(1), "")
    path = path_of(name).removeprefix(_BOUNDARY)
    for candidate in (path, *sources_of_name(path)):
        if candidate in written:
            return written[candidate]
    for renamed in (_RESULT, _NUMBER):
        known = interface.get(renamed.sub("", name))
        if known is not None:
            return written.get(known, "")
    while "/" in path:
        path = path.rpartition("/")[0]
        if path in written:
            return written[path]
    return ""


def missing_lines(
    executed: Iterable[tuple[str, str, int]], lines: Mapping[str, str], why: str
) -> list[Loss]:
    """That executions (name, op type, how many) have no line, if there are any.

    What no line made is none.
    """
    count = sum(
        times
        for name, op, times in executed
        if name not in lines and name not in _MADE_BY_NO_LINE and op != ANNOTATION
    )
    return [Loss("source lines", count, why)] if count else []
