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
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from stepscope.adapters.tensorflow.capture import op_calls
from stepscope.adapters.tensorflow.runs import cancelling
from stepscope.adapters.tensorflow.runs.cancelling import Cancelling

_MOST: Final = 64
# `signal.getsignal` looks for an enum of what it found, which takes longer than all else here.
_getsignal: Final[Any] = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
_SIGINT: Final = int(signal.SIGINT)
_main_thread: Final = threading.main_thread()


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
        self._number = self._tells.fileno()
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

    def begin(self, called: Cancelling, interrupt: Interrupt) -> bool:
        """Watch over a run; where somebody else is told it is False, and no `end` is to follow."""
        before = signal.set_wakeup_fd(self._number, warn_on_full_buffer=False)
        if before != -1:
            # A run inside another is cancelled with it.
            signal.set_wakeup_fd(before)
            return False
        with self._lock:
            self._run = called, interrupt
        return True

    def end(self) -> None:
        with self._lock:
            self._run = None
        signal.set_wakeup_fd(-1)


class _Kept:
    """What a function can be cancelled by; if it was not, it does for the next."""

    __slots__ = ("alone", "called", "interrupt")

    def __init__(self, called: Cancelling) -> None:
        self.called = called
        self.interrupt = Interrupt()
        self.alone = op_calls.Listener(called)
        """Listens for nothing but that."""


_watch: _Watch | None = None
_kept: _Kept | None = None
"""Free for the next function."""


def _forget() -> None:
    global _watch, _kept
    _watch = _kept = None


os.register_at_fork(after_in_child=_forget)


def applies() -> bool:
    """Whether Control-C would end what this thread does now."""
    return (
        threading.get_ident() == _main_thread.ident
        and _getsignal(_SIGINT) is signal.default_int_handler
    )


@contextmanager
def cancelling_it(called: Cancelling) -> Iterator[Interrupt]:
    """While inside, Control-C cancels what this thread calls. For threads where it `applies`."""
    interrupt = Interrupt()
    watch = _watching()
    watched = watch.begin(called, interrupt)
    try:
        yield interrupt
    finally:
        if watched:
            watch.end()


class cancelling_function:  # noqa: N801 - a context manager, entered by every call of a function
    """While inside, Control-C cancels the function that this thread calls, at the least cost.

    For threads where it `applies`, and where no eager op is called: those are not cancelled. Gives
    the interrupt, which says afterwards whether it came.
    """

    __slots__ = ("_kept", "_outer", "_watch")

    def __enter__(self) -> Interrupt:
        global _kept
        watch = _watch or _watching()
        kept = self._kept = _kept or _Kept(cancelling.new())
        # One that is inside another's call has a manager of its own, should it be called at all.
        _kept = None
        self._watch = watch if watch.begin(kept.called, kept.interrupt) else None
        if self._watch is not None:
            outer = self._outer = op_calls.listener()
            op_calls.use(kept.alone if outer is None else outer._replace(cancelling=kept.called))
        return kept.interrupt

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        global _kept
        if self._watch is not None:
            op_calls.use(self._outer)
            self._watch.end()
        # TensorFlow cancels all that is called with a manager when one of its functions fails.
        if kind is None and not self._kept.interrupt.at_epoch:
            _kept = self._kept


def _watching() -> _Watch:
    global _watch
    if _watch is None:
        _watch = _Watch()
    return _watch
