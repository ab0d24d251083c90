"""The default graph and the default session of each thread.

Both are stacks of the calling thread. The graph stack bottoms out in one process-wide default
graph; the session stack bottoms out in nothing (or in an `InteractiveSession`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.graph.graph import Graph


class _Stacks(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.sessions: list[Any] = []


_stacks = _Stacks()
_global_graph: Graph | None = None
_global_lock = threading.Lock()


def get_default_graph() -> Graph:
    """The innermost `with graph.as_default()` of this thread, else the process-wide graph."""
    if _stacks.graphs:
        return _stacks.graphs[-1]
    global _global_graph
    with _global_lock:
        if _global_graph is None:
            from stepscope.graph.graph import Graph

            _global_graph = Graph()
        return _global_graph


def reset_default_graph() -> None:
    """Start over with an empty process-wide graph. Not inside `with graph.as_default()`."""
    if _stacks.graphs:
        raise AssertionError(
            "Do not use reset_default_graph() to clear nested graphs. "
            "Leave the `with graph.as_default()` block first."
        )
    global _global_graph
    with _global_lock:
        _global_graph = None


@contextmanager
def graph_as_default(graph: Graph) -> Iterator[Graph]:
    _stacks.graphs.append(graph)
    try:
        yield graph
    finally:
        _stacks.graphs.remove(graph)


def get_default_session() -> Any:
    """The innermost default session of this thread, or None."""
    return _stacks.sessions[-1] if _stacks.sessions else None


def push_session(session: Any) -> None:
    _stacks.sessions.append(session)


def pop_session(session: Any) -> None:
    """Remove the innermost entry of this session."""
    for i in range(len(_stacks.sessions) - 1, -1, -1):
        if _stacks.sessions[i] is session:
            del _stacks.sessions[i]
            return
