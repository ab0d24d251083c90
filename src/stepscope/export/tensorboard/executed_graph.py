"""What TensorBoard's Graphs page needs to colour a run: a graph, and statistics it understands.

The page joins node names of the graph with those of the step stats, takes the time of a node from
`all_end_rel_micros` (0 counts as "did not run") and its memory from `memory.total_bytes`. It shows
one graph per directory. So `shown_run` gives a run a form of its own for the page:

- An op that took less than a microsecond gets 1; the nanoseconds beside it stay as they are, and
  Stepscope reads those.
- An op whose memory was not recorded, but whose outputs were, gets their bytes, under an allocator
  called `OUTPUTS` and without a peak.
- Eager ops have no node, only an op type. Each execution becomes a node, numbered as TensorFlow
  numbers names and inside a scope for each annotation around it, and points at the one before it
  on its thread by a control edge.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepscope import _messages as pb
from stepscope.metadata.executed_graphs import executed_graphs
from stepscope.metadata.wire.labels import make_label, parse_label

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from stepscope.metadata import RunMetadata

OUTPUTS: Final = "outputs"
"""The allocator's name where the bytes of an op's outputs stand for memory nobody recorded."""

MOST_EAGER_NODES: Final = 5000
"""With more eager executions than the page can show, there is one node per op type."""

_SCHEDULER_NODES: Final = frozenset({"_SOURCE", "_SINK"})
_ANNOTATION: Final = "Annotation"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.\\/>-]")
_SHAPES: Final = "_output_shapes"
_WITHOUT_INPUTS: Final = frozenset({"Const", "NoOp", "Placeholder", "VarHandleOp", "VariableV2"})
"""Op types of which a graph has nodes that look as eager ops do: `Const_1` has no inputs."""


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as the page takes it: `metadata` is a message, `nodes` are `NodeDef`s by name."""

    metadata: Any
    nodes: Mapping[str, Any]
    """The nodes that executed and, where the run brought its graphs, those around them."""
    executed: frozenset[str]


@dataclass(slots=True)
class _Row:
    """One execution: its message, and what its label tells."""

    stats: Any
    device: str
    op: str
    inputs: list[str]


def shown_run(metadata: RunMetadata, graph: Container[str] = ()) -> ShownRun:
    """`metadata` as the page needs it; the object passed is not changed.

    `graph` are the names of nodes that the page knows already: an execution of one of them keeps
    its name.
    """
    message = pb.RunMetadataMessage.FromString(metadata.SerializeToString())
    known = _recorded_nodes(message)
    rows = _rows(message)
    _name_eager_rows([row for row in rows if _is_eager(row, known, graph)], rows)
    nodes = dict(known)
    executed: set[str] = set()
    for row in rows:
        _complete(row.stats)
        name = row.stats.node_name
        if name in _SCHEDULER_NODES or row.op == _ANNOTATION:
            continue
        executed.add(name)
        if name not in nodes:
            nodes[name] = pb.NodeDef(name=name, op=row.op, input=row.inputs, device=row.device)
        if row.stats.output and _SHAPES not in nodes[name].attr:
            _describe_outputs(nodes[name], row.stats.output)
    return ShownRun(message, nodes, frozenset(executed))


def graph_of(nodes: Mapping[str, Any]) -> Any:
    """A `GraphDef` of the nodes; inputs that are not among them are left out."""
    graph = pb.GraphDef()
    for node in nodes.values():
        kept = graph.node.add()
        kept.CopyFrom(node)
        del kept.input[:]
        kept.input.extend(i for i in node.input if _source(i) in nodes)
    return graph


def _source(text: str) -> str:
    """The node that an input ("a", "a:1", "^a") comes from."""
    return text.removeprefix("^").partition(":")[0]


def _recorded_nodes(message: Any) -> dict[str, Any]:
    """The nodes of the graphs as executed that came with the run; the first of a name counts."""
    nodes: dict[str, Any] = {}
    for graph in executed_graphs(message):
        for node in graph.node:
            nodes.setdefault(node.name, node)
    return nodes


def _rows(message: Any) -> list[_Row]:
    told = {item.node: item.op for item in message.node_ops}
    rows = []
    for device in message.step_stats.dev_stats:
        for stats in device.node_stats:
            op, inputs = parse_label(stats.node_name, stats.timeline_label)
            op = told.get(stats.node_name, op)
            rows.append(_Row(stats, device.device, op, inputs))
    return rows


def _is_eager(row: _Row, known: Container[str], graph: Container[str]) -> bool:
    """Whether the row names an op type, or the line it was called from, and no node of a graph."""
    name = row.stats.node_name
    if row.inputs or name in known or name in graph:
        return False
    called = name.startswith(f"{row.op}_") and name[len(row.op) + 1 :].isdecimal()
    return name == row.op or (called and row.op not in _WITHOUT_INPUTS)


def _name_eager_rows(eager: list[_Row], rows: list[_Row]) -> None:
    if len(eager) > MOST_EAGER_NODES:
        return
    eager.sort(key=_start)
    scopes = _scopes(eager, [row for row in rows if row.op == _ANNOTATION])
    of_graphs = {row.stats.node_name for row in rows} - {row.op for row in eager}
    uses: Counter[str] = Counter()
    before: dict[int, str] = {}
    for row, scope in zip(eager, scopes, strict=True):
        name = f"{scope}{row.op}"
        while True:
            numbered = f"{name}_{uses[name]}" if uses[name] else name
            uses[name] += 1
            if numbered not in of_graphs:
                break
        row.stats.node_name = numbered
        row.stats.timeline_label = make_label(numbered, row.op)
        thread = row.stats.thread_id
        if thread in before:
            row.inputs = [f"^{before[thread]}"]
        before[thread] = numbered


def _scopes(eager: list[_Row], annotations: list[_Row]) -> list[str]:
    """For each row the names of the annotations around it on its thread: "outer/inner/"."""
    by_thread: dict[int, list[_Row]] = defaultdict(list)
    for span in sorted(annotations, key=lambda row: (_start(row), -_end(row))):
        by_thread[span.stats.thread_id].append(span)
    open_spans: dict[int, list[_Row]] = defaultdict(list)
    scopes = []
    for row in eager:
        thread = row.stats.thread_id
        coming, around = by_thread[thread], open_spans[thread]
        while coming and _start(coming[0]) <= _start(row):
            around.append(coming.pop(0))
        around[:] = [span for span in around if _end(span) >= _end(row)]
        names = (_NOT_IN_NAMES.sub("_", span.stats.node_name).strip("/") for span in around)
        scopes.append("".join(f"{name}/" for name in names if name))
    return scopes


def _start(row: _Row) -> int:
    stats = row.stats
    return int(stats.all_start_nanos or stats.all_start_micros * 1000)


def _end(row: _Row) -> int:
    stats = row.stats
    return _start(row) + int(stats.all_end_rel_nanos or stats.all_end_rel_micros * 1000)


def _complete(stats: Any) -> None:
    if stats.all_end_rel_micros < 1:
        stats.all_end_rel_micros = 1
    if not stats.memory and (size := _output_bytes(stats.output)):
        stats.memory.add(allocator_name=OUTPUTS, total_bytes=size)


def _output_bytes(outputs: Iterable[Any]) -> int:
    return sum(o.tensor_description.allocation_description.requested_bytes for o in outputs)


def _describe_outputs(node: Any, outputs: Iterable[Any]) -> None:
    """Let the page label and weigh the edges that leave the node."""
    shapes = {output.slot: output.tensor_description.shape for output in outputs}
    described = node.attr[_SHAPES].list.shape
    for slot in range(max(shapes) + 1):
        described.add().CopyFrom(shapes.get(slot, pb.TensorShapeProto(unknown_rank=True)))
