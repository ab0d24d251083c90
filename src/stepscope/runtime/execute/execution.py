"""One run under way: the state every kernel can see, and waiting for a run on other threads.

Guarantees.
- `RunState` is the only thing that the threads of a run share besides the plan.
- `wait_for` gives control back when the run is done, or at the latest a moment after its deadline
  or its cancellation: ops that can be woken are given `GRACE_S` to end, any other op still
  executing is abandoned. Nothing of an abandoned run is ever given back for reuse, and what it
  computes afterwards goes nowhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepscope.errors import CancelledError, DeadlineExceededError, OpError, ResourceExhaustedError
from stepscope.metadata import InFlight
from stepscope.ops.cancellation import CancellationToken
from stepscope.runtime.execute.pools import WorkerPool
from stepscope.runtime.execute.rendezvous import Rendezvous
from stepscope.runtime.execute.trace import clock
from stepscope.runtime.memory.run_memory import RunMemory
from stepscope.runtime.plan.plan import PlanStep

if TYPE_CHECKING:
    from stepscope.runtime.stage_trace import TracedStages

GRACE_S: Final = 0.25


class RunState:
    """What belongs to one run: its number, its stop signal, its tensors in transit.

    `memory` is set where somebody needs to know what the run allocates, `frame` while an inline run
    is under way on a worker: it is the frame of its program.
    """

    __slots__ = (
        "_wake", "cancellation", "closing", "cores", "frame", "memory", "rendezvous", "stages",
        "step_id", "watch",
    )  # fmt: skip

    def __init__(self, step_id: int, cancellation: CancellationToken | None = None) -> None:
        """`cancellation` is the stop signal where the run is part of another one."""
        self.frame: FrameType | None = None
        self._wake: Callable[[], None] | None = None
        self.closing = False
        self.cores = 1
        """How many threads an op may use by itself, where ops follow each other."""
        self.memory: RunMemory | None = None
        self.watch: Callable[[int, int, Any], None] | None = None
        self.step_id = step_id
        self.cancellation = CancellationToken() if cancellation is None else cancellation
        self.stages: TracedStages | None = None
        self.rendezvous = Rendezvous()

    def close(self, make_error: Callable[[], OpError]) -> None:
        """The session is being closed: stop, also if the run is only waiting to end by itself."""
        self.closing = True
        self.cancellation.cancel(make_error)
        if self._wake is not None:
            self._wake()


@dataclass(frozen=True, slots=True)
class Executing:
    """A step that a thread is in the middle of."""

    step: PlanStep
    thread: threading.Thread


class WorkerRun(Protocol):
    """A run on worker threads."""

    wake: threading.Event
    """Set when the run is finished, or told to stop."""
    finished: threading.Event
    abandoned: bool
    succeeded: bool
    stopped: list[PlanStep]
    """The steps that were woken by the stop signal and ended early."""

    @property
    def failure(self) -> StepFailed | None:
        """The first step that failed by itself: such a run ends by itself, too."""
        ...

    def executing(self) -> Sequence[Executing]:
        """The steps in flight right now."""
        ...

    def result(self) -> tuple[Any, ...]:
        """The fetched values of a finished run, or its error (`StepFailed`)."""
        ...


class StepFailed(Exception):  # noqa: N818 - carries an error out of a worker, is none itself
    """What went wrong, in which step (None: between steps), and what was in flight then."""

    def __init__(
        self, cause: BaseException, step: PlanStep | None, in_flight: InFlight | None = None
    ) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.step = step
        self.in_flight = in_flight
        self.is_pooled = False
        self.values: dict[str, Any] = {}
        """Where memory ran out: the values that were live, by the program's names for them."""
        self.others: tuple[InFlight, ...] = ()
        """What became of the ops that were in flight beside it, where the run did not wait."""
        if in_flight is None and step is not None:
            self.in_flight = InFlight(step.node.name, "failed")


def is_exhaustion(error: BaseException | None) -> bool:
    """Whether an exception says that memory ran out."""
    if isinstance(error, ResourceExhaustedError):
        return True
    return isinstance(error, MemoryError)


class StoppedBetween(Exception):  # noqa: N818 - a signal inside the inline executor
    """A program found between two steps that it has to stop, with this error."""

    def __init__(self, error: OpError, late_ns: int = 0) -> None:
        super().__init__(str(error))
        self.error = error
        self.late_ns = late_ns


class Interrupted(Exception):  # noqa: N818 - an outcome of waiting, not an error
    """The run was stopped before it was done.

    `outcomes` says what became of the ops in flight; `cause` is what hit the waiting thread
    (KeyboardInterrupt), or None where the run's own stop signal was the reason.
    """

    def __init__(self, outcomes: tuple[InFlight, ...], cause: BaseException | None) -> None:
        super().__init__("stopped")
        self.outcomes = outcomes
        self.cause = cause


def deadline_error(timeout_ms: int) -> Callable[[], DeadlineExceededError]:
    """What makes the error of a run whose time is up."""
    return lambda: DeadlineExceededError.without_op(
        f"Timed out waiting for notification (timeout of {timeout_ms} ms)"
    )


def wait_for(
    run: WorkerRun, state: RunState, pool: WorkerPool, deadline: int, timeout_ms: int
) -> tuple[Any, ...]:
    """The run's result; `StepFailed` if a step failed, `Interrupted` if it was stopped.

    `deadline` is a clock reading, 0 for none.
    """
    token = state.cancellation
    forget = token.on_cancel(run.wake.set)
    state._wake = run.wake.set
    try:
        while not run.finished.is_set():
            timeout = max(0.0, (deadline - clock()) / 1e9) if deadline else None
            if not run.wake.wait(timeout):
                token.cancel(deadline_error(timeout_ms))
                break
            if run.failure is None or state.closing:
                break
            run.wake.clear()
    except BaseException as interruption:  # noqa: BLE001 - goes on to the caller
        token.cancel(lambda: CancelledError.without_op("The waiting thread was interrupted"))
        raise Interrupted(_stop(run, pool), interruption) from None
    finally:
        forget()
    failure = run.failure
    if failure is not None and not run.finished.is_set():
        failure.others = _stop(run, pool)
    elif token.cancelled and failure is None and not _succeeded(run):
        raise Interrupted(_stop(run, pool), None)
    return run.result()


def _succeeded(run: WorkerRun) -> bool:
    return run.finished.is_set() and run.succeeded


def _stop(run: WorkerRun, pool: WorkerPool) -> tuple[InFlight, ...]:
    """The run was told to stop: wait for what can be woken, abandon the rest."""
    until = clock() + int(GRACE_S * 1e9)
    while any(e.step.kernel.blocking for e in run.executing()) and clock() < until:
        if run.finished.wait(0.001):
            break
    still: list[Executing] = []
    if not run.finished.is_set():
        run.abandoned = True
        still = list(run.executing())
    for e in still:
        pool.give_up_on(e.thread)
    woken = [InFlight(step.node.name, "cancelled") for step in run.stopped]
    return (*woken, *(InFlight(e.step.node.name, "abandoned") for e in still))
