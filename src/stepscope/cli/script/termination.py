"""SIGTERM while a script is recorded: what was recorded is written, then the process dies of it.

Guarantees:

- only where the signal would have ended the process: a script that handles it, or ignores it, does
  so as without us, whenever it says so. Until then the handler in place is equal (`==`) to SIG_DFL;
- the process dies by the signal itself, and soon. The main thread writes, between two steps of the
  script's, as a handler of its own would: TensorFlow's recorder hands over on the main thread only.
  Where it executes no Python for a second, being busy in native code, a thread of ours writes what
  it can; that is woken by the C half of Python's handler (`signal.set_wakeup_fd`). Where the main
  thread holds what the writing needs, or an op that never ends does, the process dies all the
  same: 20 seconds after the signal, 5 where the main thread was busy;
- `threading` does not know the thread, so that a script sees the threads it has without us;
- a fork of the process has the default action again from the first moment.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

_BUSY_S: Final = 1.0
"""How long the main thread has to begin."""
_WRITING_S: Final = 20.0
_WRITING_BESIDE_S: Final = 5.0
_HIGH: Final = 200
"""Where our file descriptors begin: those of the script have the numbers they have without us."""


class Termination:
    """In place from `install` on; `write` is called once, on the main thread or one of ours."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._handler = _Handler(self._came)
        self._reading = self._writing = -1
        self._masks = threading.local()
        self._begun = _thread.allocate_lock()
        self._beside = False
        """Whether a thread of ours writes, because the main thread is busy."""
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def install(self) -> None:
        """Take the place of the default action; nothing where there is another. Main thread."""
        if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return
        low = os.pipe()
        self._reading, self._writing = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in low)
        for fd in low:
            os.close(fd)
        os.set_blocking(self._writing, False)
        os.register_at_fork(
            before=self._block, after_in_parent=self._unblock, after_in_child=self._forget
        )
        _thread.start_new_thread(self._watch, ())
        signal.signal(signal.SIGTERM, self._handler)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def _came(self) -> None:
        """The signal came, and the main thread executes Python."""
        # Python has done so already, unless a script (an event loop) is told of signals instead.
        with contextlib.suppress(OSError):
            os.write(self._writing, bytes([signal.SIGTERM]))
        if self._begun.acquire(blocking=False):
            self._write_all()
            _die()
        elif self._beside:
            time.sleep(_WRITING_BESIDE_S)

    def _watch(self) -> None:
        while came := os.read(self._reading, 64):
            if signal.SIGTERM in came and signal.getsignal(signal.SIGTERM) is self._handler:
                break
        else:
            return
        if not self._done.acquire(timeout=_BUSY_S):
            self._beside = self._begun.acquire(blocking=False)
            if self._beside:
                _thread.start_new_thread(self._write_all, ())
            self._done.acquire(timeout=_WRITING_BESIDE_S if self._beside else _WRITING_S)
        _die()

    def _write_all(self) -> None:
        # Whatever goes wrong, the process dies: what could be written is there.
        with contextlib.suppress(BaseException):
            self._write()
        self._done.release()

    def _block(self) -> None:
        """A signal for a fork must not wake the thread of this process."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _forget(self) -> None:
        if self._reading >= 0:
            if signal.getsignal(signal.SIGTERM) is self._handler:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            told = signal.set_wakeup_fd(-1)
            if told != self._writing:
                signal.set_wakeup_fd(told)
            for fd in (self._reading, self._writing):
                with contextlib.suppress(OSError):
                    os.close(fd)
            self._reading = self._writing = -1
        self._unblock()


def _die() -> None:
    # `signal.signal` is for the main thread, which may be busy for ever.
    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
    os.kill(os.getpid(), signal.SIGTERM)


class _Handler:
    """What Python calls, on the main thread, as soon as that executes Python."""

    def __init__(self, came: Callable[[], None]) -> None:
        self._came = came

    def __call__(self, number: int, frame: object) -> None:
        del number, frame
        self._came()

    def __eq__(self, other: object) -> bool:
        return other is self or other == signal.SIG_DFL

    # Not SIG_DFL's: `signal.getsignal` would find that in its place, and a script that puts back
    # what was there before would put that.
    __hash__ = object.__hash__
