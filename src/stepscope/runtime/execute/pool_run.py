"""What every execution on a pool has in common: who executes what, the first failure, the end.

State, guarded by the run's lock: `_active` (tasks submitted and not ended: the run is finished when
it falls to zero), `_failure` (the first; later ones are its consequences) and `_latest` (when the
last of the steps ended that are known to be over).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from stepscope.errors import CancelledError
from stepscope.runtime.execute.execution import Executing, RunState, StepFailed
from stepscope.runtime.memory.allocator import Allocator
from stepscope.runtime.plan.plan import Plan, PlanStep


class PoolRun:
    """One execution of a plan, as whoever waits for it sees it."""

    def __init__(
        self,
        plan: Plan,
        state: RunState,
        watched: frozenset[tuple[int, int]],
        allocator: Allocator | None,
    ) -> None:
        self._steps = plan.steps
        self._state = state
        self._watched = watched
        self._allocator = allocator
        self.abandoned = False
        self.succeeded = False
        self.stopped: list[PlanStep] = []
        self.wake = threading.Event()
        self.finished = threading.Event()
        self._lock = threading.Lock()
        self._active = 0
        self._latest = 0
        self._failure: StepFailed | None = None
        self._executing: dict[int, Executing] = {}
        self._live: tuple[Any, Any, Any] | None = None
        """Thread, start and end of each step, where that is to outlive the process."""

    @property
    def failure(self) -> StepFailed | None:
        return self._failure

    def executing(self) -> Sequence[Executing]:
        return list(self._executing.values())

    def _fail(self, error: BaseException, step: PlanStep) -> None:
        """Keep the first failure, and wake the steps that wait for what will now never come."""
        token = self._state.cancellation
        with self._lock:
            if token.cancelled:
                if self._failure is None:
                    self.stopped.append(step)
                return
            self._failure = self._failed(error, step)
        # The text now: an error that the token held would hold the run's values.
        text = f"Another op of the run failed: {error}"
        token.cancel(lambda: CancelledError.without_op(text))

    def _ready_at(self, ended: int) -> int:
        """With the lock held: when what the end of a step made ready was ready.

        A thread may be held up between a step's end and the lock. Another input of the same
        followers may have ended meanwhile, and they were not ready before that.
        """
        self._latest = max(self._latest, ended)
        return self._latest

    def _failed(self, error: BaseException, step: PlanStep) -> StepFailed:
        failed = StepFailed(error, step)
        failed.is_pooled = True
        return failed

    def _left(self) -> None:
        """A worker has nothing more to do for this run; the last one ends it."""
        with self._lock:
            self._active -= 1
            last = self._active == 0
        if last:
            self._finish()

    def _finish(self) -> None:
        """The run is over, well or not: say so to whoever waits."""
        self.succeeded = not self._state.cancellation.cancelled
        self.finished.set()
        self.wake.set()
