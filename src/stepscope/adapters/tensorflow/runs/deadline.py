"""The deadline of a run that stays on its caller's thread: a function, or eager code.

Guarantees. When the time is up the function, or the waiting eager op, that the thread is in is
cancelled, and no other thread's; between two eager ops the run ends. What cannot be cancelled is
waited for. What was in flight is known without a trace, as far as Python can see it.
"""

from __future__ import annotations

import threading
import time
import weakref
from contextlib import ExitStack

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture import op_calls, python_ops
from stepscope.adapters.tensorflow.capture.capture import clock
from stepscope.adapters.tensorflow.failures import failing_nodes, new_error
from stepscope.adapters.tensorflow.runs import cancelling
from stepscope.metadata import InFlight

_FUNCTION = "__"
"""How the names of functions begin that Python has traced; op types are words."""


def timed_out(timeout_ms: int) -> Exception:
    """The error of a run whose time is up."""
    return new_error(
        "DeadlineExceededError", f"Timed out waiting for notification (timeout of {timeout_ms} ms)"
    )


class Deadline:
    """Use as a context manager around the run, on its thread."""

    def __init__(self, timeout_ms: int, *, eager: bool) -> None:
        """With `eager` the run is code whose ops are looked at one by one."""
        self._timeout_ms = timeout_ms
        self._eager = eager
        self._raised: weakref.ref[Exception] | None = None
        """What was raised between two eager ops. Its frames have this object in them."""
        self.at = clock() + timeout_ms * 1_000_000
        self.at_epoch = time.time_ns() + timeout_ms * 1_000_000
        self.passed = False
        """Whether the run ended because its time was up."""
        self._stack = ExitStack()
        self._fired = threading.Event()
        self._cancelled = False
        """Whether TensorFlow cancelled something, and the nodes that it named then."""
        self._cancelled_nodes: list[str] = []
        self._late_ns = 0

    def __enter__(self) -> Deadline:
        self._python = python_ops.PythonCalls()
        self.called = self._stack.enter_context(cancelling.cancellable())
        if self._eager:
            self._stack.enter_context(python_ops.timed)
            self._stack.enter_context(op_calls.listening(look=self._look))
        self._timer = threading.Timer(self._timeout_ms / 1000, self._fire)
        self._timer.name = "stepscope/deadline"
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._timer.cancel()
        del self._timer  # it calls this object, and would be one cycle with it
        self._stack.__exit__(None, None, None)

    def _fire(self) -> None:
        self._python.look()
        self._fired.set()
        self.called.start_cancel()

    def _look(self) -> None:
        """After each eager op: raises when the time is up."""
        if clock() > self.at and self._raised is None:
            error = timed_out(self._timeout_ms)
            self._raised = weakref.ref(error)
            try:
                raise error
            finally:
                del error

    def ended(self, raised: BaseException | None) -> BaseException | None:
        """The run has ended, with this error or none: how it is to end for its caller."""
        self._late_ns = clock() - self.at
        if self._late_ns < 0 or (raised is not None and not self._caused(raised)):
            return raised
        self.passed = True
        if isinstance(raised, versions.tensorflow().errors.CancelledError):
            self._cancelled, self._cancelled_nodes = True, failing_nodes(raised)[:1]
        return raised if self._is_ours(raised) else timed_out(self._timeout_ms)

    def _caused(self, error: BaseException) -> bool:
        """Whether an error is what being out of time looks like from inside."""
        if self._is_ours(error):
            return True
        cancelled = versions.tensorflow().errors.CancelledError
        return self._fired.is_set() and isinstance(error, cancelled)

    def _is_ours(self, error: BaseException | None) -> bool:
        return error is not None and self._raised is not None and error is self._raised()

    # -- what was in flight --------------------------------------------------------------------

    @property
    def between_ops(self) -> bool:
        """Whether the thread was in no op of TensorFlow's when the time was up."""
        return not self.called.op or self.called.began_ns > self.at

    def eager_outcome(self) -> tuple[InFlight, ...]:
        """The eager op that was in flight when the time was up, if it was one."""
        op = self.called.op
        if self.between_ops or op.startswith(_FUNCTION):
            return ()
        waited = ("cancelled", 0) if self._cancelled else ("waited_for", self._late_ns)
        return (InFlight(op, *waited),)

    def function_outcomes(self) -> tuple[InFlight, ...]:
        """Of a function that nobody traced: the Python ops it was in, or what was cancelled."""
        if self.between_ops:
            return ()
        inside = self._python.among(versions.function_nodes(self.called.op))
        if inside:
            return tuple(InFlight(name, "waited_for", self._late_ns) for name in inside)
        return tuple(InFlight(name, "cancelled") for name in self._cancelled_nodes)
