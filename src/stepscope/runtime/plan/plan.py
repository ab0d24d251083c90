"""A plan: an `ExecGraph` for given fed shapes, with a kernel per node and who shares memory.

What follows from the fed shapes is worked out once, here: the shape of every tensor that has one,
integers that follow from shapes, the kernels, what a call will roughly cost, and which outputs can
share a buffer with which. Both executors run the same plan; nothing in it changes after it is made.

What was read from a reference variable is, in TensorFlow, the variable's own memory: an op that is
handed it sees what the variable holds when that op executes, be it handed on by whatever shares
memory (Identity, Switch, Enter, Reshape, ...). Here it is a value, and a plan says who has to look
again (`PlanStep.late`):

    read = tf.identity(v)                                    # 2.0
    with tf.control_dependencies([tf.assign_add(v, 1.0)]):
        after = read * 10.0                                  # 30.0: it waits for the assignment
    beside = read * 10.0                                     # 20.0: it does not; TensorFlow: either

An op looks again if an assignment to the variable comes before it, or if it is in a loop; a fetch
always does, when the run has ended. An op that no edge of the graph puts after an assignment gets
what was read: where TensorFlow's answer hangs on which thread is faster, ours is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import Kernel, KernelNode, TensorShape
from stepscope.graph.constants import PLACEHOLDERS
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.registry import ShapeContext, infer_shapes, lookup
from stepscope.graph.shapes import UNKNOWN, unknown_shape
from stepscope.ops.flow.switches import ENTERS, EXITS, FLOW
from stepscope.ops.resources import ResourceStore, RunContext
from stepscope.runtime.plan.exec_graph import ExecGraph, ExecNode, dependencies

EXPENSIVE_NS: Final = 60_000
"""An op estimated to take longer is worth handing to another thread."""
BLAS_SPREADS_NS: Final = 13_000
"""From here on BLAS takes a second thread if it may: some 2**18 multiplications."""
BLAS_GAINS_NS: Final = 600_000
"""From here on a second thread makes a product faster even where it has to wait for its core."""
_NS_PER_BYTE: Final = 0.25
_MAX_KNOWN_ELEMENTS: Final = 4096
_SHARING: Final = FLOW | {
    "Bitcast", "CheckNumerics", "EnsureShape", "ExpandDims", "Identity", "IdentityN",
    "PlaceholderWithDefault", "PreventGradient", "Print", "RefIdentity", "Reshape", "Snapshot",
    "Squeeze", "StopGradient",
}  # fmt: skip
"""Op types whose outputs are, in TensorFlow, the memory of their inputs."""


@dataclass(slots=True)
class PlanStep:
    """One node of a plan."""

    node: ExecNode
    kernel: Kernel
    shapes: tuple[TensorShape, ...]
    reads: tuple[bool, ...]
    """Per input, whether it is a reference whose current value the kernel wants."""
    expensive: bool
    cost_ns: float | None = 0.0
    """Estimated time on one core; None where nobody can tell."""
    groups: tuple[int, ...] = ()
    """Per output, the memory it lives in (see `Memory`)."""
    late: tuple[bool, ...] = ()
    """Per input, whether it may be what was read from a reference variable that has changed since:
    the kernel wants what is `current`."""
    shape_error: str = ""
    given: bool = False
    """Whether the plan knows the outputs: they are its own data, as constants are."""

    @property
    def is_given(self) -> bool:
        """Whether its outputs are somebody else's memory: a feed, a custom op's, the plan's own."""
        kernel = self.kernel
        held = kernel.opaque or kernel.value is not None or self.given
        return held or self.node.op_type == "_Arg"

    def copies(self, plan: Plan, position: int) -> bool:
        """Whether the kernel gets a copy of an input: what it may keep must not be the user's."""
        if not self.kernel.opaque:
            return False
        source, slot = self.node.inputs[position]
        if not source.output_dtypes[slot].is_numpy_compatible:
            return False
        return plan.memories[plan.steps[source.index].groups[slot]].fed

    def input_groups(self, steps: Sequence[PlanStep]) -> list[int]:
        """The distinct memories this step reads."""
        return list(dict.fromkeys(steps[s.index].groups[slot] for s, slot in self.node.inputs))

    @property
    def executes(self) -> bool:
        """Whether anything happens at run time (constants, feeds and fetches need no call)."""
        return self.kernel.value is None and self.node.op_type not in ("_Arg", "_Retval")


@dataclass(slots=True)
class Memory:
    """One piece of memory, shared by an output and its views.

    `foreign` memory belongs to somebody else (constants, feeds, variables, what custom ops made),
    `fed` memory to the user; `kept` means that a custom op saw it and may keep it, `escapes` that
    it may outlive the run (fetched or kept).
    """

    members: list[tuple[int, int]] = field(default_factory=list)
    roots: int = 0
    foreign: bool = False
    fed: bool = False
    kept: bool = False
    fetched: bool = False
    escapes: bool = False
    last_use: int = -1
    uses: int = 0
    """How many steps read it."""

    def take(self, other: Memory) -> None:
        """What another one says is true of this one, too: they are the same memory."""
        self.members += other.members
        self.roots += other.roots
        self.foreign |= other.foreign
        self.fed |= other.fed
        self.kept |= other.kept
        self.fetched |= other.fetched
        self.escapes |= other.escapes
        self.last_use = max(self.last_use, other.last_use)


class Plan:
    """Steps in an order in which each can run, with kernels, shapes and shared memory."""

    def __init__(
        self, graph: ExecGraph, fed: Mapping[ExecNode, TensorShape], resources: ResourceStore
    ) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self._resources = resources
        self._known: dict[tuple[int, int], Any] = {}
        self._overridden = _overridden(graph)
        self.steps: list[PlanStep] = []
        for node in graph.nodes:
            self.steps.append(self._step(node, fed))
        _look_again(self.steps, graph)
        self.memories: list[Memory] = _share_memory(self)
        self.has_flow = graph.has_flow
        self.partitions = len(graph.devices)
        """Whether it takes an executor that follows branches and loops."""
        self.serial = _is_serial(self.steps)
        self.has_blocking = any(s.kernel.blocking for s in self.steps)
        self.may_wait = _may_wait(self.steps)
        """Whether an op may spend its time waiting while others could work."""
        products = [
            s.cost_ns
            for s in self.steps
            if s.kernel.threaded and (s.cost_ns is None or s.cost_ns > BLAS_SPREADS_NS)
        ]
        self.has_products = bool(products)
        self.spreads = any(
            s.kernel.spreads and s.kernel.threaded and s.expensive for s in self.steps
        )
        """Whether ops spread over the cores by themselves: BLAS should have one thread then."""
        self.small_products = bool(products) and all(
            c is not None and c < BLAS_GAINS_NS for c in products
        )

    # -- shapes and kernels --------------------------------------------------------------------

    def _step(self, node: ExecNode, fed: Mapping[ExecNode, TensorShape]) -> PlanStep:
        if node.op_type == "_Arg":
            return PlanStep(node, Kernel(_nothing), (fed[node],), (), expensive=False)
        if node.op_type == "_Retval":
            source, slot = node.inputs[0]
            is_ref = source.output_dtypes[slot]._is_ref_dtype
            return PlanStep(node, Kernel(_nothing), (), (is_ref,), expensive=False)
        if node.op_type in ("_Send", "_Recv"):
            return self._transfer_step(node)
        inputs = tuple(self._shape(p) for p in node.inputs)
        definition = lookup(node.op_type)
        dtypes = tuple(source.output_dtypes[slot] for source, slot in node.inputs)
        attrs = node.op.attrs if node.op is not None else node.attrs
        constants = tuple(self._known.get((s.index, slot)) for s, slot in node.inputs)
        context = ShapeContext(
            node.op_type,
            attrs,
            inputs,
            dtypes,
            lambda i: constants[i],
            lambda i: _as_shape(constants[i], inputs[i]),
        )
        shape_error = ""
        try:
            shapes = infer_shapes(definition, context)
        except ValueError as error:
            # Known to fail: it fails when its turn comes, so that what runs before it is seen.
            shape_error = str(error)
            shapes = (UNKNOWN,) * len(node.output_dtypes)
        if node not in self._overridden:
            shapes = _merge_static(node, shapes)
        kernel_node = KernelNode(
            op=node.op if node.op is not None else _EngineOp(node),  # type: ignore[arg-type]
            input_shapes=inputs,
            output_shapes=shapes,
            input_dtypes=tuple(d.base_dtype for d in dtypes),
            output_dtypes=tuple(d.base_dtype for d in node.output_dtypes),
            constants=constants,
            resources=self._resources,
            device=node.device,
        )
        assert definition.kernel is not None
        kernel = definition.kernel(kernel_node)
        given = False
        if kernel.value is not None:
            self._known[node.index, 0] = kernel.value
        elif not shape_error:
            found = self._learn(node, kernel, shapes, inputs, constants)
            if found:
                shapes = tuple(TensorShape(value.shape) for value in found)
                given = not kernel.views and not self.graph.has_flow
                kernel = _giving(found) if given else kernel
        wanted = definition.input_dtypes(attrs)
        _refuse_values(node, dtypes, wanted)
        reads = tuple(
            d._is_ref_dtype and not w._is_ref_dtype for d, w in zip(dtypes, wanted, strict=True)
        )
        cost = _cost(kernel, (*inputs, *shapes), (*dtypes, *node.output_dtypes))
        return PlanStep(node, kernel, shapes, reads, expensive=cost is None or cost > EXPENSIVE_NS,
                    cost_ns=cost, shape_error=shape_error, given=given)  # fmt: skip

    def _transfer_step(self, node: ExecNode) -> PlanStep:
        key = self.graph.transfer_key(node)
        if node.op_type == "_Send":

            def send(context: RunContext, value: Any) -> None:
                context.rendezvous.send(key, value)

            source, slot = node.inputs[0]
            reads = (source.output_dtypes[slot]._is_ref_dtype,)
            return PlanStep(
                node, Kernel(send, context=True, cost_ns=300), (), reads, expensive=False
            )

        def receive(context: RunContext) -> Any:
            return context.rendezvous.receive(key)

        sent = self.graph.sends[node].inputs[0]
        kernel = Kernel(receive, context=True, cost_ns=300)
        return PlanStep(node, kernel, (self._shape(sent),), (), expensive=False)

    def _shape(self, port: tuple[ExecNode, int]) -> TensorShape:
        index = port[0].index
        # What comes back from an iteration has the shape that the graph says, if any.
        return self.steps[index].shapes[port[1]] if index < len(self.steps) else UNKNOWN

    def _learn(
        self,
        node: ExecNode,
        kernel: Kernel,
        shapes: Sequence[TensorShape],
        inputs: Sequence[TensorShape],
        constants: Sequence[Any],
    ) -> tuple[Array, ...]:
        """The outputs of a node that are small integers and follow from shapes and constants."""
        if node.op_type in ("Shape", "Size", "Rank"):
            value = _shape_value(node, inputs[0])
            return () if value is None else self._knows(node, (value,))
        op_type = lookup(node.op_type)
        if op_type.stateful or kernel.context or kernel.opaque or kernel.blocking:
            return ()
        if not constants or not shapes or any(c is None for c in constants):
            return ()
        counts = [shape.num_elements() for shape in shapes]
        small = all(count is None or count <= _MAX_KNOWN_ELEMENTS for count in counts)
        if not small or not all(d.is_integer for d in node.output_dtypes):
            return ()
        try:
            made = kernel.call(*constants)
        except Exception:  # noqa: BLE001 - it will fail in its turn
            return ()
        values = tuple(np.array(v) for v in (made if len(shapes) > 1 else (made,)))
        if any(v.size > _MAX_KNOWN_ELEMENTS for v in values):
            return ()
        return self._knows(node, values)

    def _knows(self, node: ExecNode, values: tuple[Array, ...]) -> tuple[Array, ...]:
        for slot, value in enumerate(values):
            value.setflags(write=False)
            self._known[node.index, slot] = value
        return values


class _EngineOp:
    """Stands for the Operation of a node that the engine added itself."""

    __slots__ = ("attrs", "name", "type")

    def __init__(self, node: ExecNode) -> None:
        self.name, self.type, self.attrs = node.name, node.op_type, node.attrs

    def get_attr(self, name: str) -> Any:
        return self.attrs[name]


def _refuse_values(node: ExecNode, given: Sequence[DType], wanted: Sequence[DType]) -> None:
    """InvalidArgumentError where an op that wants a variable is handed a value."""
    for position, (have, want) in enumerate(zip(given, wanted, strict=True)):
        if want._is_ref_dtype and not have._is_ref_dtype:
            source, slot = node.inputs[position]
            raise InvalidArgumentError(
                None if node.op is None else node.op.node_def,
                node.op,
                f"Input {position} of node {node.name} was passed {have.name} from "
                f"{source.name}:{slot} incompatible with expected {want.name}: {node.op_type} "
                "changes or hands on a variable, and this is a value. A variable that is fed is a "
                "value for that run.",
            )


def is_pure(step: PlanStep) -> bool:
    """Whether running a step again, with the same inputs, is the same as running it once."""
    kernel = step.kernel
    if kernel.context or kernel.opaque or kernel.blocking:
        return False
    return step.node.op is None or not lookup(step.node.op_type).stateful


def _nothing(*_args: Any) -> None:
    return None


def _giving(values: tuple[Array, ...]) -> Kernel:
    """The kernel of a node whose outputs the plan knows: it hands them out."""
    result = values[0] if len(values) == 1 else values
    return Kernel(lambda *_inputs: result, cost_ns=100)


def _as_shape(value: Any, shape: TensorShape) -> TensorShape:
    if value is not None:
        return TensorShape([None if d < 0 else int(d) for d in np.atleast_1d(value)])
    known = shape.known
    return unknown_shape(known[0]) if known is not None and len(known) == 1 else UNKNOWN


def _overridden(graph: ExecGraph) -> set[ExecNode]:
    """The nodes whose static shapes may not hold: those after a value that is fed over.

    The graph took that value for known, a constant's above all, when it found the shapes of what
    follows from it: `reshape(x, [2, 3])` is [2, 3] in the graph, and [3, 2] where that is fed.
    """
    over = [arg for tensor, arg in graph.args.items() if tensor.op.type not in PLACEHOLDERS]
    if not over:
        return set()
    readers: dict[ExecNode, list[ExecNode]] = {}
    for node in graph.nodes:
        for source, _ in node.inputs:
            readers.setdefault(source, []).append(node)
    for receive, send in graph.sends.items():
        readers.setdefault(send, []).append(receive)
    found: set[ExecNode] = set()
    while over:
        for reader in readers.get(over.pop(), ()):
            if reader not in found:
                found.add(reader)
                over.append(reader)
    return found


def _merge_static(node: ExecNode, shapes: tuple[TensorShape, ...]) -> tuple[TensorShape, ...]:
    """Add what the graph says (`set_shape`) where the rule knows less, and they agree."""
    if node.op is None or all(s.is_fully_defined() for s in shapes):
        return shapes
    merged = []
    for shape, tensor in zip(shapes, node.op.values(), strict=True):
        ok = not shape.is_fully_defined() and shape.is_compatible_with(tensor.shape)
        merged.append(shape.merge_with(tensor.shape) if ok else shape)
    return tuple(merged)


def _shape_value(node: ExecNode, shape: TensorShape) -> Array | None:
    dtype = node.output_dtypes[0].numpy
    value: Array | None = None
    if node.op_type == "Rank" and shape.rank is not None:
        value = np.asarray(shape.rank, dtype=dtype)
    elif shape.known is not None:
        what = shape.num_elements() if node.op_type == "Size" else shape.known
        value = np.asarray(what, dtype=dtype)
    return value


def _cost(kernel: Kernel, shapes: Sequence[TensorShape], dtypes: Sequence[DType]) -> float | None:
    """Estimated nanoseconds of a call; None where nobody can tell."""
    if kernel.blocking:
        return None
    if kernel.cost_ns is not None:
        return kernel.cost_ns
    if kernel.opaque:
        return None
    if kernel.value is not None or kernel.views:
        return 0.0
    total = 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        count = shape.num_elements()
        if count is None:
            return None
        total += count * dtype.size
    return 500 + total * _NS_PER_BYTE


def _is_serial(steps: Sequence[PlanStep]) -> bool:
    """Whether no two expensive ops could run at the same time: then a pool gains nothing."""
    expensive = sum(s.expensive and s.executes for s in steps)
    if expensive < 2:
        return True
    depth = [0] * len(steps)
    for i, step in enumerate(steps):
        before = max((depth[d.index] for d in dependencies(step.node)), default=0)
        depth[i] = before + (step.expensive and step.executes)
    return max(depth) == expensive


def _may_wait(steps: Sequence[PlanStep]) -> bool:
    """Whether a queue or a user's function may be waited for beside expensive ops."""
    for waiting in (s for s in steps if s.executes and s.cost_ns is None):
        if not (waiting.kernel.blocking or waiting.kernel.opaque):
            continue
        at = waiting.node.index
        after, before = {at}, {at}
        for step in steps[at + 1 :]:
            if any(d.index in after for d in dependencies(step.node)):
                after.add(step.node.index)
        for step in reversed(steps[: at + 1]):
            if step.node.index in before:
                before.update(d.index for d in dependencies(step.node))
        ordered = after | before
        if any(s.expensive and s.executes and s.node.index not in ordered for s in steps):
            return True
    return False


def _look_again(steps: Sequence[PlanStep], graph: ExecGraph) -> None:
    """Find out which inputs are `late`; variables are the bits of a number here."""
    variables = [i for i, s in enumerate(steps) if s.node.op_type in ("VariableV2", "Variable")]
    if not variables:
        return
    held: dict[tuple[int, int], int] = {(i, 0): 1 << n for n, i in enumerate(variables)}
    """Per output, the variables whose memory it may be."""
    after = [0] * len(steps)
    """Per step, the variables that have been assigned to when it is done."""
    while True:
        before = len(held), after.copy()
        for i, step in enumerate(steps):
            for source in _before(step.node):
                after[i] |= after[source.index]
            for position, port in enumerate(_sources(step, graph)):
                bits = held.get(port, 0)
                if not bits:
                    continue
                hands_on = step.node.op_type in _SHARING and position in step.kernel.views
                if _assigns(step, position):
                    after[i] |= bits
                    hands_on = True
                if hands_on or step.node.op_type == "_Recv":
                    for slot in range(len(step.node.output_dtypes)):
                        held[i, slot] = held.get((i, slot), 0) | bits
        # What comes back from an iteration is seen in the round that follows.
        if not graph.has_flow or before == (len(held), after):
            break
    looped = _in_loops(steps)
    for i, step in enumerate(steps):
        always = looped[i] or step.node.op_type == "_Retval"
        late = []
        for source, slot in step.node.inputs:
            bits = held.get((source.index, slot), 0)
            is_value = not source.output_dtypes[slot]._is_ref_dtype
            late.append(is_value and bool(bits) and (always or bool(bits & after[i])))
        if any(late):
            step.late = tuple(late)


def _before(node: ExecNode) -> Iterator[ExecNode]:
    """What comes before a node, in its iteration or in the one before."""
    yield from (source for source, _ in node.inputs)
    yield from node.controls


def _sources(step: PlanStep, graph: ExecGraph) -> Iterator[tuple[int, int]]:
    inputs = step.node.inputs
    if step.node.op_type == "_Recv":
        inputs = graph.sends[step.node].inputs
    return ((source.index, slot) for source, slot in inputs)


def _assigns(step: PlanStep, position: int) -> bool:
    """Whether the kernel gets the variable itself, and not to hand it on."""
    if step.node.op_type in _SHARING or position >= len(step.reads):
        return False
    source, slot = step.node.inputs[position]
    return source.output_dtypes[slot]._is_ref_dtype and not step.reads[position]


def _in_loops(steps: Sequence[PlanStep]) -> list[bool]:
    """Per step, whether it is inside of a loop."""
    depth = [0] * len(steps)
    for i, step in enumerate(steps):
        kind = step.node.op_type
        around = max((depth[d.index] for d in dependencies(step.node)), default=0)
        depth[i] = around + (kind in ENTERS) - (kind in EXITS)
    return [d > 0 for d in depth]


def _share_memory(plan: Plan) -> list[Memory]:
    """Find which outputs share memory, who else may hold it, and when it is last used."""
    memories: list[Memory] = []
    redirect: list[int] = []

    def new(index: int, slot: int, *, foreign: bool) -> int:
        memories.append(Memory([(index, slot)], roots=1, foreign=foreign))
        redirect.append(len(memories) - 1)
        return len(memories) - 1

    def find(group: int) -> int:
        while redirect[group] != group:
            group = redirect[group]
        return group

    def join(groups: Sequence[int]) -> int:
        first, *others = dict.fromkeys(find(g) for g in groups)
        for other in others:
            redirect[other] = first
            memories[first].take(memories[other])
        return first

    for i, step in enumerate(plan.steps):
        node = step.node
        sources = [find(plan.steps[s.index].groups[slot]) for s, slot in node.inputs if s.index < i]
        kernel = step.kernel
        for group in dict.fromkeys(sources):
            memory = memories[group]
            memory.last_use = i
            memory.kept |= kernel.opaque
            memory.fetched |= node.op_type == "_Retval"
            memory.escapes |= kernel.opaque or node.op_type == "_Retval"
        if node.op_type == "_Recv":
            sent, slot = plan.graph.sends[node].inputs[0]
            shared = [find(plan.steps[sent.index].groups[slot])]
        else:
            shared = [sources[v] for v in kernel.views if v < len(sources)]
        groups = []
        for slot, dtype in enumerate(node.output_dtypes):
            if shared:
                group = join(shared)
                memories[group].members.append((i, slot))
                memories[group].last_use = i
            else:
                foreign = step.is_given or dtype._is_ref_dtype or not dtype.is_fixed_size
                group = new(i, slot, foreign=foreign)
                memories[group].fed = node.op_type == "_Arg"
            groups.append(group)
        step.groups = tuple(groups)
    for i, step in enumerate(plan.steps):
        # What comes back from an iteration is what the next one begins with.
        for s, slot in step.node.inputs:
            if s.index > i:
                join([step.groups[0], plan.steps[s.index].groups[slot]])
    for step in plan.steps:
        step.groups = tuple(find(g) for g in step.groups)
    for step in plan.steps:
        for group in step.input_groups(plan.steps):
            memories[group].uses += 1
    return memories
