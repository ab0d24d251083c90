"""A step of the embedded engine as its recording has it: enough to run it again elsewhere.

The graph is the program's, as the store keeps it; what was fed and fetched is told by the nodes
that the engine made for it (`_arg_x_0_0`, `_retval_loss_0_0`), with the types and shapes of what
was fed. What a graph does not hold (Python functions, what lies in queues, files) makes a step one
that cannot be run again: a `StepscopeError` says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.program.run_parts import PYTHON_TYPES
from stepscope.errors import StepscopeError
from stepscope.metadata.readers.users_graph import graph_of
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from stepscope.metadata import LoadedRun, RunMetadata

__all__ = ["FedTensor", "RecordedStep", "StepGraph", "closure", "recorded_step"]

_FED: Final = re.compile(r"_arg_(.*)_(\d+)_\d+\Z", re.DOTALL)
_FETCHED: Final = re.compile(r"_retval_(.*)_(\d+)_\d+\Z", re.DOTALL)
_OUTSIDE: Final = {
    "takes from a queue": ("Dequeue",),
    "puts into a queue": ("Enqueue",),
    "reads or writes files": ("Read", "Save", "Restore", "WriteFile", "MergeV2Checkpoints"),
    "takes from an iterator": ("Iterator", "Dataset"),
}
"""Op types with such a part in their name need something that is in no recording."""
_INSIDE: Final = frozenset({"ReadVariableOp", "TensorArrayReadV3"})
_ADDED: Final = frozenset({"_Arg", "_Retval", "_Send", "_Recv"})


@dataclass(frozen=True, slots=True)
class FedTensor:
    """A tensor that was fed: its name (`x:0`), a number of TensorFlow's `DataType`, its shape."""

    name: str
    dtype: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepGraph:
    """What a session is asked for: a graph by the names of its nodes, and what is fed and fetched.

    `fetches` are tensors (`loss:0`), `targets` ops. `threads` is how many the session has, 0 for as
    many as it likes, and `cpus` how many devices.
    """

    nodes: Mapping[str, Any]
    feeds: tuple[FedTensor, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    cpus: int = 1
    threads: int = 0


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step's graph, and what its run did: how often each node executed, and how it was traced.

    `whole` is the program's graph, of which the step's is a part.
    """

    graph: StepGraph
    whole: Mapping[str, Any]
    executed: Mapping[str, int]
    trace_level: int

    @property
    def random(self) -> bool:
        """Whether two runs of it differ in what they return."""
        parts = ("Random", "Multinomial", "TruncatedNormal", "Shuffle")
        nodes = self.graph.nodes
        kinds = {nodes[name].op for name in self.executed if name in nodes}
        return any(part in kind for kind in kinds for part in parts)


def recorded_step(path: Path, run: LoadedRun) -> RecordedStep:
    """The step that a run of the recording at `path` was."""
    metadata = run.metadata
    _refuse(metadata)
    graph = graph_of(path, run)
    nodes = {node.name: node for node in graph.node}
    feeds = _fed(metadata)
    fetches = [
        f"{fetched[1]}:{fetched[2]}"
        for name in metadata.ops.names.table
        if (fetched := _FETCHED.match(name)) is not None
    ]
    targets = [name for name in _unread(metadata) if name in nodes]
    unknown = [name for name in (*fetches, *targets) if input_node(name) not in nodes]
    if unknown or not (fetches or targets):
        what = f"`{unknown[0]}`" if unknown else "what the step was run for"
        raise StepscopeError(f"the graph that was recorded does not have {what}")
    cpus = {place.rpartition(":")[2] for place in metadata.ops.devices.table if "CPU:" in place}
    options = metadata.run_options
    return RecordedStep(
        StepGraph(
            closure(nodes, (*fetches, *targets), {feed.name for feed in feeds}),
            tuple(feeds),
            tuple(fetches),
            tuple(targets),
            cpus=1 + max((int(number) for number in cpus if number.isdigit()), default=0),
        ),
        nodes,
        Counter(name for name in metadata.ops.name.tolist() if name in nodes),
        3 if options is None else int(options.trace_level),
    )


def closure(
    nodes: Mapping[str, Any], wanted: Iterable[str], fed: Iterable[str] = ()
) -> dict[str, Any]:
    """The nodes that are needed for some tensors or ops where others are fed, by their names.

    Placeholders that are fed are needed as well: something has to be fed.
    """
    given = set(fed)
    found: dict[str, Any] = {}
    stack = [*wanted, *given]
    while stack:
        text = stack.pop()
        name = input_node(text)
        if name in found or name not in nodes:
            continue
        found[name] = nodes[name]
        if text not in given and f"{name}:0" not in given:
            stack.extend(nodes[name].input)
    # In their own order: what is imported is numbered by it.
    return {name: node for name, node in nodes.items() if name in found}


def _refuse(metadata: RunMetadata) -> None:
    if metadata.engine != "embedded":
        raise StepscopeError(
            f"it was recorded on {metadata.engine or 'an engine that the file does not name'}: the "
            "embedded engine's runs can be proved; record the program again after the change, and "
            "--check"
        )
    kinds = set(metadata.ops.ops.table)
    if kinds & PYTHON_TYPES:
        raise StepscopeError("the step calls Python functions, which are in no recording")
    for what, parts in _OUTSIDE.items():
        if any(part in kind for kind in kinds - _INSIDE for part in parts):
            raise StepscopeError(f"the step {what}, which a recording does not hold")


def _fed(metadata: RunMetadata) -> list[FedTensor]:
    ops = metadata.ops
    tensors = ops.tensors
    found: dict[str, FedTensor] = {}
    rows = zip(
        tensors.op_index.tolist(), tensors.dtype.tolist(), tensors.shape.tolist(), strict=True
    )
    for row, dtype, shape in rows:
        fed = _FED.match(str(ops.name[row])) if str(ops.op[row]) == "_Arg" else None
        if fed is not None and shape is not None:
            name = f"{fed[1]}:{fed[2]}"
            found[name] = FedTensor(name, dtype, tuple(shape))
    asked = {
        f"{fed[1]}:{fed[2]}" for name in ops.names.table if (fed := _FED.match(name)) is not None
    }
    if asked - set(found):
        raise StepscopeError(
            "the shapes of what was fed were not recorded: `stepscope run --trace full` does"
        )
    return list(found.values())


def _unread(metadata: RunMetadata) -> list[str]:
    """The nodes that ran and that nothing reads or waits for."""
    facts = metadata.ops.facts
    names, kinds = facts.names.values.tolist(), facts.ops.values.tolist()
    read: set[str] = set()
    for name, label in zip(names, facts.all_labels.values.tolist(), strict=True):
        read.update(map(input_node, parse_label(name, label)[1]))
    ran = set(metadata.ops.name.tolist())
    return [
        name
        for name, kind in zip(names, kinds, strict=True)
        if name in ran and name not in read and kind not in _ADDED
    ]
