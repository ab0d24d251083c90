"""`Coordinator`: threads of a program that stop together, and tell of errors in one place.

Guarantees. Any thread may call any method. The first error that is reported is the one that `join`
raises; what comes after it is logged by those who report it, not kept. After `request_stop` nothing
waits: `should_stop` is true, and `wait_for_stop` returns.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeAlias

from stepscope.errors import OutOfRangeError
from stepscope.programs import log

ErrorInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class Coordinator:
    """Has threads stop together.

    A thread works until `should_stop()`, and asks all others to stop with `request_stop()`, giving
    the error that made it do so. `join()` waits for all and raises that error.
    """

    def __init__(
        self, clean_stop_exception_types: Sequence[type[BaseException]] | None = None
    ) -> None:
        """Errors of the given types (the end of the input by default) are no errors."""
        clean = clean_stop_exception_types
        self._clean = (OutOfRangeError,) if clean is None else tuple(clean)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._threads: set[threading.Thread] = set()

    @property
    def joined(self) -> bool:
        return self._joined

    def register_thread(self, thread: threading.Thread) -> None:
        """Have `join` wait for this thread."""
        with self._lock:
            self._threads.add(thread)

    def request_stop(self, ex: BaseException | ErrorInfo | None = None) -> None:
        """Ask all threads to stop; `ex` is the error that `join` is to raise, or its `exc_info`.

        After `join` there is nobody left to tell: then the error is raised here.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        if isinstance(error, self._clean):
            error = None
        with self._lock:
            if self._joined and error is not None:
                raise error
            if not self._stop.is_set():
                if error is not None:
                    log.info("Error reported to Coordinator: %s, %s", type(error), error)
                    self._error = error
                self._stop.set()

    def clear_stop(self) -> None:
        """Be as new: nobody has asked to stop, and no error was reported."""
        with self._lock:
            self._joined = False
            self._error = None
            self._stop.clear()

    def should_stop(self) -> bool:
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until somebody asks to stop; False if that did not happen within `timeout` s."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """A block whose error stops all threads, and is not raised here but by `join`."""
        try:
            yield
        except BaseException:  # noqa: BLE001 - `join` raises it
            self.request_stop(sys.exc_info())

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for the registered and the given threads; raise the error that was reported.

        Once a stop was requested threads have `stop_grace_period_secs` left. If one still lives
        then, that is a RuntimeError that names it, unless `ignore_live_threads`.
        """
        with self._lock:
            waited = self._threads | set(threads or ())
        while not self._stop.is_set() and any(t.is_alive() for t in waited):
            self._stop.wait(0.05)
        end = time.monotonic() + stop_grace_period_secs
        for thread in waited:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))
        alive = " ".join(sorted(t.name for t in waited if t.is_alive()))
        with self._lock:
            self._joined = True
            self._threads = set()
            if self._error is not None:
                raise self._error
        if alive and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {alive}")
        if alive:
            log.info("Coordinator stopped with threads still running: %s", alive)

    def raise_requested_exception(self) -> None:
        """Raise the error that was reported, if there is one."""
        with self._lock:
            if self._error is not None:
                raise self._error


class LooperThread(threading.Thread):
    """A thread that calls something again and again until its coordinator stops."""

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Call `target` every so many seconds, or without a pause if that is None."""
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord!r}")
        super().__init__(daemon=True)
        self._coord = coord
        self._interval = timer_interval_secs
        self._call = target
        self._arguments = (tuple(args or ()), dict(kwargs or {}))
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> LooperThread:
        """Make such a thread and start it."""
        thread = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        thread.start()
        return thread

    def run(self) -> None:
        with self._coord.stop_on_exception():
            self.start_loop()
            due = time.monotonic()
            while not self._coord.should_stop():
                self.run_loop()
                if self._interval is not None:
                    due += self._interval
                    self._coord.wait_for_stop(max(0.0, due - time.monotonic()))
            self.stop_loop()

    def start_loop(self) -> None:
        """Called before the first call."""

    def stop_loop(self) -> None:
        """Called after the last call."""

    def run_loop(self) -> None:
        """One call."""
        if self._call is not None:
            args, kwargs = self._arguments
            self._call(*args, **kwargs)
