"""What a plan says about memory: which output makes some, which shares, and who reads it.

Memory is counted by the tensor, in its own bytes, without rounding. An output is *own* memory, or
an *alias* of an input (a view, a receive), or nothing that is counted (references, constants, and
what a plan knows as it knows those: the shape of a tensor). A view that NumPy can only make by
copying (a reshape of something transposed) is own memory too; where a plan cannot tell, the run
looks. What a table says is the same for every run of a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stepscope.runtime.memory.buffers import writes_to_buffer
from stepscope.runtime.plan.plan import Plan, PlanStep

if TYPE_CHECKING:
    from stepscope.runtime.execute.run_pattern import Stood

Port = tuple[int, int]
"""(step, slot) of an output."""
Special = Literal["", "variable", "enqueue"]

VARIABLES: Final = frozenset({"VariableV2", "Variable", "VarHandleOp"})
_ASSIGNMENTS: Final = frozenset({"Assign", "AssignVariableOp"})
_ENQUEUES: Final = frozenset({"QueueEnqueueV2", "QueueEnqueueManyV2"})
_MAY_COPY: Final = frozenset({"Reshape", "Squeeze", "ExpandDims", "Bitcast"})
_KEEP_LAYOUT: Final = frozenset(
    {"Identity", "IdentityN", "StopGradient", "PreventGradient", "EnsureShape", "CheckNumerics",
     "Print", "_Recv", "Snapshot", "PlaceholderWithDefault"} | _MAY_COPY
)  # fmt: skip


@dataclass(slots=True)
class StepOutput:
    """One output of a step, as memory sees it."""

    step: int
    slot: int
    name: str
    device: str
    dtype: int
    """TensorFlow's number of the element type."""
    item: int
    shape: tuple[int, ...] | None
    bytes: int
    """-1 where the plan does not know."""
    source: Port | None
    """Whose memory it shares, if it does."""
    may_copy: bool
    late: bool
    """Whether it is there only when the op ends: what a queue gives out."""
    readers: int = 0
    fetched: bool = False
    kind: str = "temporary"

    @property
    def port(self) -> Port:
        return self.step, self.slot


class MemoryTable:
    """Per output of a plan: the memory it is, shares or has none of, and who reads it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.outputs: dict[Port, StepOutput] = {}
        self.reads: list[tuple[Port, ...]] = [()] * len(plan.steps)
        """Per step that executes, the counted outputs it reads, one entry per input."""
        self.made: list[tuple[StepOutput, ...]] = [()] * len(plan.steps)
        """Per step that executes, the outputs that are own memory or an alias."""
        self.variable_of: dict[Port, int] = {}
        """Outputs that are a variable, or a view of its value: the step of the variable."""
        self.specials: list[Special] = [""] * len(plan.steps)
        self.looks: list[bool] = [False] * len(plan.steps)
        """Per step, whether a run has to look at what it made."""
        self.feeds: dict[int, tuple[str, int, int]] = {}
        """Per fed step: op, slot and dtype of the tensor that is fed."""
        self.stood: Stood | None = None
        """What the last run found in place whose memory was looked at, to be known again."""
        self._contiguous: set[Port] = set()
        for i, step in enumerate(plan.steps):
            self._describe(i, step)
        self._count_readers()
        self._name_feeds()
        self.known = all(o.bytes >= 0 for o in self.own())
        """Whether every size is known before the run."""
        self.fixed = self.known and not any(o.may_copy for o in self.outputs.values())
        """Whether the plan's order decides everything but variables and queues."""

    def own(self) -> list[StepOutput]:
        """The outputs that make memory whatever happens."""
        return [o for o in self.outputs.values() if o.source is None]

    # -- making it -----------------------------------------------------------------------------

    def _describe(self, i: int, step: PlanStep) -> None:
        node = step.node
        if node.op_type in VARIABLES:
            self.variable_of[i, 0] = i
        if isinstance(step.kernel.value, np.ndarray) and step.kernel.value.flags.c_contiguous:
            self._contiguous.add((i, 0))
        if step.given:
            self._contiguous.update((i, slot) for slot in range(len(node.output_dtypes)))
        if step.given or not step.executes:
            return
        self.specials[i] = self._special(step)
        made = []
        for slot, dtype in enumerate(node.output_dtypes):
            source = self._source(step, slot)
            root = self.variable_of.get(source) if source is not None else None
            if root is not None:
                self.variable_of[i, slot] = root
            if dtype._is_ref_dtype or not dtype.is_numpy_compatible:
                continue
            output = self._output(step, slot, source)
            if source is None or source in self.outputs or root is not None or output.may_copy:
                made.append(output)
        self.made[i] = tuple(made)
        for output in made:
            self.outputs[output.port] = output
        self.looks[i] = bool(self.specials[i]) or any(
            o.may_copy or o.bytes < 0 or not writes_to_buffer(self.plan, i)
            for o in made
            if o.source is None or o.may_copy
        )

    def _output(self, step: PlanStep, slot: int, source: Port | None) -> StepOutput:
        node = step.node
        dtype = node.output_dtypes[slot].base_dtype
        item = dtype.size if dtype.is_fixed_size else dtype.numpy.itemsize
        shape, count = step.shapes[slot].known, step.shapes[slot].num_elements()
        may_copy = (
            source is not None and node.op_type in _MAY_COPY and source not in self._contiguous
        )
        port = (node.index, slot)
        if source is None:
            if writes_to_buffer(self.plan, node.index):
                self._contiguous.add(port)
        elif source in self._contiguous and node.op_type in _KEEP_LAYOUT:
            self._contiguous.add(port)
        return StepOutput(
            node.index, slot, node.name, node.device, dtype.as_datatype_enum, item, shape,
            -1 if count is None else count * item, source, may_copy,
            late=step.kernel.blocking,
        )  # fmt: skip

    def _source(self, step: PlanStep, slot: int) -> Port | None:
        """The output whose memory an output shares."""
        node = step.node
        if node.op_type == "_Recv":
            sent, sent_slot = self.plan.graph.sends[node].inputs[0]
            return sent.index, sent_slot
        views = step.kernel.views
        if not views:
            # An assignment passes its reference on.
            if node.inputs and node.output_dtypes[slot]._is_ref_dtype:
                source, source_slot = node.inputs[0]
                return source.index, source_slot
            return None
        position = views[slot] if len(views) == len(node.output_dtypes) else views[0]
        source, source_slot = node.inputs[position]
        return source.index, source_slot

    def _special(self, step: PlanStep) -> Special:
        if step.node.op_type in _ENQUEUES:
            return "enqueue"
        if step.kernel.views or not step.node.inputs:
            return ""
        source, slot = step.node.inputs[0]
        dtype = source.output_dtypes[slot]
        is_cell = dtype._is_ref_dtype or not dtype.is_numpy_compatible
        if is_cell and (source.index, slot) in self.variable_of and not step.reads[0]:
            return "variable"
        return ""

    def assigns(self, i: int) -> bool:
        """Whether a step stores its second input in a variable."""
        return self.plan.steps[i].node.op_type in _ASSIGNMENTS

    def _count_readers(self) -> None:
        for i, step in enumerate(self.plan.steps):
            inputs = step.node.inputs
            if step.node.op_type == "_Recv":
                # What is in transit is held until it was received.
                inputs = self.plan.graph.sends[step.node].inputs
            ports = [(s.index, slot) for s, slot in inputs]
            if step.executes:
                self.reads[i] = tuple(p for p in ports if p in self.outputs)
                for port in self.reads[i]:
                    self.outputs[port].readers += 1
            elif step.node.op_type == "_Retval":
                for port in ports:
                    if port in self.outputs:
                        self.outputs[port].fetched = True
        for output in self.outputs.values():
            if output.fetched:
                for port in self._roots(output):
                    self.outputs[port].kind = "output"

    def _roots(self, output: StepOutput) -> list[Port]:
        """The output itself and whatever it shares memory with, up to where that was made."""
        found = [output.port]
        while output.source is not None and output.source in self.outputs:
            output = self.outputs[output.source]
            found.append(output.port)
        return found

    def _name_feeds(self) -> None:
        for tensor, node in self.plan.graph.args.items():
            number = node.output_dtypes[0].base_dtype.as_datatype_enum
            self.feeds[node.index] = (tensor.op.name, tensor.value_index, number)

    # -- bounds --------------------------------------------------------------------------------

    def growth_bound(self) -> dict[str, int] | None:
        """By device, the most that variables and queues can grow in a run; None if unknown."""
        bound: dict[str, int] = {}
        for i, special in enumerate(self.specials):
            if not special:
                continue
            step = self.plan.steps[i]
            values = step.node.inputs[1:] if special == "enqueue" else step.node.inputs[1:2]
            for source, slot in values:
                shape = self.plan.steps[source.index].shapes[slot]
                count, dtype = shape.num_elements(), source.output_dtypes[slot].base_dtype
                if count is None or not dtype.is_fixed_size:
                    return None
                if special == "variable" and not self.assigns(i):
                    count = self._variable_elements(i) or count
                device = step.node.device
                bound[device] = bound.get(device, 0) + count * dtype.size
        return bound

    def _variable_elements(self, i: int) -> int | None:
        """How many elements the variable has that a step changes, where the graph says so."""
        source, slot = self.plan.steps[i].node.inputs[0]
        variable = self.plan.steps[self.variable_of[source.index, slot]]
        if variable.node.op is None:
            return None
        return variable.node.op.get_attr("shape").num_elements()  # type: ignore[no-any-return]

    def total_bound(self) -> dict[str, int] | None:
        """By device, all that a run makes, as if nothing were freed; None if unknown."""
        growth = self.growth_bound() if self.known else None
        if growth is None:
            return None
        total = dict(growth)
        for o in self.outputs.values():
            if o.source is None or o.may_copy:
                total[o.device] = total.get(o.device, 0) + max(0, o.bytes)
        return total

    def conditional_bytes(self) -> Mapping[str, int]:
        """By device, the bytes of the views that may turn out to be copies."""
        bound: dict[str, int] = {}
        for o in self.outputs.values():
            if o.may_copy:
                bound[o.device] = bound.get(o.device, 0) + max(0, o.bytes)
        return bound
