"""What noting an eager op costs its caller, beside what is timed at the op itself (`called_ops`).

To time all of it would cost as much again: the way through our function in place of TensorFlow's,
the frames of Python's that TensorFlow walks at each op, being told that an output has gone. So it
is found out once in a process, by some ops called with and without notes: how much longer they take
than the notes say of themselves.
"""

from __future__ import annotations

import functools
import statistics
import threading
import time
from contextlib import suppress
from typing import Any, Final

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.called_ops import CalledOps

_OPS: Final = 30
_ROUNDS: Final = 17
_UNTRIED_NS: Final = 1000
"""Where a trial cannot be made, as at the end of a process: what it says on a usual machine."""


def noting_ns(called: CalledOps) -> int:
    """How much longer the calls of a run took because they were noted. Decodes nothing."""
    return called.spent_ns + called.count * _untimed_ns(called.outputs, called.held)


@functools.cache
def _untimed_ns(outputs: bool, held: bool) -> int:
    found: list[int] = []

    def attempt() -> None:
        # Of a process without memory, say: what is wrong with it is not for a measurement to tell.
        with suppress(Exception):
            found.append(_tried_ns(outputs=outputs, held=held))

    # On a thread of its own: it has none of the caller's tapes, devices, graphs and listeners.
    thread = threading.Thread(target=attempt, name="stepscope/noting cost")
    with suppress(RuntimeError):  # there are no more threads at the end of a process
        thread.start()
        thread.join()
    return found[0] if found else _UNTRIED_NS


def _tried_ns(*, outputs: bool, held: bool) -> int:
    plain, noted = [], []
    with versions.eagerly():
        x = versions.tensorflow().ones([2])
        for _ in range(_ROUNDS):
            plain.append(_took_ns(x))
            called = CalledOps(outputs=outputs, held=held)
            with called.noting():
                took = _took_ns(x)
            noted.append(took - called.spent_ns)
    # The medians: something else on the machine holds up a few, and the first make all ready.
    return max(0, round((statistics.median(noted) - statistics.median(plain)) / _OPS))


def _took_ns(x: Any) -> int:
    began = time.perf_counter_ns()
    y = x
    for _ in range(_OPS):
        y = y * x
    return time.perf_counter_ns() - began
