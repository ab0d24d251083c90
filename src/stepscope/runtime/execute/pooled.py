"""The pooled executor: steps start as soon as their inputs are there, on the threads of a pool.

Policy. A worker goes on with whatever its last step made ready: cheap steps one after the other,
where they became ready; of expensive ones it keeps one when it has nothing else to do and hands
the others to the pool. A step that may block lets another thread take the worker's place.

State, guarded by the run's lock: that of `pool_run`, `_pending` (per step, inputs still missing),
`_uses` (per memory, readers still to come), `_readers` (per step, steps still to read its outputs).
`_values` needs no lock: each entry is written once, before the steps that read it become ready, and
let go after the last of them, so that nothing keeps a variable from being updated in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from stepscope.graph.dtypes import Array
from stepscope.ops.resources import running
from stepscope.ops.state.variable_cells import current
from stepscope.runtime.execute.execution import Executing, RunState, StepFailed, is_exhaustion
from stepscope.runtime.execute.pool_run import PoolRun
from stepscope.runtime.execute.pools import Task, WorkerPool
from stepscope.runtime.execute.trace import Trace, clock
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.memory.buffers import (
    BufferCache,
    fetches_of,
    nbytes,
    typed,
    writes_to_buffer,
)
from stepscope.runtime.memory.run_memory import Refused
from stepscope.runtime.plan.exec_graph import dependencies
from stepscope.runtime.plan.plan import Plan, PlanStep, is_pure
from stepscope.spans import noting


class PoolSchedule:
    """What the executor needs to know of a plan, worked out once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        steps = plan.steps
        self.at_start = [
            i
            for i, s in enumerate(steps)
            if not s.executes and not any(True for _ in dependencies(s.node))
        ]
        started = set(self.at_start)
        self.pending = [0] * len(steps)
        self.followers: list[list[int]] = [[] for _ in steps]
        for i, step in enumerate(steps):
            for d in {d.index for d in dependencies(step.node)} - started:
                self.pending[i] += 1
                self.followers[d].append(i)
        self.roots = [i for i, n in enumerate(self.pending) if n == 0 and i not in started]
        self.inputs = [
            [
                (
                    s.index,
                    slot,
                    step.reads[position],
                    bool(step.late) and step.late[position],
                    step.copies(plan, position),
                )
                for position, (s, slot) in enumerate(step.node.inputs)
            ]
            for step in steps
        ]
        self.reads = [step.input_groups(steps) for step in steps]
        self.uses = [m.uses for m in plan.memories]
        self.sources = [list({s.index for s, _ in step.node.inputs}) for step in steps]
        self.readers = [0] * len(steps)
        for sources in self.sources:
            for index in sources:
                self.readers[index] += 1
        self.buffered = [writes_to_buffer(plan, i) for i in range(len(steps))]
        """Per step, whether it writes into a buffer of ours."""
        self.fetches = fetches_of(plan)


class PooledRun(PoolRun):
    """One execution of a plan on a pool."""

    def __init__(
        self,
        schedule: PoolSchedule,
        state: RunState,
        feeds: Sequence[Array],
        trace: Trace | None,
        cache: BufferCache,
        watched: frozenset[tuple[int, int]] = frozenset(),
        allocator: Allocator | None = None,
    ) -> None:
        super().__init__(schedule.plan, state, watched, allocator)
        self._memory = state.memory
        self._schedule = schedule
        self._cache = cache
        self.trace = trace
        self._pending = schedule.pending.copy()
        self._uses = schedule.uses.copy()
        self._readers = schedule.readers.copy()
        self._buffers: dict[int, Array] = {}
        self._values: list[Any] = [None] * len(self._steps)
        for node, value in zip(schedule.plan.graph.args.values(), feeds, strict=True):
            self._values[node.index] = (value,)
        for i in schedule.at_start:
            if self._steps[i].kernel.value is not None:
                self._values[i] = (self._steps[i].kernel.value,)

    def start(self, pool: WorkerPool, submit: Callable[[Task], None]) -> None:
        """Hand the steps that need nothing to the pool."""
        self._pool = pool
        self._submit = submit
        now = clock()
        if self.trace is not None:
            self.trace.begin = now
            if self.trace.live is not None:
                self._live = self.trace.live.fresh_rows()
                self.trace.live.began(now)
        roots = self._schedule.roots
        if not roots:
            self._finish()
            return
        expensive = [i for i in roots if self._steps[i].expensive]
        cheap = [i for i in roots if not self._steps[i].expensive]
        batches = [[i] for i in expensive]
        if cheap:
            batches.append(cheap[::-1])
        self._active = len(batches)
        for batch in batches:
            self._hand_over(batch, now)

    def _hand_over(self, batch: list[int], ready: int) -> None:
        self._submit(lambda: self._drain(batch, ready))

    def _drain(self, batch: list[int], ready: int) -> None:
        """Execute the batch and whatever it makes ready that stays on this worker."""
        work = [(i, ready) for i in batch]
        thread = threading.current_thread()
        ident = threading.get_ident()
        native = threading.get_native_id()
        trace = self.trace
        if trace is not None:
            trace.thread_names[native] = thread.name
        token = self._state.cancellation
        running.step_id, running.cores = self._state.step_id, 1
        spans = noting(trace.spans) if trace is not None else nullcontext()
        with np.errstate(all="ignore"), spans:
            while work and not token.cancelled:
                i, ready = work.pop()
                self._executing[ident] = Executing(self._steps[i], thread)
                try:
                    began = clock()
                    if self._live is not None:
                        self._live[0][i] = native
                        self._live[1][i] = began
                    self._run_step(i)
                    ended = clock()
                    if self._live is not None:
                        self._live[2][i] = ended
                    if self._watched:
                        self._show(i)
                except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
                    self._fail(error, self._steps[i])
                    break
                finally:
                    self._executing.pop(ident, None)
                if trace is not None:
                    trace.events.append((i, ready, began, ended, native))
                self._follow(i, ended, work)
        self._left()

    def _follow(self, i: int, ended: int, work: list[tuple[int, int]]) -> None:
        """Start what step i made ready, let go of what it was the last to read."""
        dead: list[int] = []
        ready: list[int] = []
        with self._lock:
            now = self._ready_at(ended)
            for follower in self._schedule.followers[i]:
                self._pending[follower] -= 1
                if self._pending[follower] == 0:
                    ready.append(follower)
            for group in self._schedule.reads[i]:
                self._uses[group] -= 1
                if self._uses[group] == 0:
                    dead.append(group)
            for source in self._schedule.sources[i]:
                self._readers[source] -= 1
                if self._readers[source] == 0:
                    self._values[source] = None
            expensive = [r for r in ready if self._steps[r].expensive]
            work.extend((r, now) for r in ready if not self._steps[r].expensive)
            if expensive and not work:
                work.append((expensive.pop(0), now))
            self._active += len(expensive)
        dead += [g for g in self._steps[i].groups if self._schedule.uses[g] == 0]
        if not self._schedule.readers[i] and self._steps[i].executes:
            self._values[i] = None
        for group in dead:
            self._free(group)
        for r in expensive:
            self._hand_over([r], now)

    def _run_step(self, i: int) -> None:
        """Execute a step; if the machine has no memory, once more with idle buffers given back."""
        try:
            self._execute(i)
        except MemoryError as error:
            again = not isinstance(error, Refused) and is_pure(self._steps[i])
            if not again or self._allocator is None or not self._allocator.give_back():
                raise
            self._execute(i, again=True)

    def _execute(self, i: int, *, again: bool = False) -> None:
        step = self._steps[i]
        kernel = step.kernel
        values = self._values
        arguments: list[Any] = [self._state] if kernel.context else []
        for index, slot, read, late, copy in self._schedule.inputs[i]:
            value = values[index][slot]
            if read:
                value = value.read()
            elif late:
                value = current(value)
            if copy:
                value = value.copy()
            arguments.append(value)
        if not step.executes:
            values[i] = arguments if kernel.value is None else (kernel.value,)
            return
        memory = self._memory
        if memory is not None and not again:
            special = arguments[kernel.context :] if memory.table.specials[i] else ()
            memory.before(i, special)
        if self._schedule.buffered[i]:
            group = step.groups[0]
            shape = step.shapes[0].known
            assert shape is not None
            buffer = self._cache.take(nbytes(step, 0))
            self._buffers[group] = buffer
            out = typed(buffer, step.node.output_dtypes[0].base_dtype, shape)
            if kernel.out == "positional":
                kernel.call(*arguments, out)
            else:
                kernel.call(*arguments, out=out)
            values[i] = (out,)
            if memory is not None:
                memory.seen(i, values[i])
            return
        if kernel.blocking:
            with self._pool.away():
                result = kernel.call(*arguments)
        else:
            result = kernel.call(*arguments)
        count = len(step.node.output_dtypes)
        values[i] = (result,) if count == 1 else result
        if memory is not None:
            inputs = arguments[kernel.context :]
            memory.seen(
                i,
                values[i] or (),
                source=inputs[kernel.views[0]] if kernel.views else None,
                cell=inputs[0] if memory.table.specials[i] == "variable" else None,
            )
        if self.trace is not None and self.trace.level >= 3:
            self._note_shapes(i, values[i] or ())

    def _show(self, i: int) -> None:
        """Hand the outputs that are being watched to the watcher."""
        assert self._state.watch is not None
        for slot, value in enumerate(self._values[i] or ()):
            if (i, slot) in self._watched:
                self._state.watch(i, slot, value)

    def _note_shapes(self, i: int, outputs: Sequence[Any]) -> None:
        assert self.trace is not None
        step = self._steps[i]
        for slot, (shape, dtype) in enumerate(
            zip(step.shapes, step.node.output_dtypes, strict=True)
        ):
            if shape.known is None and dtype.is_numpy_compatible and not dtype._is_ref_dtype:
                self.trace.notes.append((i, slot, np.shape(outputs[slot])))

    def _free(self, group: int) -> None:
        """Nothing reads this memory any more."""
        if self._schedule.plan.memories[group].escapes:
            return
        buffer = self._buffers.pop(group, None)
        if buffer is not None and not self.abandoned:
            self._cache.give(buffer)

    def _failed(self, error: BaseException, step: PlanStep) -> StepFailed:
        failed = super()._failed(error, step)
        if is_exhaustion(error):
            failed.values = {
                f"v{index}_{slot}": value
                for index, outputs in enumerate(self._values)
                for slot, value in enumerate(outputs or ())
            }
        return failed

    def _finish(self) -> None:
        if self.trace is not None:
            self.trace.end = clock()
            self.trace.complete = not self._state.cancellation.cancelled
        super()._finish()

    def let_go(self) -> None:
        """Nobody asks for this run any more: if it is over, hold nothing of it."""
        if self.finished.is_set():
            self._values, self._buffers, self._failure = [], {}, None

    def result(self) -> tuple[Any, ...]:
        if self._failure is not None:
            raise self._failure
        return tuple(give(self._values[index][0]) for index, give in self._schedule.fetches)
