"""The executor of graphs with branches and loops: on the caller's thread, or on a pool.

`frames` decides which node is ready in which iteration; here nodes execute. On the caller's thread
they do so in the order of the program: iteration after iteration, and within one in the order of
the plan. On a pool a worker goes on with what its last node made ready and hands expensive ones
over, as the pooled executor does.

Guarantees. Before each node the run looks whether it has to stop: a loop that never ends is ended
by a deadline or a cancellation. `_frames` is guarded by the run's lock, as is what `pool_run` has.
Outputs are never written to once they were handed on, and no memory is reused: what nobody holds
any more is gone.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.dtypes import Array
from stepscope.metadata import InFlight
from stepscope.ops.flow.switches import DEAD
from stepscope.ops.resources import running
from stepscope.ops.state.variable_cells import current
from stepscope.runtime.execute.execution import (
    Executing,
    RunState,
    StepFailed,
    StoppedBetween,
    deadline_error,
)
from stepscope.runtime.execute.flow_trace import FlowTrace
from stepscope.runtime.execute.frames import FlowTable, Frames, Task
from stepscope.runtime.execute.loop_program import LoopProgram, loop_program
from stepscope.runtime.execute.pool_run import PoolRun
from stepscope.runtime.execute.pools import Task as PoolTask
from stepscope.runtime.execute.pools import WorkerPool
from stepscope.runtime.execute.trace import clock
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.memory.buffers import fetches_of
from stepscope.runtime.memory.flow_memory import Execution, FlowMemory
from stepscope.runtime.memory.run_memory import Refused
from stepscope.runtime.plan.plan import Plan, PlanStep, is_pure
from stepscope.spans import noting


class FlowSchedule:
    """What the executor needs to know of a plan, worked out once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.table = FlowTable(plan)
        self.inputs = [
            [
                (
                    step.reads[position],
                    bool(step.late) and step.late[position],
                    step.copies(plan, position),
                )
                for position in range(len(step.node.inputs))
            ]
            for step in plan.steps
        ]
        self.plain = [not any(map(any, flags)) for flags in self.inputs]
        """Per step, whether its kernel gets the inputs as they are."""
        self.fed = {node.index: n for n, node in enumerate(plan.graph.args.values())}
        self.fetches = fetches_of(plan)
        self.silent = [
            not s.executes and s.node.op_type != "_Retval" and not self.table.pending[i]
            for i, s in enumerate(plan.steps)
        ]
        """Per step, whether it is there when the run begins, and nothing has to happen."""
        self.program = loop_program(plan, self.silent)
        """Where the plan shows beforehand what an iteration executes."""


class FlowRun(PoolRun):
    """One execution of a plan. Use `on_this_thread`, or `start` and then `wait_for`."""

    def __init__(
        self,
        schedule: FlowSchedule,
        state: RunState,
        feeds: Sequence[Array],
        trace: FlowTrace | None,
        watched: frozenset[tuple[int, int]] = frozenset(),
        allocator: Allocator | None = None,
    ) -> None:
        super().__init__(schedule.plan, state, watched, allocator)
        memory = state.memory
        assert memory is None or isinstance(memory, FlowMemory)
        self._memory: FlowMemory | None = memory
        self._schedule = schedule
        self._feeds = feeds
        self.trace = trace
        self._frames = Frames(schedule.table, memory)
        self._pool: WorkerPool | None = None
        self._results: dict[int, Any] = {}

    # -- on the caller's thread ----------------------------------------------------------------

    def on_this_thread(self, deadline: int = 0, timeout_ms: int = 0) -> tuple[Any, ...]:
        """Run now. A deadline (a clock reading) is looked at between ops."""
        program = self._schedule.program
        if program is not None and not deadline and self._is_plain():
            try:
                return self._run_program(program)
            except StepFailed as failed:
                if not self._is_worth_another(failed, program):
                    raise
        try:
            return self._run_here(deadline, timeout_ms)
        finally:
            self._frames.close()

    def _is_plain(self) -> bool:
        """Whether nobody asks what single executions hold or make."""
        trace = self.trace
        if self._memory is not None or self._watched:
            return False
        return trace is None or (trace.level < 3 and trace.live is None)

    def _is_worth_another(self, failed: StepFailed, program: LoopProgram) -> bool:
        """Whether memory ran out, others had idle buffers (now given back), and nothing changed."""
        if not isinstance(failed.cause, MemoryError) or isinstance(failed.cause, Refused):
            return False
        if self._allocator is None or self.trace is not None or not program.is_repeatable:
            return False
        return bool(self._allocator.give_back())

    def _run_program(self, program: LoopProgram) -> tuple[Any, ...]:
        state, trace = self._state, self.trace
        token = state.cancellation

        def stop() -> None:
            raise StoppedBetween(token.error())

        self._begin_trace()
        running.step_id, running.cores = state.step_id, state.cores
        function = program.function(traced=trace is not None)
        add = thread = None
        if trace is not None:
            add, thread = trace.events.append, trace.thread
        spans = noting(trace.spans) if trace is not None else nullcontext()
        try:
            with np.errstate(all="ignore"), spans:
                values = function(state, self._feeds, token, stop, clock, add, thread)
        except StoppedBetween as stopped:
            raise StepFailed(stopped.error, None) from None
        except BaseException as error:
            step = program.step_at(error.__traceback__)
            if step is None:
                raise StepFailed(error, None) from error
            raise self._failed_here(error, step) from error
        self._results = dict(zip(program.retvals, values, strict=True))
        self._end()
        return self.result()

    def _run_here(self, deadline: int, timeout_ms: int) -> tuple[Any, ...]:
        token = self._state.cancellation
        trace = self.trace
        self._begin_trace()
        running.step_id, running.cores = self._state.step_id, self._state.cores
        last: PlanStep | None = None
        spans = noting(trace.spans) if trace is not None else nullcontext()
        with np.errstate(all="ignore"), spans:
            work = self._begin()
            heapq.heapify(work)
            while work:
                if token.cancelled:
                    raise StepFailed(token.error(), None)
                if deadline and (late := clock() - deadline) > 0:
                    waited = None
                    if last is not None:
                        waited = InFlight(last.node.name, "waited_for", late)
                    raise StepFailed(deadline_error(timeout_ms)(), None, waited)
                task = heapq.heappop(work)
                last = self._steps[task.step]
                try:
                    ready = self._step(task)
                except BaseException as error:
                    raise self._failed_here(error, last) from error
                for other in ready:
                    heapq.heappush(work, other)
        self._end()
        return self.result()

    def _failed_here(self, error: BaseException, step: PlanStep) -> StepFailed:
        failed = self._failed(error, step)
        if step.kernel.blocking and self._state.cancellation.cancelled:
            failed.in_flight = InFlight(step.node.name, "cancelled")
        return failed

    # -- on a pool -----------------------------------------------------------------------------

    def start(self, pool: WorkerPool, submit: Callable[[PoolTask], None]) -> None:
        """Hand the nodes that need nothing to the pool."""
        self._pool = pool
        self._submit = submit
        self._begin_trace()
        work = self._begin()
        if not work:
            self._finish()
            return
        self._active = 1
        self._hand_over(self._share(work, []))

    def _hand_over(self, work: list[Task]) -> None:
        self._submit(lambda: self._drain(work))

    def _drain(self, work: list[Task]) -> None:
        """Execute the tasks and whatever they make ready that stays on this worker."""
        thread = threading.current_thread()
        ident = threading.get_ident()
        trace = self.trace
        if trace is not None:
            trace.thread_names[threading.get_native_id()] = thread.name
        token = self._state.cancellation
        running.step_id, running.cores = self._state.step_id, 1
        heapq.heapify(work)
        spans = noting(trace.spans) if trace is not None else nullcontext()
        with np.errstate(all="ignore"), spans:
            while work and not token.cancelled:
                task = heapq.heappop(work)
                self._executing[ident] = Executing(self._steps[task.step], thread)
                try:
                    ready = self._step(task)
                except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
                    self._fail(error, self._steps[task.step])
                    break
                finally:
                    self._executing.pop(ident, None)
                for other in self._share(ready, work):
                    heapq.heappush(work, other)
        self._left()

    def _share(self, ready: list[Task], work: list[Task]) -> list[Task]:
        """Of what became ready, what stays here: the expensive ones go to others."""
        expensive = [t for t in ready if self._steps[t.step].expensive]
        if not expensive:
            return ready
        stay = [t for t in ready if not self._steps[t.step].expensive]
        if not stay and not work:
            stay.append(expensive.pop(0))
        with self._lock:
            self._active += len(expensive)
        for task in expensive:
            self._hand_over([task])
        return stay

    def _finish(self) -> None:
        if not self._state.cancellation.cancelled:
            self._end()
        elif self.trace is not None:
            self.trace.end = clock()
        self._frames.close()
        super()._finish()

    def _begin_trace(self) -> None:
        if self.trace is not None:
            if self.trace.live is not None:
                self._live = self.trace.live.fresh_rows()
            self.trace.begin_clock()

    # -- nodes ---------------------------------------------------------------------------------

    def _begin(self) -> list[Task]:
        """What is there from the start is handed on; the tasks that are ready then."""
        ready: list[Task] = []
        waiting = self._frames.start()
        while waiting:
            task = waiting.pop()
            if not self._schedule.silent[task.step]:
                ready.append(task)
                continue
            value = self._steps[task.step].kernel.value
            if value is None:
                value = self._feeds[self._schedule.fed[task.step]]
            waiting += self._frames.done(task, (value,))
        now = clock()
        for task in ready:
            task.ready = now
        return ready

    def _step(self, task: Task) -> list[Task]:
        """Execute a node, write it down, hand on what it made; what became ready."""
        began = clock()
        live = self._live
        if live is not None:
            live[0][task.step] = threading.get_native_id()
            # Not before: of an op that ended the end stays, and it is executing no more.
            live[2][task.step] = 0
            live[1][task.step] = began
        arguments, outputs, execution = self._run_kernel(task)
        ended = clock()
        if live is not None:
            live[2][task.step] = ended
        memory = self._memory
        owners = None
        if memory is not None and execution is not None:
            owners = memory.end(task, execution, arguments, outputs, ended)
        if self._watched:
            self._show(task.step, outputs)
        if self.trace is not None:
            number = execution.number if execution is not None else -1
            self.trace.add(task.step, task.ready, began, ended, outputs, number)
        with self._lock:
            if self._steps[task.step].node.op_type == "_Retval":
                self._results[task.step] = outputs[0]
                if memory is not None and task.owners:
                    memory.fetched(task.owners[0])
                outputs = ()
            ready = self._frames.done(task, outputs, owners)
            now = self._ready_at(ended)
        if memory is not None:
            memory.let_go(task.owners)
            memory.let_go(owners)
        for other in ready:
            other.ready = now
        return ready

    def _run_kernel(self, task: Task) -> tuple[list[Any], Sequence[Any], Execution | None]:
        """Inputs and outputs; if the machine has no memory, idle buffers are given back first."""
        step = self._steps[task.step]
        arguments = task.inputs
        if not self._schedule.plain[task.step]:
            arguments = [
                _as_wanted(value, *flags)
                for value, flags in zip(arguments, self._schedule.inputs[task.step], strict=True)
            ]
        execution = self._memory.begin(task, arguments) if self._memory is not None else None
        try:
            outputs = self._call(task, step, arguments)
        except MemoryError as error:
            again = not isinstance(error, Refused) and is_pure(step)
            if not again or self._allocator is None or not self._allocator.give_back():
                raise
            outputs = self._call(task, step, arguments)
        return arguments, outputs, execution

    def _call(self, task: Task, step: PlanStep, arguments: list[Any]) -> Sequence[Any]:
        kernel = step.kernel
        if not step.executes:
            return arguments if kernel.value is None else (kernel.value,)
        if step.node.op_type == "_Send" or step.node.op_type == "_Recv":
            return arguments
        if task.position >= 0:
            result = kernel.call(task.position, arguments[task.position])
        elif kernel.blocking and self._pool is not None:
            with self._pool.away():
                result = self._plain_call(kernel, arguments)
        else:
            result = self._plain_call(kernel, arguments)
        return (result,) if len(step.node.output_dtypes) == 1 else result or ()

    def _plain_call(self, kernel: Any, arguments: list[Any]) -> Any:
        return kernel.call(self._state, *arguments) if kernel.context else kernel.call(*arguments)

    def _show(self, i: int, outputs: Sequence[Any]) -> None:
        """Hand the outputs that are being watched to the watcher."""
        assert self._state.watch is not None
        for slot, value in enumerate(outputs):
            if (i, slot) in self._watched and value is not DEAD:
                self._state.watch(i, slot, value)

    def _end(self) -> None:
        if self.trace is not None:
            self.trace.end = clock()
            self.trace.complete = True

    # -- for whoever waits ---------------------------------------------------------------------

    def let_go(self) -> None:
        """Nobody asks for this run any more: if it is over, hold nothing of it."""
        if self.finished.is_set():
            self._results, self._failure, self._feeds = {}, None, ()
            self._frames = Frames(self._schedule.table)

    def result(self) -> tuple[Any, ...]:
        if self._failure is not None:
            raise self._failure
        values = []
        for index, give in self._schedule.fetches:
            if index not in self._results:
                name = self._steps[index].node.inputs[0][0].name
                number = self._steps[index].node.attrs["index"]
                raise StepFailed(
                    InvalidArgumentError.without_op(
                        f"Retval[{number}] does not have value: {name} is on a branch that was "
                        "not taken. Fetch the result of tf.cond instead of what is inside it.",
                    ),
                    None,
                )
            values.append(give(self._results[index]))
        return tuple(values)


def _as_wanted(value: Any, read: bool, late: bool, copy: bool) -> Any:
    """An input as the kernel gets it; None where a Merge got another one."""
    if value is None:
        return None
    if read:
        value = value.read()
    elif late:
        value = current(value)
    return value.copy() if copy else value
