"""Telling a run to stop.

Guarantees. A token is cancelled at most once: the first reason stands. Callbacks run once, on the
thread that cancels, outside the token's lock; one registered after the fact runs at once. Whoever
waits inside an op registers a callback that wakes it, and then asks `raise_if_cancelled` why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from stepscope.errors import OpError


class CancellationToken:
    """One run's stop signal."""

    __slots__ = ("_callbacks", "_lock", "_make_error", "_next", "cancelled")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0
        self._make_error: Callable[[], OpError] | None = None
        self.cancelled = False

    def cancel(self, make_error: Callable[[], OpError]) -> bool:
        """Stop the run with the error that `make_error` makes; False if it was stopped before."""
        with self._lock:
            if self.cancelled:
                return False
            self._make_error = make_error
            self.cancelled = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()
        return True

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise self.error()

    def error(self) -> OpError:
        """A fresh error of the reason given to `cancel`."""
        assert self._make_error is not None
        return self._make_error()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when the run is cancelled; returns what unregisters the callback."""
        with self._lock:
            if not self.cancelled:
                key = self._next
                self._next += 1
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)
