"""Counts the memory of a run with branches and loops.

There a node may execute any number of times, so memory belongs to an execution, and who still reads
it is known only while the run goes on. The rules are those of `accountant`: an output is live from
the moment its op starts (where its size is only known afterwards, from then on) until the last
execution that reads it, or a view of it, has ended. Beside executions, memory is held by

- a loop, of what is constant in it, until the loop ends;
- what waits for the next iteration to begin;
- a TensorArray, of its elements, until they are cleared or closed, or the run ends;
- the run, of what is fetched, until it ends.

An array that a variable gives up is, where ops still read it, theirs until they let go of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from stepscope.metadata.memory.allocations import ALLOCATE, FREE
from stepscope.ops.resources import address_of
from stepscope.ops.state.variable_cells import VariableCell
from stepscope.runtime.execute.frames import Task
from stepscope.runtime.execute.trace import clock
from stepscope.runtime.memory.accountant import MemoryEvent, OwnedMemory
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.memory.run_memory import Before, RunMemory
from stepscope.runtime.plan.memory_table import MemoryTable, StepOutput

_TAKE_OUT: Final = frozenset({"TensorArrayReadV3", "StackPopV2"})
"""What gives out a tensor that is there already."""


class FlowOwner(OwnedMemory):
    """One piece of memory and the execution that made it."""

    __slots__ = ("begun", "execution")

    def __init__(
        self, output: StepOutput, size: int, shape: tuple[int, ...] | None, execution: int
    ) -> None:
        super().__init__(output, size, shape)
        self.execution = execution
        """The number of the execution, in the order in which executions began."""
        self.begun = True
        """Whether its op is still under way."""


class FlowAccountant:
    """The events of one run, and what is live."""

    def __init__(self, memory: FlowMemory) -> None:
        self._memory = memory
        self._alive: dict[int, FlowOwner] = {}
        self.events: list[MemoryEvent] = []

    def alive(self) -> Iterator[OwnedMemory]:
        return iter(list(self._alive.values()))

    def make(
        self,
        output: StepOutput,
        size: int,
        shape: tuple[int, ...] | None,
        time: int,
        execution: int,
    ) -> FlowOwner:
        self._memory._charge(output, size, shape)
        owner = FlowOwner(output, size, shape, execution)
        owner.remaining = 1
        self._alive[id(owner)] = owner
        self.events.append(MemoryEvent(time, ALLOCATE, owner))
        return owner

    def free(self, owner: FlowOwner, time: int) -> None:
        if self._alive.pop(id(owner), None) is not None:
            self.events.append(MemoryEvent(time, FREE, owner))
            self._memory._release(owner.output.device, owner.bytes)

    def withdraw(self, i: int) -> None:
        """A step did not get the memory it was about to write to."""
        mine = {id(o) for o in self._alive.values() if o.begun and o.output.step == i}
        for key in mine:
            owner = self._alive.pop(key)
            self._memory._release(owner.output.device, owner.bytes)
        self.events = [e for e in self.events if id(e.owner) not in mine]

    def finish(self, time: int) -> None:
        for owner in list(self._alive.values()):
            self.free(owner, time)

    def replaced(self, _variable: int, _size: int, _address: int, _time: int) -> None:
        """`FlowMemory` sees to that: it knows the array."""


class Execution:
    """What is known of the memory of one execution while it is under way."""

    __slots__ = ("before", "made", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.made: dict[int, FlowOwner] = {}
        self.before: Before | None = None


class FlowMemory(RunMemory):
    """Counts what each execution in a run with branches and loops holds.

    It is the ledger of the run's `Frames`.
    """

    __slots__ = ("_flow", "_now", "executions")

    def __init__(self, table: MemoryTable, allocator: Allocator, *, step_id: int) -> None:
        super().__init__(table, allocator, step_id=step_id, counts=True, forwards={})
        self._flow = FlowAccountant(self)
        self._accountant = self._flow  # type: ignore[assignment]
        self._now = 0
        """The latest end of an op that is counted: an earlier one may be counted after it."""
        self.executions = 0

    # -- executions ----------------------------------------------------------------------------

    def begin(self, task: Task, arguments: Sequence[Any]) -> Execution:
        """A node begins to execute with these inputs."""
        i = task.step
        with self._lock:
            execution = Execution(self.executions)
            self.executions += 1
            if self._closed:
                return execution
            now = clock()
            if self.table.specials[i]:
                charged = self._special(i, arguments)
                if self.table.specials[i] == "variable":
                    self._remember(i, arguments[0], now, charged)
                else:
                    self._before[i] = Before(now, [], None, charged)
                execution.before = self._before.pop(i)
            if self.table.plan.nodes[i].op_type not in _TAKE_OUT:
                for output in self.table.made[i]:
                    if output.source is None and output.bytes >= 0 and not output.late:
                        execution.made[output.slot] = self._flow.make(
                            output, output.bytes, output.shape, now, execution.number
                        )
            return execution

    def end(
        self,
        task: Task,
        execution: Execution,
        arguments: Sequence[Any],
        outputs: Sequence[Any],
        now: int,
    ) -> list[Any] | None:
        """It is done: the owners of its outputs, each held once for whoever called."""
        i = task.step
        with self._lock:
            if self._closed:
                return None
            self._now = max(self._now, now)
            before = execution.before
            if before is not None:
                if before.charged:
                    self._release(self.table.plan.nodes[i].device, before.charged)
                if self.table.specials[i] == "variable":
                    self._compare(i, arguments[0], before, now)
            owners: list[Any] = [
                self._owner(task, execution, slot, arguments, value, now)
                for slot, value in enumerate(outputs)
            ]
            kind = self.table.plan.nodes[i].op_type
            if kind.startswith("TensorArray"):
                self._array_op(kind, task, arguments, owners)
            elif kind.startswith("Stack"):
                self._stack_op(kind, task, arguments, outputs, owners)
            return owners

    def _owner(
        self,
        task: Task,
        execution: Execution,
        slot: int,
        arguments: Sequence[Any],
        value: Any,
        now: int,
    ) -> FlowOwner | None:
        made = execution.made.get(slot)
        if made is not None:
            made.begun = False
            made.address = address_of(value)
            return made
        source = self._source(task, slot)
        if source >= 0 and _is_view(value, arguments[source]):
            owner = task.owners[source] if task.owners else None
            if owner is not None:
                owner.remaining += 1
            return owner
        output = self.table.outputs.get((task.step, slot))
        takes_out = self.table.plan.nodes[task.step].op_type in _TAKE_OUT
        if output is None or takes_out or not isinstance(value, (np.ndarray, np.generic)):
            return None
        owner = self._flow.make(output, value.nbytes, value.shape, now, execution.number)
        owner.begun = False
        owner.address = address_of(value)
        return owner

    def _source(self, task: Task, slot: int) -> int:
        """The input that an output shares its memory with; -1 for none."""
        if task.position >= 0:
            return task.position
        step = self.table.plan.steps[task.step]
        if step.node.op_type == "_Recv":
            return 0
        views = step.kernel.views
        if not views:
            return -1
        return views[slot] if len(views) == len(step.node.output_dtypes) else views[0]

    def let_go(self, owners: Sequence[Any] | None) -> None:
        """An execution no longer needs these."""
        with self._lock:
            for owner in owners or ():
                if owner is not None:
                    self.release(owner)

    def fetched(self, owner: FlowOwner | None) -> None:
        """It is the caller's: live until the run ends."""
        if owner is not None:
            with self._lock:
                owner.remaining += 1
                owner.output = replace(owner.output, kind="output")

    # -- the ledger ----------------------------------------------------------------------------

    def hold(self, owner: FlowOwner) -> None:
        with self._lock:
            owner.remaining += 1

    def release(self, owner: FlowOwner) -> None:
        with self._lock:
            owner.remaining -= 1
            if not owner.remaining and not self._closed:
                self._flow.free(owner, self._now)

    # -- TensorArrays and stacks ---------------------------------------------------------------

    def _stack_op(
        self,
        kind: str,
        task: Task,
        arguments: Sequence[Any],
        outputs: Sequence[Any],
        owners: list[Any],
    ) -> None:
        if kind == "StackPushV2" and task.owners and task.owners[1] is not None:
            task.owners[1].remaining += 1
            arguments[0].tags.setdefault(id(arguments[1]), []).append(task.owners[1])
        elif kind == "StackPopV2":
            held = arguments[0].tags.get(id(outputs[0]))
            if held:
                owners[0] = held.pop()
        elif kind == "StackCloseV2":
            for held in arguments[0].tags.values():
                self.let_go(held)
            arguments[0].tags.clear()

    def _array_op(self, kind: str, task: Task, arguments: Sequence[Any], owners: list[Any]) -> None:
        store = arguments[0]
        if kind == "TensorArrayWriteV3":
            self._store(task, 2, store, [int(arguments[1])])
        elif kind == "TensorArrayScatterV3":
            self._store(task, 2, store, [int(i) for i in arguments[1]])
        elif kind == "TensorArraySplitV3":
            self._store(task, 1, store, range(len(arguments[2])))
        elif kind == "TensorArrayReadV3":
            owner = store.tags.get(int(arguments[1]))
            if owner is not None:
                owner.remaining += 1
                owners[0] = owner
            if store.clears:
                self._forget(store, [int(arguments[1])])
        elif kind == "TensorArrayGatherV3" and store.clears:
            self._forget(store, [int(i) for i in arguments[1]])
        elif kind == "TensorArrayCloseV3" or (kind == "TensorArrayConcatV3" and store.clears):
            self._forget(store, list(store.tags))

    def _store(self, task: Task, position: int, store: Any, indices: Sequence[int]) -> None:
        owner = task.owners[position] if task.owners else None
        if owner is not None:
            self._forget(store, indices)
            for index in indices:
                owner.remaining += 1
                store.tags[index] = owner

    def _forget(self, store: Any, indices: Sequence[int]) -> None:
        for index in indices:
            owner = store.tags.pop(index, None)
            if owner is not None:
                self.release(owner)

    # -- variables -----------------------------------------------------------------------------

    def _compare(self, i: int, cell: VariableCell, before: Before, now: int) -> None:
        super()._compare(i, cell, before, now)
        old = before.array() if before.array is not None else None
        if old is None or cell.stored is old or not before.holdings:
            return
        source, slot = self.table.plan.nodes[i].inputs[0]
        variable = self.table.variable_of[source.index, slot]
        output = next(
            (
                o
                for port, o in self.table.outputs.items()
                if self.table.variable_of.get(port) == variable
            ),
            None,
        )
        if output is None:
            return
        owner = self._flow.make(output, old.nbytes, old.shape, now, -1)
        owner.address = before.holdings[0].address
        weakref.finalize(old, self._dropped, owner).atexit = False

    def _dropped(self, owner: FlowOwner) -> None:
        with self._lock:
            if not self._closed:
                self._flow.free(owner, clock())


def _is_view(value: Any, source: Any) -> bool:
    """Whether a view of an array (or of what a variable holds) is one: NumPy may have copied."""
    if not isinstance(value, np.ndarray) or not isinstance(source, np.ndarray):
        return True
    return value is source or np.may_share_memory(value, source)
