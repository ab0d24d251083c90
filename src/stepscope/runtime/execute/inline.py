"""The inline executor: a plan's program, on the caller's thread or as one task of a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepscope.graph.dtypes import Array
from stepscope.metadata import InFlight
from stepscope.ops.resources import running
from stepscope.runtime.execute.execution import (
    Executing,
    RunState,
    StepFailed,
    StoppedBetween,
    deadline_error,
    is_exhaustion,
)
from stepscope.runtime.execute.pools import Task, WorkerPool
from stepscope.runtime.execute.program import Arena, Check, GeneratedProgram, Memory
from stepscope.runtime.execute.trace import Trace, clock
from stepscope.runtime.memory.allocator import Allocator, allocating
from stepscope.runtime.memory.buffers import LazyBuffers, NoBuffer
from stepscope.runtime.memory.run_memory import Refused
from stepscope.runtime.plan.plan import PlanStep
from stepscope.spans import noting


class InlineRun:
    """One execution of a program. Use `on_this_thread`, or `start` and then `wait_for`."""

    __slots__ = (
        "_allocator", "_error", "_feeds", "_program", "_result", "_state", "_thread", "abandoned",
        "finished", "stopped", "succeeded", "trace", "wake", "watched",
    )  # fmt: skip

    def __init__(
        self,
        program: GeneratedProgram,
        state: RunState,
        feeds: tuple[Array, ...],
        trace: Trace | None,
        watched: frozenset[tuple[int, int]] = frozenset(),
        allocator: Allocator | None = None,
    ) -> None:
        self.watched = watched
        self._allocator = allocator
        self._program = program
        self._state = state
        self._feeds = feeds
        self._thread: threading.Thread | None = None
        self._result: tuple[Any, ...] = ()
        self._error: StepFailed | None = None
        self.trace = trace
        self.abandoned = False
        self.succeeded = False
        self.stopped: list[PlanStep] = []
        self.wake: Any = None
        self.finished: Any = None

    def on_this_thread(self, deadline: int = 0, timeout_ms: int = 0) -> tuple[Any, ...]:
        """Run now. A deadline (a clock reading) is looked at between ops."""
        if deadline:
            return self._execute("deadline", deadline, timeout_ms)
        return self._execute("", 0, 0)

    def start(self, _pool: WorkerPool, submit: Callable[[Task], None]) -> None:
        """Hand the whole run to a worker, by `submit`."""
        self.wake = threading.Event()
        self.finished = threading.Event()
        submit(self._work)

    def _work(self) -> None:
        self._thread = threading.current_thread()
        trace = self.trace
        if trace is not None:
            trace.thread = threading.get_native_id()
            trace.thread_names[trace.thread] = self._thread.name
        try:
            self._result = self._execute("token", 0, 0)
            self.succeeded = True
        except StepFailed as error:
            if not self._state.cancellation.cancelled:
                self._error = error
            elif error.step is not None:
                self.stopped.append(error.step)
        finally:
            self._thread = self._state.frame = None
            self.finished.set()
            self.wake.set()

    def _execute(self, check: Check, deadline: int, timeout_ms: int) -> tuple[Any, ...]:
        try:
            return self._attempt(check, deadline, timeout_ms)
        except StepFailed as failed:
            if not self._is_worth_another(failed):
                raise
        return self._attempt(check, deadline, timeout_ms)

    def _is_worth_another(self, failed: StepFailed) -> bool:
        """Whether memory ran out, others had idle buffers (now given back), and nothing changed."""
        cause, step = failed.cause, failed.step
        if not isinstance(cause, MemoryError) or isinstance(cause, (Refused, NoBuffer)):
            return False
        if self._state.memory is not None and self._state.memory.counts:
            return False
        if step is None or self._allocator is None or not self._program.is_repeatable(step):
            return False
        return self._allocator.give_back() > self._program.buffers.nbytes

    def _attempt(self, check: Check, deadline: int, timeout_ms: int) -> tuple[Any, ...]:
        program, state, trace = self._program, self._state, self.trace
        token = state.cancellation

        def stop() -> None:
            if deadline:
                raise StoppedBetween(deadline_error(timeout_ms)(), clock() - deadline)
            raise StoppedBetween(token.error())

        memory = state.memory
        asks: Memory = "" if memory is None else "counted" if memory.counts else "notes"
        level = trace.level if trace is not None else 0
        arena: Arena | None = None
        if memory is None or not memory.counts:
            try:
                arena = program.take_arena()
            except MemoryError:
                # One by one they may fit after others were given back, and an op is to blame.
                arena = None
        function = program.function(level, check, self.watched, asks, lazy=arena is None)
        buffers: Any
        if arena is None:
            buffers = LazyBuffers(program.buffers, self._allocate)
        else:
            buffers = arena.views
            if memory is not None:
                memory.view_addresses = arena.addresses()
        running.step_id, running.cores = state.step_id, state.cores
        program.last_used = state.step_id
        try:
            with np.errstate(all="ignore"):
                if trace is None:
                    result: tuple[Any, ...] = function(
                        state, self._feeds, buffers, token, stop, None, clock, None, deadline
                    )
                else:
                    marks = trace.begin_marks(len(program.steps))
                    with noting(trace.spans):
                        trace.begin_clock()
                        result = function(
                            state, self._feeds, buffers, token, stop, marks, clock,
                            trace.notes.append, deadline,
                        )  # fmt: skip
                        trace.end = clock()
                    trace.complete = True
                    trace.went_well()
        except StoppedBetween as stopped:
            raise self._between(stopped) from None
        except BaseException as error:
            # No name for it here: the error holds this frame, and would hold itself.
            raise self._failed(error) from error
        finally:
            if arena is not None and not self.abandoned:
                program.give_arena(arena)
        return result

    def _failed(self, error: BaseException) -> StepFailed:
        """The step that raised the error."""
        step = self._program.step_before(error.__traceback__, back=0)
        in_flight = None
        if step is not None and step.kernel.blocking and self._state.cancellation.cancelled:
            in_flight = InFlight(step.node.name, "cancelled")
        failed = StepFailed(error, step, in_flight)
        if is_exhaustion(error):
            failed.values = self._program.locals_of(error.__traceback__)
        return failed

    def _allocate(self, make: Callable[[], Array]) -> Array:
        """Allocate; if the machine refuses, once more with all idle buffers given back."""
        return make() if self._allocator is None else allocating(self._allocator, make)

    @property
    def failure(self) -> StepFailed | None:
        return self._error

    def _between(self, stopped: StoppedBetween) -> StepFailed:
        """Stopped before a step. A deadline that passed during the one before was waited for."""
        step = self._program.step_before(stopped.__traceback__, back=1)
        if not stopped.late_ns or step is None:
            return StepFailed(stopped.error, None)
        return StepFailed(
            stopped.error, None, InFlight(step.node.name, "waited_for", stopped.late_ns)
        )

    def executing(self) -> Sequence[Executing]:
        thread, frame = self._thread, self._state.frame
        if thread is None or frame is None:
            return ()
        step = self._program.current_step(frame)
        return () if step is None else (Executing(step, thread),)

    def let_go(self) -> None:
        """Nobody asks for this run any more: if it is over, hold nothing of it."""
        if self.finished is not None and self.finished.is_set():
            self._feeds, self._result, self._error = (), (), None

    def result(self) -> tuple[Any, ...]:
        if self._error is not None:
            raise self._error
        return self._result
