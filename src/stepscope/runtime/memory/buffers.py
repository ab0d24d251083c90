"""Memory for the outputs of ops: which buffer each one gets, and the buffers kept for reuse.

`assign_buffers` decides for the inline executor, whose order is fixed, before anything runs.
`BufferCache` serves the pooled executor, whose order is not known, while it runs.

Guarantees. A buffer is given out again only when nothing can read it any more: its last reader in
the plan is done, it is not fetched, not seen by a custom op and not part of an abandoned run. With
`poisoning(True)` every freed buffer is overwritten, so that a test would see a broken promise.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stepscope.graph import DType
from stepscope.graph.dtypes import Array
from stepscope.ops.resources import as_seen_outside
from stepscope.ops.state.variable_cells import current
from stepscope.runtime.plan.exec_graph import ExecNode
from stepscope.runtime.plan.plan import Memory, Plan, PlanStep

POISON: Final = 0xA5
MAX_IDLE_BUFFERS: Final = 512 << 20
"""The most bytes of plans' own buffers that a session keeps while they are idle."""
_poisoning = os.environ.get("STEPSCOPE_POISON", "") == "1"


def poisoning(on: bool | None = None) -> bool:
    """Whether freed buffers are overwritten; sets it first where a value is given (tests)."""
    global _poisoning
    if on is not None:
        _poisoning = on
    return _poisoning


def poison(buffer: Array) -> None:
    """Overwrite a freed buffer with a pattern no computation makes."""
    flat = buffer.reshape(-1)
    flat.view(np.uint8).fill(POISON)


@dataclass(frozen=True, slots=True)
class View:
    """A typed view of a buffer."""

    buffer: int
    dtype: DType
    shape: tuple[int, ...]


@dataclass(slots=True)
class BufferPlan:
    """Which view each output writes to, when a run executes the steps in their order."""

    sizes: list[int]
    views: list[View]
    view_of: dict[tuple[int, int], int]
    """(step, slot) to the index of its view."""
    freed: dict[int, list[int]]
    """After which step which views are dead (poison targets)."""
    forwarded: dict[int, tuple[int, int]]
    """Steps that write over an input: which output that is."""

    def allocate(self) -> tuple[Array, ...]:
        """Fresh memory for one run at a time: one array per view."""
        buffers = [np.empty(size, dtype=np.uint8) for size in self.sizes]
        return tuple(typed(buffers[v.buffer], v.dtype, v.shape) for v in self.views)

    def first_users(self) -> dict[int, list[int]]:
        """By step, the views it is the first to need."""
        first: dict[int, list[int]] = {}
        known: set[int] = set()
        for (step, _), view in sorted(self.view_of.items()):
            if view not in known:
                known.add(view)
                first.setdefault(step, []).append(view)
        return first

    @property
    def nbytes(self) -> int:
        return sum(self.sizes)


def typed(buffer: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The buffer's first bytes as an array of that type and shape."""
    count = int(np.prod(shape, dtype=np.int64))
    return buffer[: count * dtype.size].view(dtype.numpy).reshape(shape)


def reusable(plan: Plan, memory: Memory) -> bool:
    """Whether the engine may provide this memory and take it back after its last use."""
    if memory.foreign or memory.escapes or memory.roots != 1:
        return False
    index, slot = memory.members[0]
    step = plan.steps[index]
    return bool(step.kernel.out) and len(step.shapes) == 1 and step.shapes[slot].known is not None


def nbytes(step: PlanStep, slot: int) -> int:
    count = step.shapes[slot].num_elements()
    assert count is not None
    return count * step.node.output_dtypes[slot].size


def assign_buffers(plan: Plan) -> BufferPlan:
    """Linear scan over the steps: take a free buffer of the size, or write over a dying input."""
    result = BufferPlan([], [], {}, {}, {})
    buffer_of: dict[int, int] = {}
    free: dict[int, list[int]] = defaultdict(list)
    view_index: dict[View, int] = {}
    dying: dict[int, list[int]] = defaultdict(list)
    for g in {g for s in plan.steps for g in s.groups}:
        if reusable(plan, plan.memories[g]):
            birth = plan.memories[g].members[0][0]
            dying[max(birth, plan.memories[g].last_use)].append(g)
    for i, step in enumerate(plan.steps):
        forwarded = None
        if writes_to_buffer(plan, i):
            group = step.groups[0]
            dtype = step.node.output_dtypes[0].base_dtype
            shape = step.shapes[0].known
            assert shape is not None
            forwarded = _forwardable(plan, i, buffer_of)
            size = -(-nbytes(step, 0) // 64) * 64
            if forwarded is not None:
                buffer = buffer_of[forwarded]
                result.forwarded[i] = plan.memories[forwarded].members[0]
            elif free[size]:
                buffer = free[size].pop()
            else:
                result.sizes.append(size)
                buffer = len(result.sizes) - 1
            buffer_of[group] = buffer
            view = View(buffer, dtype, shape)
            if view not in view_index:
                view_index[view] = len(result.views)
                result.views.append(view)
            result.view_of[i, 0] = view_index[view]
        for g in dying[i]:
            if g == forwarded:
                continue
            buffer = buffer_of[g]
            free[result.sizes[buffer]].append(buffer)
            root = plan.memories[g].members[0]
            result.freed.setdefault(i, []).append(result.view_of[root])
    return result


def writes_to_buffer(plan: Plan, index: int) -> bool:
    """Whether a step makes memory that the engine provides."""
    groups = plan.steps[index].groups
    if not groups:
        return False
    memory = plan.memories[groups[0]]
    return memory.members[0] == (index, 0) and reusable(plan, memory)


def _forwardable(plan: Plan, index: int, buffer_of: dict[int, int]) -> int | None:
    """The memory of an input that dies here and that the output may be written over."""
    step = plan.steps[index]
    for i in step.kernel.forwards:
        source, slot = step.node.inputs[i]
        producer = plan.steps[source.index]
        group = producer.groups[slot]
        memory = plan.memories[group]
        if (
            group in buffer_of
            and memory.last_use == index
            and _is_whole(source, slot, memory)
            and producer.shapes[slot].known == step.shapes[0].known
            and source.output_dtypes[slot] is step.node.output_dtypes[0]
            and _only_read_as_a_whole(plan, step, group)
        ):
            return group
    return None


def _only_read_as_a_whole(plan: Plan, step: PlanStep, group: int) -> bool:
    return all(
        _is_whole(s, slot, plan.memories[group])
        for s, slot in step.node.inputs
        if plan.steps[s.index].groups[slot] == group
    )


def _is_whole(node: ExecNode, slot: int, memory: Memory) -> bool:
    """Whether an output is all of its memory, as it was made or handed on by `Identity`."""
    while memory.members[0] != (node.index, slot):
        if node.op_type != "Identity":
            return False
        node, slot = node.inputs[0]
    return True


class LazyBuffers:
    """The buffers of a plan, each allocated when the first step that writes to it comes.

    For runs that may not get them all: the op that fails is the one that asked. `allocating` is
    called with what allocates one.
    """

    __slots__ = ("_allocating", "_buffers", "_plan", "_views")

    def __init__(
        self, plan: BufferPlan, allocating: Callable[[Callable[[], Array]], Array]
    ) -> None:
        self._plan = plan
        self._allocating = allocating
        self._buffers: list[Array | None] = [None] * len(plan.sizes)
        self._views: list[Array | None] = [None] * len(plan.views)

    def take(self, index: int) -> Array:
        """The view of that index."""
        view = self._plan.views[index]
        buffer = self._buffers[view.buffer]
        if buffer is None:
            size = self._plan.sizes[view.buffer]
            try:
                buffer = self._allocating(lambda: np.empty(size, dtype=np.uint8))
            except MemoryError as error:
                raise NoBuffer(f"no buffer of {size} bytes") from error
            self._buffers[view.buffer] = buffer
        made = self._views[index] = typed(buffer, view.dtype, view.shape)
        return made


class NoBuffer(MemoryError):  # noqa: N818 - becomes an OpError
    """The machine has no memory for a buffer that an op was to write to."""


def size_class(size: int) -> int:
    """The bytes of the buffer that serves a request: at most a quarter more than asked for."""
    step = max(64, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step


class BufferCache:
    """Freed buffers by size class, up to a bound; those freed longest ago go first. Thread-safe."""

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        self._lock = threading.Lock()
        self._free: dict[int, deque[Array]] = {}
        self._bytes = 0
        self._max_bytes = max_bytes

    def take(self, size: int) -> Array:
        """A buffer of at least `size` bytes."""
        rounded = size_class(size)
        with self._lock:
            kept = self._free.get(rounded)
            if kept:
                self._bytes -= rounded
                return kept.pop()
        try:
            return np.empty(rounded, dtype=np.uint8)
        except MemoryError as error:
            raise NoBuffer(f"no buffer of {rounded} bytes") from error

    def give(self, buffer: Array) -> None:
        """Take back a buffer that nothing reads any more."""
        if _poisoning:
            poison(buffer)
        size = buffer.nbytes
        if size > self._max_bytes:
            return
        with self._lock:
            # The class used last comes last, so that the first is the one to take from.
            kept = self._free.pop(size, None) or deque()
            self._free[size] = kept
            kept.append(buffer)
            self._bytes += size
            self._shrink(self._max_bytes)

    def shrink(self, most: int) -> int:
        """Let go of buffers until at most so many bytes are left; how many went."""
        with self._lock:
            before = self._bytes
            self._shrink(most)
            return before - self._bytes

    def _shrink(self, most: int) -> None:
        while self._bytes > most and self._free:
            size = next(iter(self._free))
            kept = self._free[size]
            if kept:
                kept.popleft()
                self._bytes -= size
            if not kept:
                del self._free[size]

    @property
    def cached_bytes(self) -> int:
        return self._bytes


def own(value: Any) -> Any:
    """A copy of a value for the user to keep: an array, or a NumPy scalar for rank 0."""
    if not isinstance(value, np.ndarray):
        return as_seen_outside(value)
    return value.copy() if value.ndim else value[()]


def hand_out(value: Any) -> Any:
    """A value that nobody else holds, as the user gets it; copied if it is part of a larger one."""
    if not isinstance(value, np.ndarray):
        return as_seen_outside(value)
    if not value.ndim:
        return value[()]
    base = value.base
    if value.flags.writeable and (base is None or getattr(base, "nbytes", -1) == value.nbytes):
        return value
    return value.copy()


def own_inside(value: Any) -> Any:
    """As `own`, for a function's caller inside of the engine: handles stay what they are."""
    if not isinstance(value, np.ndarray):
        return value
    return value.copy() if value.ndim or value.dtype == object else value[()]


def hand_out_inside(value: Any) -> Any:
    """As `hand_out`, for a function's caller inside of the engine: handles stay what they are."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return own_inside(value)
    return hand_out(value)


def ways_out(plan: Plan) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How results are copied, and handed out: to the user, or to the engine that called."""
    inside = any(t.graph.takes_from_outside for t in plan.graph.fetches)
    return (own_inside, hand_out_inside) if inside else (own, hand_out)


def fetch_policy(plan: Plan) -> Sequence[bool]:
    """Per fetched tensor, whether its value must be copied before the user gets it."""
    handed_out: set[int] = set()
    policy = []
    for tensor in plan.graph.fetches:
        source, slot = plan.graph.retval_of[tensor].inputs[0]
        group = plan.steps[source.index].groups[slot]
        memory = plan.memories[group]
        policy.append(memory.foreign or memory.kept or group in handed_out)
        handed_out.add(group)
    return policy


def fetches_of(plan: Plan) -> list[tuple[int, Callable[[Any], Any]]]:
    """Per fetched tensor, the step that hands it out, and what makes its value the user's."""
    fetches: list[tuple[int, Callable[[Any], Any]]] = []
    copied, handed_out = ways_out(plan)
    for tensor, copy in zip(plan.graph.fetches, fetch_policy(plan), strict=True):
        retval = plan.graph.retval_of[tensor]
        step = plan.steps[retval.index]
        of_variable = bool(step.late) or any(step.reads)
        fetches.append((retval.index, own_now if of_variable else copied if copy else handed_out))
    return fetches


def own_now(value: Any) -> Any:
    """A copy, for the user to keep, of what a variable holds now that a value was read from."""
    return own(current(value))
