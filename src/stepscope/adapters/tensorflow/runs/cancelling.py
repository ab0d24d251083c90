"""Ending what a thread calls on TensorFlow, and knowing what it called.

TensorFlow can cancel functions, through a manager that is one for the whole process; eager ops it
cannot. Inside `cancellable()` the manager is the thread's own, ops that wait take it as well, and
the last call is noted. This is the other file, beside `versions`, that reaches into TensorFlow.

Guarantees. Cancelling ends what the thread of the block is calling, and nothing of other threads.
When the last thread has left its block TensorFlow is as it was, but for a look-up per function
call.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_WAITING: Final = re.compile(
    r"(Queue|Reader|Barrier|Stage|Unstage|Map(Uns|S)tage|OrderedMap|Mutex|Collective|_?Recv)\w*"
    r"|\w*Iterator\w*GetNext\w*|\w*AccumulatorTakeGradient"
)
"""The types of ops that wait for what another run does."""
_FINALIZES: Final = re.compile(r"(Delete|Destroy)\w+")
"""The types of ops that Python calls when it collects an object, in the middle of anything."""
_patch_lock = threading.Lock()
_patched = False


class Cancelling:
    """What one thread calls inside `cancellable()`, and how to end it."""

    __slots__ = ("began_ns", "manager", "op")

    def __init__(self, manager: Any) -> None:
        self.manager = manager
        self.op = ""
        """The eager op, or the function, that the thread called last."""
        self.began_ns = 0
        """When, on the clock of `time.perf_counter_ns`."""

    def begin(self, op: str) -> None:
        if not finalizes(op):
            self.op, self.began_ns = op, time.perf_counter_ns()

    @property
    def cancelled(self) -> bool:
        """Whether it ends all that is called with it; TensorFlow does that when one fails."""
        return bool(self.manager.is_cancelled)

    def start_cancel(self) -> None:
        """From any thread: the function or the waiting op that it is in ends."""
        self.manager.start_cancel()


class _Here(threading.local):
    cancelling: Cancelling | None = None


_here = _Here()


def here() -> Cancelling | None:
    """What the innermost `cancellable()` of this thread gave."""
    return _here.cancelling


def _patch_cancellation() -> None:
    """Make TensorFlow's cancellation context one of the thread, not of the whole process."""
    global _patched
    from tensorflow.python.eager import cancellation

    with _patch_lock:
        if _patched:
            return
        original = cancellation.context

        def context() -> Any:
            mine = _here.cancelling
            return mine.manager if mine is not None else original()

        cancellation.context = context
        _patched = True


def new() -> Cancelling:
    """What ends the functions of the thread that has it with `use`, once TensorFlow asks us."""
    from tensorflow.python.eager import cancellation

    _patch_cancellation()
    return Cancelling(cancellation.CancellationManager())


def use(made: Cancelling | None) -> Cancelling | None:
    """Have functions that this thread calls from now on end by it; gives what it was before.

    Eager ops do not, nor is it noted what is called: that is what `cancellable` does.
    """
    previous, _here.cancelling = _here.cancelling, made
    return previous


@contextmanager
def cancellable() -> Iterator[Cancelling]:
    """Functions and waiting eager ops of this thread inside end when `start_cancel()` is called."""
    made = new()
    previous = use(made)
    try:
        with _cancelling_calls:
            yield made
    finally:
        use(previous)


def may_wait(op_type: str) -> bool:
    """Whether an op of this type can wait for something that another run does."""
    return _WAITING.fullmatch(op_type) is not None


def finalizes(op_type: str) -> bool:
    """Whether an op of this type may be called by no code of the program, but for it."""
    return _FINALIZES.fullmatch(op_type) is not None


class _CancellingCalls:
    """While any thread is inside, TensorFlow's three ways to call an op or a function are ours.

    They note what a `cancellable()` thread calls, and hand its manager to ops that wait: the fast
    way for eager ops takes none, so such an op is sent on to the slow one.
    """

    _NAMES: Final = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")

    def __init__(self) -> None:
        self._inside = 0
        self._originals: list[Any] = []

    def __enter__(self) -> None:
        from tensorflow.python import pywrap_tfe as calls

        with _patch_lock:
            self._inside += 1
            if self._inside == 1:
                self._originals = [getattr(calls, name) for name in self._NAMES]
                for name, ours in zip(self._NAMES, self._ours(*self._originals), strict=True):
                    setattr(calls, name, ours)

    def __exit__(self, *_exc: object) -> None:
        from tensorflow.python import pywrap_tfe as calls

        with _patch_lock:
            self._inside -= 1
            if self._inside == 0:
                for name, original in zip(self._NAMES, self._originals, strict=True):
                    setattr(calls, name, original)

    @staticmethod
    def _ours(fast: Any, slow: Any, cancelable: Any) -> tuple[Any, Any, Any]:
        from tensorflow.python.eager import core

        def call_fast(context: Any, op: str, *args: Any) -> Any:
            mine = _here.cancelling
            if mine is not None:
                if may_wait(op):
                    raise core._FallbackException("only the slow way takes a manager")
                mine.begin(op)
            return fast(context, op, *args)

        def call_slow(
            context: Any, device: Any, op: Any, inputs: Any, attrs: Any, outputs: Any
        ) -> Any:
            mine = _here.cancelling
            if mine is None:
                return slow(context, device, op, inputs, attrs, outputs)
            mine.begin(_text(op))
            if not may_wait(mine.op):
                return slow(context, device, op, inputs, attrs, outputs)
            manager = mine.manager._impl
            return cancelable(context, device, op, inputs, attrs, manager, outputs)

        def call_cancelable(context: Any, device: Any, op: Any, *args: Any) -> Any:
            mine = _here.cancelling
            if mine is not None:
                mine.begin(_text(op))
            return cancelable(context, device, op, *args)

        return call_fast, call_slow, call_cancelable


_cancelling_calls = _CancellingCalls()


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
