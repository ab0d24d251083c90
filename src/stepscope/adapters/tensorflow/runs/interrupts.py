"""Control-C while the main thread is inside a function.

Python's own handler runs when the thread is back in Python, which may be never: a function that
waits for a queue does not come back. So for the time of a run a thread of ours is told of the
signal as it comes, and cancels the function; then the handler runs, and raises `KeyboardInterrupt`.

Guarantees. Only where Python's own handler is in place: a program that deals with the signal itself
is left alone, and so is one whose signals somebody else (an event loop) is told of. Nothing of
other threads is cancelled. After the run signals are as they were.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stepscope.adapters.tensorflow.runs.cancelling import Cancelling

_MOST: Final = 64


class Interrupt:
    """Whether Control-C came during a run."""

    __slots__ = ("at_epoch",)

    def __init__(self) -> None:
        self.at_epoch = 0
        """When, in nanoseconds since 1970; 0 if it did not."""


class _Watch:
    """The thread that is told, and the run that is under way."""

    def __init__(self) -> None:
        self._told, self._tells = socket.socketpair()
        self._tells.setblocking(False)
        self._lock = threading.Lock()
        self._run: tuple[Cancelling, Interrupt] | None = None
        threading.Thread(target=self._wait, name="stepscope/control_c", daemon=True).start()

    def _wait(self) -> None:
        while True:
            numbers = self._told.recv(_MOST)
            if not numbers:
                return
            with self._lock:
                if signal.SIGINT in numbers and self._run is not None:
                    called, interrupt = self._run
                    interrupt.at_epoch = time.time_ns()
                    called.start_cancel()

    @contextmanager
    def over(self, called: Cancelling, interrupt: Interrupt) -> Iterator[None]:
        before = signal.set_wakeup_fd(self._tells.fileno(), warn_on_full_buffer=False)
        if before != -1:
            # Somebody else is told; a run inside another is cancelled with it.
            signal.set_wakeup_fd(before)
            yield
            return
        with self._lock:
            self._run = called, interrupt
        try:
            yield
        finally:
            with self._lock:
                self._run = None
            signal.set_wakeup_fd(-1)


_watch: _Watch | None = None


def _forget() -> None:
    global _watch
    _watch = None


os.register_at_fork(after_in_child=_forget)


def applies() -> bool:
    """Whether Control-C would end what this thread does now."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


@contextmanager
def cancelling_it(called: Cancelling) -> Iterator[Interrupt]:
    """While inside, Control-C cancels what this thread calls. For threads where it `applies`."""
    global _watch
    if _watch is None:
        _watch = _Watch()
    interrupt = Interrupt()
    with _watch.over(called, interrupt):
        yield interrupt
