"""Watching every run of the process, for `stepscope run`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from stepscope.graph.graph import Graph
from stepscope.metadata import RunMetadata

Callback: TypeAlias = Callable[[RunMetadata, Graph], None]


@dataclass(frozen=True, slots=True)
class Observer:
    """Who wants each run's metadata and graph, and at what trace level at least."""

    callback: Callback
    trace_level: int


_lock = threading.Lock()
current: tuple[Observer, ...] = ()
"""The observers in force. Replaced whole, so that a run reads it once without a lock."""


@contextmanager
def recording(callback: Callback, trace_level: int) -> Iterator[None]:
    """While active, every run is traced at least at this level and handed over: its metadata
    and its session's graph.

    Failed runs too. The callback runs on the thread of the run, after the run.
    """
    global current
    observer = Observer(callback, trace_level)
    with _lock:
        current = (*current, observer)
    try:
        yield
    finally:
        _drop(observer)


def show(observer: Observer, metadata: RunMetadata, graph: Graph) -> None:
    """Hand a run to an observer; one that raises is dropped with a warning, the run goes on."""
    try:
        observer.callback(metadata, graph)
    except Exception as error:  # noqa: BLE001 - whatever an observer does is not the run's fault
        _drop(observer)
        warnings.warn(
            f"An observer of runs raised {type(error).__name__}: {error}; it sees no more runs.",
            RuntimeWarning,
            stacklevel=2,
        )


def _drop(observer: Observer) -> None:
    global current
    with _lock:
        current = tuple(o for o in current if o is not observer)
