"""Named spans of the user's own inside a run of the embedded engine.

A traced run gives each thread that executes its ops a list to note spans in; a span on a thread
without one costs a look at a thread-local and is not recorded. A run inside a run (a Python op that
calls `Session.run`) notes its own, then the outer one goes on.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Note", "Span", "noting"]

F = TypeVar("F", bound=Callable[..., Any])

Note = tuple[str, int, int, int]
"""A span's name, its beginning and end by `time.perf_counter_ns`, and its thread's number."""


class _Here(threading.local):
    notes: list[Note] | None = None


_here = _Here()


class noting:  # noqa: N801 - reads as a statement
    """While the block lasts, spans on this thread are noted in the list (None: nowhere)."""

    __slots__ = ("_notes", "_outer")

    def __init__(self, notes: list[Note] | None) -> None:
        self._notes = notes

    def __enter__(self) -> None:
        self._outer = _here.notes
        _here.notes = self._notes

    def __exit__(self, *_error: object) -> None:
        _here.notes = self._outer


class Span:
    """`with Span("name"):`, or as a decorator. Spans nest; one object may be entered again."""

    __slots__ = ("_begun", "_name")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"annotate takes a name, found {name!r}.")
        self._name = name
        self._begun: list[int] = []

    def __enter__(self) -> Span:
        self._begun.append(time.perf_counter_ns())
        return self

    def __exit__(self, *_error: object) -> None:
        begun = self._begun.pop()
        if _here.notes is not None:
            ended = time.perf_counter_ns()
            _here.notes.append((self._name, begun, ended, threading.get_native_id()))

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def annotated(*args: Any, **keywords: Any) -> Any:
            # A fresh one: the function may run on several threads at once.
            with type(self)(self._name):
                return function(*args, **keywords)

        return annotated  # type: ignore[return-value]
