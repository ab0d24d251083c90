"""Ending what a thread calls on TensorFlow, and knowing what it called.

TensorFlow can cancel functions, through a manager that is one for the whole process; eager ops it
cannot. Inside `cancellable()` the manager is the thread's own, ops that wait take it as well, and
the last call is noted. This file, too, reaches into TensorFlow.

Guarantees. Cancelling ends what the thread of the block is calling, and nothing of other threads.
When the last thread has left its block TensorFlow is as it was, but for a look-up per function
call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stepscope.adapters.tensorflow.capture import op_calls

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
        if not op_calls.finalizes(op):
            self.op, self.began_ns = op, time.perf_counter_ns()

    def start_cancel(self) -> None:
        """From any thread: the function or the waiting op that it is in ends."""
        self.manager.start_cancel()


def _patch_cancellation() -> None:
    """Make TensorFlow's cancellation context one of the thread, not of the whole process."""
    global _patched
    from tensorflow.python.eager import cancellation

    with _patch_lock:
        if _patched:
            return
        original = cancellation.context

        def context() -> Any:
            mine = op_calls.listener()
            if mine is None or mine.cancelling is None:
                return original()
            return mine.cancelling.manager

        cancellation.context = context
        _patched = True


def new() -> Cancelling:
    """What ends functions, those of a thread that it listens to (`op_calls`)."""
    from tensorflow.python.eager import cancellation

    _patch_cancellation()
    return Cancelling(cancellation.CancellationManager())


@contextmanager
def cancellable() -> Iterator[Cancelling]:
    """Functions and waiting eager ops of this thread inside end when `start_cancel()` is called."""
    made = new()
    with op_calls.listening(cancelling=made):
        yield made
