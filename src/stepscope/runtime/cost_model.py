"""The cost graph of a run: measured time, memory and shapes per node, on TensorFlow's schedule.

As in TensorFlow the costs of a graph are the largest seen in any run that was costed: a node's
`compute_cost` is its longest time in microseconds, an output's size and shape are those of the
largest tensor it held. Each device has a `_SOURCE` before and a `_SINK` after its nodes; ids count
through all devices; sends are final. Constants and variables are persistent memory, fed tensors
take none, and `alias_input_port` says which input's memory an output lives in (-1: its own).

Where TensorFlow says less, it is filled here: what a `_Recv` receives has its type and shape.
Sizes that nobody measured (string tensors) are -1, TensorFlow's word for unknown.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from stepscope._messages import CostGraphDef
from stepscope.graph import DType
from stepscope.runtime.execute.trace import Trace
from stepscope.runtime.plan.compiled import CompiledRun
from stepscope.runtime.plan.exec_graph import ExecGraph, ExecNode
from stepscope.runtime.plan.node_table import Int64s
from stepscope.runtime.plan.plan import Plan, PlanStep

_UNKNOWN: Final = -1
_VARIABLES: Final = ("VariableV2", "Variable")
Shape = tuple[int, ...]


class CostModel:
    """Counts the runs of each kind and says which of them are to be costed.

    Of the runs from the `after`-th on, every `every`-th; none where `every` is 0.
    """

    def __init__(self, every: int, after: int) -> None:
        self._every = every
        self._after = after
        self._lock = threading.Lock()
        self._costs: weakref.WeakKeyDictionary[ExecGraph, _Costs] = weakref.WeakKeyDictionary()

    def is_due(self, compiled: CompiledRun) -> bool:
        """Count one run of this kind; whether it is to be costed."""
        if not self._every:
            return False
        with compiled.lock:
            step = compiled.runs
            compiled.runs += 1
        return step >= self._after and (step + 1 - self._after) % self._every == 0

    def of(self, trace: Trace) -> Callable[[], Any]:
        """Take in a run that is done; returns what makes the CostGraphDef as of now."""
        graph = trace.plan.graph
        with self._lock:
            costs = self._costs.get(graph)
            if costs is None:
                costs = self._costs[graph] = _Costs(graph)
            costs.add(trace)
            micros, sizes, shapes = costs.micros.copy(), costs.sizes.copy(), list(costs.shapes)
            ports = costs.ports
        plan, aliases = trace.plan, _aliases(trace)

        def make() -> Any:
            outputs = {
                port: (int(size), shape)
                for port, size, shape in zip(ports, sizes, shapes, strict=True)
            }
            return _cost_graph(plan, micros, outputs, aliases)

        return make


class _Costs:
    """The largest costs seen of one graph's nodes and outputs."""

    def __init__(self, graph: ExecGraph) -> None:
        self.ports: list[tuple[int, int]] = [
            (i, slot)
            for i, node in enumerate(graph.nodes)
            for slot in range(len(node.output_dtypes))
        ]
        self.micros: Int64s = np.zeros(len(graph.nodes), dtype=np.int64)
        self.sizes: Int64s = np.full(len(self.ports), _UNKNOWN, dtype=np.int64)
        self.shapes: list[Shape | None] = [None] * len(self.ports)

    def add(self, trace: Trace) -> None:
        np.maximum(self.micros, trace.durations() // 1000, out=self.micros)
        found = trace.output_shapes()
        for k, (i, slot) in enumerate(self.ports):
            shape = found.get((i, slot))
            if shape is None:
                continue
            size = _size(trace.plan.steps[i], trace.plan.nodes[i].output_dtypes[slot], shape)
            if self.shapes[k] is None or size > self.sizes[k]:
                self.sizes[k], self.shapes[k] = size, shape


def _size(step: PlanStep, dtype: DType, shape: Shape) -> int:
    """Bytes of an output that belong to this node."""
    if step.node.op_type == "_Arg" or not dtype.is_numpy_compatible:
        return 0
    if not dtype.base_dtype.is_fixed_size:
        return _UNKNOWN
    return int(np.prod(shape, dtype=np.int64)) * dtype.base_dtype.size


def _aliases(trace: Trace) -> dict[tuple[int, int], int]:
    """Outputs that live in an input's memory: views of it, or written over it."""
    aliases = {
        (i, slot): step.kernel.views[0]
        for i, step in enumerate(trace.plan.steps)
        if step.kernel.views
        for slot in range(len(step.node.output_dtypes))
    }
    if trace.program is None:
        return aliases
    buffers = trace.program.buffers
    buffer_of = {port: buffers.views[view].buffer for port, view in buffers.view_of.items()}
    for (i, slot), buffer in buffer_of.items():
        for k, (source, source_slot) in enumerate(trace.plan.steps[i].node.inputs):
            if buffer_of.get((source.index, source_slot)) == buffer:
                aliases.setdefault((i, slot), k)
    return aliases


def _cost_graph(
    plan: Plan,
    micros: Int64s,
    outputs: Mapping[tuple[int, int], tuple[int, Shape | None]],
    aliases: Mapping[tuple[int, int], int],
) -> Any:
    proto = CostGraphDef()
    ids: dict[ExecNode, int] = {}
    partitions = [
        (device, [n for n in plan.nodes if n.device == device])
        for device in sorted(plan.graph.devices)
    ]
    first = 0
    for _, nodes in partitions:
        ids |= {node: first + 2 + k for k, node in enumerate(nodes)}
        first += 2 + len(nodes)
    for _, nodes in partitions:
        source = len(proto.node)
        proto.node.add(name="_SOURCE", id=source)
        sink = proto.node.add(name="_SINK", id=source + 1)
        sink.control_input.extend([source, *(ids[n] for n in _last(nodes))])
        for node in nodes:
            entry = proto.node.add(name=node.name, device=node.device, id=ids[node])
            _add_inputs(entry, node, ids, source)
            entry.compute_cost = int(micros[node.index])
            entry.is_final = node.op_type == "_Send"
            _add_outputs(entry, plan.steps[node.index], outputs, aliases)
    return proto


def _own_controls(node: ExecNode) -> list[ExecNode]:
    # A receive waits for its send on another device, which is no edge of this partition.
    return [c for c in node.controls if c.device == node.device]


def _last(nodes: Sequence[ExecNode]) -> list[ExecNode]:
    """The nodes nothing on their device waits for."""
    used = {source for n in nodes for source, _ in n.inputs}
    used |= {c for n in nodes for c in _own_controls(n)}
    return [n for n in nodes if n not in used]


def _add_inputs(entry: Any, node: ExecNode, ids: Mapping[ExecNode, int], source: int) -> None:
    for producer, slot in node.inputs:
        entry.input_info.add(preceding_node=ids[producer], preceding_port=slot)
    controls = sorted(ids[c] for c in _own_controls(node))
    entry.control_input.extend(controls if controls or node.inputs else [source])


def _add_outputs(
    entry: Any,
    step: PlanStep,
    outputs: Mapping[tuple[int, int], tuple[int, Shape | None]],
    aliases: Mapping[tuple[int, int], int],
) -> None:
    node = step.node
    for slot, dtype in enumerate(node.output_dtypes):
        size, shape = outputs[node.index, slot]
        info = entry.output_info.add(
            size=size,
            alias_input_port=aliases.get((node.index, slot), -1),
            dtype=dtype.as_datatype_enum,
        )
        if shape is None:
            info.shape.unknown_rank = True
        for d in shape or ():
            info.shape.dim.add(size=d)
        # A scalar's shape is there, and empty.
        info.shape.SetInParent()
        if size > 0 and (step.kernel.value is not None or node.op_type in _VARIABLES):
            entry.persistent_memory_size += size
