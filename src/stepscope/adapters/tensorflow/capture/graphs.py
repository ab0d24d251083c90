"""What is known of the graphs that executed: op types, devices, inputs, source lines.

Sessions give their partition graphs with any run that asks. Functions give theirs only when they
are first instantiated while somebody is collecting, so traced runs that need them call functions
under a tag of their own: the first time a function is called so, it is instantiated anew, and its
graphs are kept here for all later runs.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from stepscope.adapters.tensorflow import versions

TAG: Final = "stepscope"
_KEPT: Final = 4096
_RUNS_OTHERS: Final = re.compile(r"PyFunc|^BatchFunction$|^MapDefun$|^RemoteCall$")
"""Op types that run graphs of their own in the run's time: Python, functions elsewhere. What input
pipelines do is done ahead, on threads of their own."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node of an executed graph."""

    op: str
    device: str
    inputs: tuple[tuple[str, int], ...]
    """Data inputs as (node, output)."""
    controls: tuple[str, ...]
    call: str
    """Op type and inputs, as TensorFlow's step stats have them in their labels."""


def nodes_of(graphs: Iterable[Any]) -> dict[str, NodeInfo]:
    """The nodes of GraphDefs, by name."""
    found: dict[str, NodeInfo] = {}
    for graph in graphs:
        for node in graph.node:
            data, controls = [], []
            for text in node.input:
                if text.startswith("^"):
                    controls.append(text[1:])
                else:
                    source, _, index = text.partition(":")
                    data.append((source, int(index or 0)))
            call = f"{node.op}({', '.join(text.removesuffix(':0') for text in node.input)})"
            found[node.name] = NodeInfo(node.op, node.device, tuple(data), tuple(controls), call)
    return found


_kinds: weakref.WeakKeyDictionary[Any, tuple[int, bool, bool, bool]] = weakref.WeakKeyDictionary()
"""By graph, what was found out of it when it had that version: other graphs, Python, pipelines."""


def runs_other_graphs(graph: Any) -> bool:
    """Whether ops of the graph, or of its functions, run graphs of their own."""
    return _found_out(graph)[1]


def runs_python(graph: Any) -> bool:
    """Whether ops of the graph, or of its functions, call Python functions."""
    return _found_out(graph)[2]


def takes_elements(graph: Any) -> bool:
    """Whether ops of the graph take elements of input pipelines, which run functions of theirs."""
    return _found_out(graph)[3]


def _found_out(graph: Any) -> tuple[int, bool, bool, bool]:
    known = _kinds.get(graph)
    if known is None or known[0] != graph.version:
        kinds = _op_types_in(graph)
        others = any(map(_RUNS_OTHERS.search, kinds))
        pipelines = any("Iterator" in kind or "Dataset" in kind for kind in kinds)
        known = graph.version, others, any("PyFunc" in kind for kind in kinds), pipelines
        _kinds[graph] = known
    return known


def _op_types_in(graph: Any) -> set[str]:
    kinds = {op.type for op in graph.get_operations()}
    if graph._functions:
        message = graph.as_graph_def()
        kinds |= {node.op for function in message.library.function for node in function.node_def}
    return kinds


class FunctionGraphs:
    """The graphs of all functions that were ever instantiated under our tag."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collecting = 0
        self._exit: Any = None
        self._found: list[Any] = []
        self._nodes: list[dict[str, NodeInfo]] = []
        self._written: list[set[tuple[str, str]]] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keep the graphs of functions instantiated inside. Several threads may be inside."""
        with self._lock:
            if self._collecting == 0:
                self._fresh: list[Any] = []
                self._exit = versions.collecting_graphs(self._fresh)
                self._exit.__enter__()
            self._collecting += 1
        try:
            yield
        finally:
            with self._lock:
                self._collecting -= 1
                if self._collecting == 0:
                    self._exit.__exit__(None, None, None)
                    for metadata in self._fresh:
                        self._keep(metadata)

    def flush(self) -> None:
        """Keep what was collected so far, while somebody is still inside `collect`."""
        with self._lock:
            if self._collecting == 0:
                return
            self._exit.__exit__(None, None, None)
            for metadata in self._fresh:
                self._keep(metadata)
            self._fresh = []
            self._exit = versions.collecting_graphs(self._fresh)
            self._exit.__enter__()

    def _keep(self, metadata: Any) -> None:
        for graphs in metadata.function_graphs:
            self._found.append(graphs)
            executed = graphs.partition_graphs or [graphs.post_optimization_graph]
            self._nodes.append(nodes_of(executed))
            self._written.append({(n.name, n.op) for n in graphs.pre_optimization_graph.node})
        del self._found[:-_KEPT], self._nodes[:-_KEPT], self._written[:-_KEPT]

    def matching(
        self, names: set[str], written: Collection[tuple[str, str]] = ()
    ) -> tuple[Any, Mapping[str, NodeInfo]] | None:
        """The graphs whose nodes these names are: the smallest that holds the most of them.

        Where the function is known as it was written (name and op type of each node), the graphs
        made from the most of that come first.
        """
        best: tuple[int, int, int] | None = None
        chosen = -1
        with self._lock:
            for i, nodes in enumerate(self._nodes):
                shared = len(names & nodes.keys())
                same = len(self._written[i].intersection(written))
                score = (same, shared, -len(nodes))
                if shared and (best is None or score > best):
                    best, chosen = score, i
            if chosen < 0:
                return None
            return self._found[chosen], self._nodes[chosen]


functions = FunctionGraphs()
