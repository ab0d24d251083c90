"""The nodes of a graph with what they calculate, what they hold and what runs of them took.

A `ModelProfile` has every node of a graph; runs add numbers to them by step. Nodes that ran and are
not in the graph (what a session puts in for what is fed and fetched) are there too, their name
standing for their type. Of a node that ran in several steps the numbers are averages, unless one
step is asked for; one that ran several times in a step, in a loop, has sums.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.work.graph_calls import completed_shapes, graph_calls
from stepscope.analysis.work.op_work import Shape, tensorflow_flops

__all__ = ["TRAINABLE", "Frame", "ModelProfile", "Numbers", "ProfiledNode", "shapes_of_runs"]

TRAINABLE = "_trainable_variables"
"""The type that variables have which are trained."""

_KERNEL_OF = re.compile(r"(.+?):[A-Za-z_]\w*\Z", re.DOTALL)
_GRADIENT = re.compile(r"(?:.*/)?gradients(?:_\d+)?/(?P<forward>.+?)_grad/")


class Numbers(NamedTuple):
    """What a node takes, in the order in which messages have it."""

    exec_micros: int = 0
    accelerator_exec_micros: int = 0
    cpu_exec_micros: int = 0
    requested_bytes: int = 0
    peak_bytes: int = 0
    residual_bytes: int = 0
    output_bytes: int = 0
    parameters: int = 0
    float_ops: int = 0
    run_count: int = 0

    def plus(self, other: Numbers) -> Numbers:
        return Numbers(*map(sum, zip(self, other, strict=True)))


class Frame(NamedTuple):
    """A line of the program on the way to where a node was made."""

    file: str
    line: int
    function: str
    text: str = ""


@dataclass(slots=True)
class _Execution:
    """What a node took in one step."""

    runs: int = 0
    cpu_micros: int = 0
    accelerator_micros: int = 0
    requested: int = 0
    peak: int = 0
    residual: int = 0
    output: int = 0
    devices: set[str] = field(default_factory=set)
    starts: list[tuple[str, int, int]] = field(default_factory=list)
    """Device, beginning and length in microseconds of every execution."""


@dataclass(slots=True)
class ProfiledNode:
    """A node: what the graph says of it, and by step what its executions took."""

    name: str
    op: str
    inputs: dict[int, str] = field(default_factory=dict)
    """By place the node that each input comes from, control inputs included."""
    types: set[str] = field(default_factory=set)
    shape: Shape | None = None
    first_shape: Shape | None = None
    """Of its first output."""
    float_ops: int = 0
    data_format: str = ""
    trace: tuple[Frame, ...] = ()
    executions: dict[int, _Execution] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """How many numbers a node holds that has a shape of its own; 0 if that is not known."""
        if self.shape is None or any(size < 0 for size in self.shape):
            return 0
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def devices(self) -> list[str]:
        return sorted({device for ran in self.executions.values() for device in ran.devices})

    def numbers(self, step: int = -1) -> Numbers:
        """What the node takes in a step; -1 stands for the average of those it ran in."""
        ran = list(self.executions.values())
        if not ran:
            return Numbers(parameters=self.parameters, float_ops=self.float_ops)
        if step >= 0:
            ran = [self.executions[step]] if step in self.executions else []

        def average(name: str) -> int:
            return sum(getattr(each, name) for each in ran) // len(ran) if ran else 0

        cpu, accelerator = average("cpu_micros"), average("accelerator_micros")
        return Numbers(
            exec_micros=cpu + accelerator,
            accelerator_exec_micros=accelerator,
            cpu_exec_micros=cpu,
            requested_bytes=average("requested"),
            peak_bytes=average("peak"),
            residual_bytes=average("residual"),
            output_bytes=average("output"),
            parameters=self.parameters,
            float_ops=self.float_ops * average("runs"),
            run_count=average("runs"),
        )


@dataclass(slots=True)
class ModelProfile:
    """All nodes of a graph by name, and the steps that were added.

    >>> profile = ModelProfile()
    >>> profile.nodes["x"] = ProfiledNode("x", "VariableV2", shape=(3, 4))
    >>> profile.nodes["x"].numbers().parameters
    12
    """

    nodes: dict[str, ProfiledNode] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)

    def add_graph(
        self, graph: Any, run_shapes: Mapping[str, tuple[Shape | None, ...]] | None = None
    ) -> None:
        """Add the nodes of a `GraphDef`, or what it now says of those that are there.

        Shapes are those in its `_output_shapes` attributes; `run_shapes` stand in for what these
        do not know (`shapes_of_runs`).
        """
        for node in graph.node:
            found = self.nodes.setdefault(node.name, ProfiledNode(node.name, node.op))
            found.types.add(node.op)
            for place, reference in enumerate(node.input):
                found.inputs[place] = input_node(reference)
            if "shape" in node.attr and node.attr["shape"].WhichOneof("value") == "shape":
                found.shape = _held_shape(node.attr["shape"].shape)
            if "data_format" in node.attr:
                found.data_format = node.attr["data_format"].s.decode(errors="replace")
            shapes = completed_shapes(node, (run_shapes or {}).get(node.name))
            found.first_shape = next(iter(shapes), None)

    def add_float_ops(
        self, graph: Any, run_shapes: Mapping[str, tuple[Shape | None, ...]] | None = None
    ) -> int:
        """Work out the operations of a graph's nodes, as TensorFlow counts them.

        Returns of how many it cannot tell, as a shape is not known. `run_shapes` as in `add_graph`.
        """
        lacking = 0
        for node, call in graph_calls(graph, run_shapes):
            counted = tensorflow_flops(call)
            lacking += counted is None
            if counted:
                self.nodes[node.name].float_ops = counted
        return lacking

    def add_log(self, log: Any) -> None:
        """Add what an `OpLogProto` says of nodes: operations, types and where they were made."""
        texts = log.id_to_string
        for entry in log.log_entries:
            node = self.nodes.get(entry.name)
            if node is None:
                continue
            node.types.update(entry.types)
            if entry.float_ops:
                node.float_ops = entry.float_ops
            if entry.code_def.traces:
                node.trace = tuple(
                    Frame(
                        texts[each.file_id],
                        each.lineno,
                        texts[each.function_id],
                        texts[each.line_id],
                    )
                    for each in entry.code_def.traces
                )

    def add_run(self, step: int, run: Any) -> None:
        """Add a run of the graph, a `RunMetadata`, to a step."""
        if step not in self.steps:
            self.steps.append(step)
        for device in run.step_stats.dev_stats:
            canonical = device.device.lower()
            for stats in device.node_stats:
                name = _node_of(stats.node_name, self.nodes)
                if name is not None:
                    self._add_execution(name, step, canonical, stats)

    def _add_execution(self, name: str, step: int, device: str, stats: Any) -> None:
        node = self.nodes.setdefault(name, ProfiledNode(name, name, types={name}))
        ran = node.executions.setdefault(step, _Execution())
        micros = max(stats.op_end_rel_micros, 1)
        if "stream:all" in device:
            # A device's own tracer sees the kernels that an execution started.
            ran.accelerator_micros += micros
        else:
            ran.cpu_micros += micros
            ran.runs += 1
        node.types.add(device)
        ran.devices.add(device)
        ran.starts.append((device, stats.all_start_micros, micros))
        temporary = stats.memory_stats.temp_memory_size
        kept = stats.memory_stats.persistent_memory_size
        for memory in stats.memory:
            ran.requested += memory.total_bytes
            ran.peak += memory.peak_bytes
            ran.residual += memory.live_bytes
        ran.requested += temporary + kept
        ran.peak += temporary + kept
        ran.residual += kept
        for output in stats.output:
            size = output.tensor_description.allocation_description
            ran.output += max(size.allocated_bytes, size.requested_bytes)

    def trace_of(self, node: ProfiledNode) -> tuple[tuple[Frame, ...], bool]:
        """Where a node was made; that of a gradient is where what it is the gradient of was made.

        The second says whether it is a gradient. One of something that is not there has no line.
        """
        match = _GRADIENT.match(node.name)
        if match is None:
            return node.trace, False
        forward = self.nodes.get(match["forward"])
        return (forward.trace if forward is not None else ()), True

    def input_shapes(self, node: ProfiledNode) -> dict[int, Shape | None]:
        """The shapes of a node's inputs by place; None where one is not known.

        As TensorFlow has them: whichever output of a node it is, the shape is that of the first.
        """
        return {
            place: self.nodes[name].first_shape if name in self.nodes else None
            for place, name in node.inputs.items()
        }


def shapes_of_runs(run: Any) -> dict[str, tuple[Shape | None, ...]]:
    """The shapes that a run's nodes put out, by name: what a graph does not know in full.

    Of a node that ran several times, the last is told.
    """
    return {
        stats.node_name: tuple(
            tuple(dim.size for dim in output.tensor_description.shape.dim)
            for output in stats.output
        )
        for device in run.step_stats.dev_stats
        for stats in device.node_stats
        if stats.output
    }


def _held_shape(shape: Any) -> Shape | None:
    """A shape as parameters are counted by it: a single number has one."""
    if shape.unknown_rank:
        return None
    return tuple(dim.size for dim in shape.dim) or (1,)


def _node_of(reported: str, nodes: Mapping[str, ProfiledNode]) -> str | None:
    """The node that a row of step stats is about; None for what is no node."""
    if reported in nodes:
        return reported
    if reported.startswith("RecvTensor") or reported in ("_SOURCE", "_SINK"):
        return None
    match = _KERNEL_OF.match(reported)
    return match[1] if match else reported
