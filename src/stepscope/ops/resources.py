"""What outlives a run in a session: variables, queues, random streams, and what custom ops keep.

A `ResourceStore` belongs to one session. Objects are found by kind and name and made on first
use, under one lock, so that two runs that start together share one object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")


class Cancellation(Protocol):
    """How a run is told to stop; see `stepscope.runtime.cancellation`."""

    @property
    def cancelled(self) -> bool: ...

    def raise_if_cancelled(self) -> None:
        """Raise the error the run ends with (CancelledError, DeadlineExceededError)."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the run is cancelled (at once if it is already).

        Returns what unregisters it.
        """
        ...


class RunContext(Protocol):
    """What a kernel with `context=True` gets as its first argument."""

    @property
    def step_id(self) -> int: ...

    @property
    def cancellation(self) -> Cancellation: ...

    @property
    def rendezvous(self) -> Any: ...


class ResourceStore:
    """The named objects of one session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], Any] = {}

    def get_or_create(self, kind: str, name: str, make: Callable[[], T]) -> T:
        """The object of that kind and name, made by `make` if there is none yet."""
        key = (kind, name)
        with self._lock:
            if key not in self._objects:
                self._objects[key] = make()
            return cast("T", self._objects[key])

    def of_kind(self, kind: str) -> dict[str, Any]:
        """All objects of a kind, by name."""
        with self._lock:
            return {name: obj for (k, name), obj in self._objects.items() if k == kind}
