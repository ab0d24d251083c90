"""Graphs as executors execute them: known once, where the executor is made, for all their runs.

Our executor is given the final graph: placed, pruned, optimized, with calls inlined and loops
lowered. It keeps what that says (`native/node_log.cc`), under a number. Here it is taken apart the
first time that somebody looks at a run of it.

Guarantees. An `ExecutedGraph` never changes and may be used by any thread. It is the same object
for all runs of a graph, as long as not more than `_KEPT` others ran since.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.node_log import build
from stepscope.cached_property import cached_property
from stepscope.metadata import GraphFacts, Loss, Shared
from stepscope.metadata.logged_nodes import RUNS_INSIDE, InputRows, nodes_of
from stepscope.metadata.readers.node_log_file import graph_facts

_T = TypeVar("_T")
_KEPT: Final = 1024
_PIPELINE: Final = re.compile(r"Dataset|Iterator")
_PIPELINES_UNSEEN: Final = (
    "tf.data works on threads of its own, which only TensorFlow's profiler sees, and it was not "
    "on; the op that took an element is there"
)


def text_of(data: Any, size: ctypes.c_int64) -> bytes:
    """What the library gave, copied and given back."""
    try:
        return ctypes.string_at(data, size.value)
    finally:
        build.library().stepscope_give_back(data)


class ExecutedGraph:
    """The nodes that one executor executes, in the order in which it numbers them."""

    def __init__(self, number: int, handle: int) -> None:
        """`handle` is the library's, which is let go of with this object."""
        self.number = number
        self._handle = handle
        release = weakref.finalize(self, build.library().stepscope_let_go, handle)
        release.atexit = False

    @cached_property
    def _text(self) -> str:
        size = ctypes.c_int64()
        data = build.library().stepscope_facts(self._handle, ctypes.byref(size))
        return text_of(data, size).decode()

    @cached_property
    def _told(self) -> tuple[str, list[list[str]]]:
        device, *lines = self._text.split("\n")
        return device, [line.split("\t") for line in lines]

    @cached_property
    def facts(self) -> GraphFacts:
        """Names, types, device and labels."""
        return graph_facts(self._text)

    @cached_property
    def constants(self) -> NDArray[np.uint32]:
        """Per node the number of what it is, if it is a constant; else 0."""
        return np.array([int(node[2]) for node in self._told[1]], dtype=np.uint32)

    @cached_property
    def info(self) -> Mapping[str, NodeInfo]:
        """The nodes by name."""
        device, nodes = self._told
        found: dict[str, NodeInfo] = {}
        for name, op, _, told in nodes:
            inputs = told.split()
            ports = [text.partition(":") for text in inputs if text[0] != "^"]
            found[name] = NodeInfo(
                op, device, tuple((source, int(index or 0)) for source, _, index in ports),
                tuple(text[1:] for text in inputs if text[0] == "^"),
                f"{op}({', '.join(inputs)})",
            )  # fmt: skip
        return found

    @cached_property
    def graph_def(self) -> Any:
        """A GraphDef of it, without values of large constants and what every graph begins with."""
        size = ctypes.c_int64()
        data = text_of(build.library().stepscope_nodes(self._handle, ctypes.byref(size)), size)
        device, nodes = self._told
        graph = versions.tensorflow().compat.v1.GraphDef()
        place = 0
        for name, op, _, inputs in nodes:
            length = int.from_bytes(data[place : place + 8], "little")
            node = graph.node.add()
            node.ParseFromString(data[place + 8 : place + 8 + length])
            place += 8 + length
            node.name, node.op = name, op
            del node.input[:]
            node.input.extend(inputs.split())
            node.device = device
            if name == "_SOURCE":
                del graph.node[-1]
        return graph


class ExecutedGraphs:
    """The graphs of one run: their nodes one after the other."""

    def __init__(self, graphs: Sequence[ExecutedGraph]) -> None:
        self.graphs = tuple(graphs)
        self._shared: weakref.WeakValueDictionary[Any, Shared[Any]] = weakref.WeakValueDictionary()

    def shared(self, what: str, written: Sequence[Any], make: Callable[[], _T]) -> Shared[_T]:
        """What these graphs and those they were written as determine: the same for all their runs.

        For as long as a run of them is kept, or whoever was given it keeps it.
        """
        found = Shared(make)
        return self._shared.setdefault((what, versions_of(written)), found)

    @cached_property
    def facts(self) -> GraphFacts:
        """Of all their nodes; none where a run ended before anything was executed."""
        if not self.graphs:
            return GraphFacts.build(name=(), op=(), device=())
        return GraphFacts.concat([graph.facts for graph in self.graphs])

    @cached_property
    def constants(self) -> NDArray[np.uint32]:
        """As of one graph."""
        none = np.empty(0, np.uint32)
        return np.concatenate([none, *(graph.constants for graph in self.graphs)])

    @cached_property
    def info(self) -> Mapping[str, NodeInfo]:
        """As of one graph."""
        if len(self.graphs) == 1:
            return self.graphs[0].info
        found: dict[str, NodeInfo] = {}
        for graph in self.graphs:
            found.update(graph.info)
        return found

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """What a log of a run of them lacks that the profiler would have."""
        found = []
        kinds = {op for graph in self.graphs for op in graph.facts.ops.table}
        inside = sorted(op for op in kinds if RUNS_INSIDE.fullmatch(op))
        if inside:
            what = "annotations, ops inside of ops"
            reason = (
                f"{', '.join(inside)}: what these ops run, and the program's own spans, only "
                "TensorFlow's profiler sees, which was not on; each op is timed as a whole"
            )
            found.append(Loss(what, 0, reason))
        if any(map(_PIPELINE.search, kinds)):
            found.append(Loss("input pipelines", 0, _PIPELINES_UNSEEN))
        return tuple(found)

    @cached_property
    def edges(self) -> InputRows:
        """The inputs of all nodes, as rows of `facts`."""
        found: list[tuple[int, int, int]] = []
        first = 0
        for graph in self.graphs:
            names = graph.facts.names.values.tolist()
            place = {name: first + i for i, name in enumerate(names)}
            for name in names:
                inputs = graph.info[name].inputs
                found += [(place[source], slot, place[name]) for source, slot in inputs]
            first += len(names)
        table = np.array(found, dtype=np.int32).reshape(-1, 3)
        return InputRows(table[:, 0], table[:, 1], table[:, 2])

    @cached_property
    def numbers(self) -> NDArray[np.uint32]:
        """What logs call each of them."""
        return np.array([graph.number for graph in self.graphs], dtype=np.uint32)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many nodes each has."""
        return np.array([len(graph.facts) for graph in self.graphs], dtype=np.int64)

    def nodes(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Per row of a log its node, as a row of `facts`."""
        return nodes_of(self.numbers, self.lengths, rows)


def versions_of(written: Sequence[Any]) -> tuple[tuple[weakref.ref[Any], int], ...]:
    """Graphs as they are now, to be looked up by."""
    return tuple((weakref.ref(graph), graph.version) for graph in written)


_messages: weakref.WeakKeyDictionary[ExecutedGraphs, dict[Any, Any]] = weakref.WeakKeyDictionary()


def function_graphs(executed: ExecutedGraphs, written: Sequence[Any]) -> Any:
    """TensorFlow's message of a function's graphs: as it was written, where that is known, and as
    it is executed. Made once; not to be written to.
    """
    known = _messages.setdefault(executed, {})
    key = versions_of(written)
    if key not in known:
        message = versions.tensorflow().compat.v1.RunMetadata.FunctionGraphs()
        for graph in executed.graphs:
            message.partition_graphs.append(graph.graph_def)
            message.post_optimization_graph.node.extend(graph.graph_def.node)
        for graph in written:
            message.pre_optimization_graph.MergeFrom(graph.as_graph_def())
        known[key] = message
    return known[key]


class KnownGraphs:
    """The graphs that runs named so far, by their numbers, and those of runs that have several."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._graphs: OrderedDict[int, ExecutedGraph] = OrderedDict()
        self._together: OrderedDict[tuple[int, ...], ExecutedGraphs] = OrderedDict()

    def of(
        self, numbers: tuple[int, ...], handle_of: Callable[[int], int | None]
    ) -> ExecutedGraphs:
        """The graphs of these numbers; `handle_of` gives the library's handle of a new one."""
        found = self._together.get(numbers)
        if found is not None:
            return found
        with self._lock:
            graphs = []
            for number in numbers:
                graph = self._graphs.get(number)
                if graph is None:
                    graph = self._graphs[number] = ExecutedGraph(number, handle_of(number) or 0)
                graphs.append(graph)
            found = self._together[numbers] = ExecutedGraphs(graphs)
            for kept in (self._graphs, self._together):
                while len(kept) > _KEPT:
                    kept.popitem(last=False)
            return found


known_graphs: Final = KnownGraphs()


class LibraryDescriptions:
    """What tensors are, by the library's numbers from 1 on: dtype, shape and bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self.dtype: NDArray[np.int32] = np.zeros(1, np.int32)
        self.bytes: NDArray[np.int64] = np.zeros(1, np.int64)
        self.shape: NDArray[Any] = np.empty(1, object)

    def of(
        self, numbers: NDArray[Any]
    ) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[np.int64]]:
        """Dtype, shape and bytes of each."""
        self._have(int(numbers.max(initial=0)))
        return self.dtype[numbers], self.shape[numbers], self.bytes[numbers]

    def _have(self, number: int) -> None:
        """Have all up to this number."""
        with self._lock:
            if number <= self._count:
                return
            size = ctypes.c_int64()
            data = build.library().stepscope_descriptions(self._count, ctypes.byref(size))
            numbers = np.frombuffer(text_of(data, size), np.int64).tolist()
            dtypes, shapes, sizes = [], [], []
            place = 0
            while place < len(numbers):
                dtype, rank = numbers[place : place + 2]
                place += 2 + rank
                shape = tuple(numbers[place - rank : place])
                dtypes.append(dtype)
                shapes.append(shape)
                sizes.append(_item_bytes(dtype) * int(np.prod(shape, dtype=np.int64)))
            self._count += len(dtypes)
            added = np.empty(len(shapes), object)
            for row, shape in enumerate(shapes):
                added[row] = shape
            # The dtypes last: who sees them sees the rest.
            self.shape = np.concatenate([self.shape, added])
            self.bytes = np.concatenate([self.bytes, np.array(sizes, np.int64)])
            self.dtype = np.concatenate([self.dtype, np.array(dtypes, np.int32)])


@functools.cache
def _item_bytes(dtype: int) -> int:
    """How many bytes an element has; 0 where that depends on its value."""
    kind = versions.tensorflow().dtypes.as_dtype(dtype)
    if kind.name in ("string", "resource", "variant"):
        return 0
    return int(np.dtype(kind.as_numpy_dtype).itemsize)


descriptions: Final = LibraryDescriptions()
