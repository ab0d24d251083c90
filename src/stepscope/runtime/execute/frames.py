"""Branches and loops while they run: which node gets which tensor in which iteration, and when.

The rules are those of TensorFlow's executor:

- A node executes once per iteration of the frame it is in, when all its inputs are there. If one of
  them is *dead* (`ops.control_flow.DEAD`), it does not execute, and all that it makes is dead.
- A Merge executes when the first of its inputs is there that is not dead; it is dead when all are.
- Enter takes a tensor into the first iteration of a frame (a constant Enter into every one), Exit
  out of it, NextIteration into the next one, which begins with that. At most `parallel_iterations`
  iterations of a frame are under way; what would begin one more waits.
- A frame ends when nothing in it is under way and nothing can come into it any more. An Exit that
  was dead in the last iteration is dead outside.

`Frames` does no locking, starts no threads and executes nothing: it is told what a node made
(`done`) and tells which nodes are ready. With a `Ledger` it says who holds which memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from stepscope.ops.flow.switches import DEAD, ENTERS, EXITS, MERGES, NEXT_ITERATIONS
from stepscope.runtime.plan.plan import Plan

_PLAIN: Final = 0
_ENTER: Final = 1
_EXIT: Final = 2
_NEXT: Final = 3

Edge = tuple[int, int, int]
"""(step that gets it, its input, or -1 where it only waits, output)."""


class Ledger(Protocol):
    """Who holds which memory."""

    def hold(self, owner: Any) -> None: ...
    def release(self, owner: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class _Merge:
    controls: int
    first: int
    """Inputs that may come in the first iteration; in any, where nothing comes back."""
    back: int
    """Inputs that come from the iteration before."""


class FlowTable:
    """What of a plan decides who gets what; worked out once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        steps = plan.steps
        self.kinds = [_PLAIN] * len(steps)
        self.edges: list[list[Edge]] = [[] for _ in steps]
        self.pending = [0] * len(steps)
        self.counts = [0] * len(steps)
        """Per step, how many inputs it has."""
        self.merges: dict[int, _Merge] = {}
        self.frames: dict[int, tuple[bytes, bool, int]] = {}
        """Per Enter: frame, whether it is constant, and how many iterations may be under way."""
        self.enters: dict[bytes, int] = {}
        """Per frame, how many tensors come into it."""
        self.places = list(range(len(steps)))
        """Per step, where it comes in the order of the plan; the Enters of a frame together."""
        first: dict[bytes, int] = {}
        for i, step in enumerate(steps):
            node = step.node
            if node.op_type in ENTERS:
                self.kinds[i] = _ENTER
                assert node.op is not None
                name = node.op.get_attr("frame_name")
                parallel = max(1, int(node.op.get_attr("parallel_iterations")))
                self.frames[i] = (name, bool(node.op.get_attr("is_constant")), parallel)
                self.enters[name] = self.enters.get(name, 0) + 1
                self.places[i] = first.setdefault(name, i)
            elif node.op_type in EXITS:
                self.kinds[i] = _EXIT
            elif node.op_type in NEXT_ITERATIONS:
                self.kinds[i] = _NEXT
            self._connect(i)
        self.roots = [i for i, n in enumerate(self.pending) if not n and i not in self.merges]

    def _connect(self, i: int) -> None:
        node = self.plan.steps[i].node
        if node.op_type == "_Recv":
            # It gets what its send was given.
            self.edges[self.plan.graph.sends[node].index].append((i, 0, 0))
            self.pending[i] = self.counts[i] = 1
            return
        for position, (source, slot) in enumerate(node.inputs):
            self.edges[source.index].append((i, position, slot))
        controls = list(dict.fromkeys(node.controls))
        for source in controls:
            self.edges[source.index].append((i, -1, 0))
        self.counts[i] = len(node.inputs)
        self.pending[i] = len(node.inputs) + len(controls)
        if node.op_type in MERGES:
            back = sum(source.op_type in NEXT_ITERATIONS for source, _ in node.inputs)
            self.merges[i] = _Merge(len(controls), len(node.inputs) - back, back)


class _Iteration:
    """One iteration of a frame."""

    __slots__ = (
        "children", "dead", "frames", "inputs", "merges", "number", "outstanding", "owners",
        "pending",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.pending: dict[int, int] = {}
        self.dead: set[int] = set()
        self.inputs: dict[int, list[Any]] = {}
        self.owners: dict[int, list[Any]] = {}
        self.merges: dict[int, list[Any]] = {}
        """Per Merge: controls still missing, dead inputs, whether its turn has come."""
        self.outstanding = 0
        """Nodes that are ready or executing."""
        self.children = 0
        self.frames: dict[bytes, _Frame] = {}


class _Frame:
    """A loop that is running (or, without a parent, what is outside of all loops)."""

    __slots__ = (
        "around", "count", "dead_exits", "deferred", "invariants", "iterations", "name", "parallel",
        "parent", "pending_enters", "prefix",
    )  # fmt: skip

    def __init__(
        self,
        name: bytes,
        parent: _Frame | None,
        around: _Iteration | None,
        pending_enters: int,
        parallel: int,
        prefix: tuple[int, ...],
    ) -> None:
        self.name = name
        self.parent = parent
        self.around = around
        """The iteration of the parent that it is part of."""
        self.pending_enters = pending_enters
        self.parallel = parallel
        self.prefix = prefix
        self.count = 0
        """The number of the last iteration that has begun."""
        self.iterations = {0: _Iteration(0)}
        self.invariants: list[tuple[int, Any, Any, bool]] = []
        self.deferred: list[tuple[int, Any, Any]] = []
        self.dead_exits: list[int] = []


class Task:
    """One execution of a node that is ready.

    Tasks sort in the order of the program: what comes into a loop, then the loop, one iteration
    after the other, and within an iteration the order of the plan.
    """

    __slots__ = ("frame", "inputs", "iteration", "key", "owners", "position", "ready", "step")

    def __init__(
        self, step: int, frame: _Frame, iteration: _Iteration, inputs: list[Any],
        owners: list[Any], position: int, place: int,
    ) -> None:  # fmt: skip
        self.step = step
        self.frame = frame
        self.iteration = iteration
        self.inputs = inputs
        self.owners = owners
        """Per input, whose memory it is, where that is counted."""
        self.position = position
        """Of a Merge: which input it got."""
        self.ready = 0
        own = (place,) if frame.parent is None else (iteration.number, place)
        self.key = frame.prefix + own

    def __lt__(self, other: Task) -> bool:
        return self.key < other.key


class Frames:
    """Decides which nodes of a run with branches and loops are ready; has no threads or clocks."""

    def __init__(self, table: FlowTable, ledger: Ledger | None = None) -> None:
        self._table = table
        self._ledger = ledger
        self._root = _Frame(b"", None, None, 0, 1, ())
        self._ready: list[Task] = []
        self._dead: list[tuple[int, _Frame, _Iteration]] = []

    def start(self) -> list[Task]:
        """The nodes that wait for nothing."""
        for i in self._table.roots:
            self._has_all(i, self._root, self._root.iterations[0])
        return self._taken()

    def done(
        self, task: Task, outputs: Sequence[Any], owners: Sequence[Any] | None = None
    ) -> list[Task]:
        """A node made these outputs (with their memory's owners): which are ready now."""
        self._spread(task.step, task.frame, task.iteration, outputs, owners, False)
        while self._dead:
            i, frame, iteration = self._dead.pop()
            self._spread(i, frame, iteration, (), None, True)
        return self._taken()

    def close(self) -> None:
        """The run is over, also if not all of it is done: it goes with who holds it.

        A frame and the iteration around it know each other, so they would stay, with the tensors in
        them, until Python's collector of cycles comes by.
        """
        frames = [self._root]
        for frame in frames:
            for iteration in frame.iterations.values():
                frames += iteration.frames.values()
                iteration.frames.clear()

    def _taken(self) -> list[Task]:
        ready, self._ready = self._ready, []
        return ready

    # -- what goes where -----------------------------------------------------------------------

    def _spread(
        self, i: int, frame: _Frame, at: _Iteration, outputs: Any, owners: Any, dead: bool
    ) -> None:
        kind = self._table.kinds[i]
        if kind == _PLAIN:
            self._activate(i, outputs, owners, dead, frame, at)
        elif kind == _ENTER:
            self._enter(i, frame, at, outputs, owners, dead)
        elif kind == _EXIT:
            if not dead:
                assert frame.parent is not None
                assert frame.around is not None
                self._activate(i, outputs, owners, False, frame.parent, frame.around)
            elif at.number == frame.count:
                frame.dead_exits.append(i)
        elif not dead:
            self._next(i, frame, at, outputs, owners)
        at.outstanding -= 1
        if frame.parent is not None:
            self._clean(frame, at.number)

    def _enter(
        self, i: int, frame: _Frame, at: _Iteration, outputs: Any, owners: Any, dead: bool
    ) -> None:
        name, is_constant, parallel = self._table.frames[i]
        child = at.frames.get(name)
        if child is None:
            place = self._table.places[i]
            own = (place,) if frame.parent is None else (at.number, place)
            child = at.frames[name] = _Frame(
                name, frame, at, self._table.enters[name], parallel, frame.prefix + own
            )
            at.children += 1
        if is_constant:
            child.invariants.append((i, outputs, owners, dead))
            self._hold(owners)
            for iteration in list(child.iterations.values()):
                self._activate(i, outputs, owners, dead, child, iteration)
        else:
            self._activate(i, outputs, owners, dead, child, child.iterations[0])
        child.pending_enters -= 1
        self._clean(child, 0)

    def _next(self, i: int, frame: _Frame, at: _Iteration, outputs: Any, owners: Any) -> None:
        if at.number == frame.count:
            if len(frame.iterations) >= frame.parallel:
                frame.deferred.append((i, outputs, owners))
                self._hold(owners)
                return
            self._begin(frame)
        self._activate(i, outputs, owners, False, frame, frame.iterations[at.number + 1])

    def _begin(self, frame: _Frame) -> None:
        """One more iteration."""
        frame.count += 1
        frame.dead_exits.clear()
        iteration = frame.iterations[frame.count] = _Iteration(frame.count)
        for i, outputs, owners, dead in frame.invariants:
            self._activate(i, outputs, owners, dead, frame, iteration)

    def _activate(
        self, i: int, outputs: Any, owners: Any, dead: bool, frame: _Frame, at: _Iteration
    ) -> None:
        """Hand what a node made to those that wait for it in an iteration."""
        table = self._table
        for target, position, slot in table.edges[i]:
            gone = dead or (position >= 0 and outputs[slot] is DEAD)
            if target in table.merges:
                self._offer(target, position, slot, outputs, owners, gone, frame, at)
                continue
            left = at.pending.get(target)
            left = at.pending[target] = (table.pending[target] if left is None else left) - 1
            if gone:
                at.dead.add(target)
            elif position >= 0:
                self._put(target, position, slot, outputs, owners, at)
            if not left:
                self._has_all(target, frame, at)

    def _put(
        self, target: int, position: int, slot: int, outputs: Any, owners: Any, at: _Iteration
    ) -> None:
        inputs = at.inputs.get(target)
        if inputs is None:
            inputs = at.inputs[target] = [None] * self._table.counts[target]
        inputs[position] = outputs[slot]
        owner = owners[slot] if owners else None
        if owner is not None:
            assert self._ledger is not None
            self._ledger.hold(owner)
            held = at.owners.get(target)
            if held is None:
                held = at.owners[target] = [None] * self._table.counts[target]
            held[position] = owner

    def _offer(
        self, target: int, position: int, slot: int, outputs: Any, owners: Any, gone: bool,
        frame: _Frame, at: _Iteration,
    ) -> None:  # fmt: skip
        """Something comes to a Merge."""
        merge = self._table.merges[target]
        state = at.merges.get(target)
        if state is None:
            state = at.merges[target] = [merge.controls, 0, False, -1]
        if position < 0:
            state[0] -= 1
        elif gone:
            state[1] += 1
        elif state[3] < 0:
            state[3] = position
            self._put(target, position, slot, outputs, owners, at)
        if state[0] or state[2]:
            return
        expected = merge.back if merge.back and at.number else merge.first
        if state[3] >= 0:
            state[2] = True
            self._has_all(target, frame, at, state[3])
        elif state[1] >= expected:
            state[2] = True
            at.dead.add(target)
            self._has_all(target, frame, at)

    def _has_all(self, i: int, frame: _Frame, at: _Iteration, position: int = -1) -> None:
        """All that a node waits for is there."""
        at.outstanding += 1
        at.pending.pop(i, None)
        inputs = at.inputs.pop(i, None)
        owners = at.owners.pop(i, None)
        if i in at.dead:
            at.dead.discard(i)
            self._release(owners)
            self._dead.append((i, frame, at))
        else:
            place = self._table.places[i]
            self._ready.append(Task(i, frame, at, inputs or [], owners or [], position, place))

    # -- the end of iterations and frames ------------------------------------------------------

    def _clean(self, frame: _Frame, number: int) -> None:
        while True:
            at = frame.iterations.get(number)
            if at is None or at.outstanding or at.children:
                break
            if frame.pending_enters if number == 0 else number - 1 in frame.iterations:
                break
            del frame.iterations[number]
            for owners in at.owners.values():
                self._release(owners)
            if frame.deferred:
                waiting, frame.deferred = frame.deferred, []
                self._begin(frame)
                for i, outputs, owners in waiting:
                    self._activate(i, outputs, owners, False, frame, frame.iterations[frame.count])
                    self._release(owners)
            number += 1
        if not frame.iterations and not frame.pending_enters:
            self._leave(frame)

    def _leave(self, frame: _Frame) -> None:
        parent, around = frame.parent, frame.around
        assert parent is not None
        assert around is not None
        if around.frames.pop(frame.name, None) is None:
            return
        around.children -= 1
        for _, _, owners, _ in frame.invariants:
            self._release(owners)
        frame.invariants = []
        for i in frame.dead_exits:
            self._activate(i, (), None, True, parent, around)
        if parent.parent is not None:
            self._clean(parent, around.number)

    # -- memory --------------------------------------------------------------------------------

    def _hold(self, owners: Any) -> None:
        for owner in owners or ():
            if owner is not None:
                assert self._ledger is not None
                self._ledger.hold(owner)

    def _release(self, owners: Any) -> None:
        for owner in owners or ():
            if owner is not None:
                assert self._ledger is not None
                self._ledger.release(owner)
