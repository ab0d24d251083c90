"""Python inside TensorFlow: functions timed where it does not, and annotations."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture import op_calls
from stepscope.adapters.tensorflow.capture.called_ops import CalledOps
from stepscope.adapters.tensorflow.capture.events import PYTHON_OP, SPAN
from stepscope.adapters.tensorflow.failures import raised_inside
from stepscope.metadata.xplane import escaped


class _Thread(threading.local):
    depth = 0


_thread = _Thread()


class _Timed:
    """While inside, eager `numpy_function`s of this thread leave a span: TensorFlow has none."""

    __slots__ = ()

    def __enter__(self) -> None:
        versions.wrap_eager_python_functions(_span_of)
        _thread.depth += 1

    def __exit__(self, *_exc: object) -> None:
        _thread.depth -= 1


timed: Final = _Timed()


def _span_of(function: Any) -> Any:
    """The span of a Python function called eagerly, or None where nobody is tracing."""
    if not _thread.depth:
        return None
    return _python_span(getattr(function, "__name__", "PyFunc"))


@contextmanager
def _python_span(name: str) -> Iterator[Callable[[Any], None]]:
    """The span of an eager Python op; what it raises is known to come out of it.

    Gives a function that takes what the op put out.
    """
    mine = op_calls.listener() or op_calls.Listener()
    if mine.cancelling is not None:
        mine.cancelling.begin(name)
    began = time.perf_counter_ns()
    found: list[Any] = []
    unseen = (
        nullcontext() if mine.notes else versions.trace_me(f"{PYTHON_OP}PyFunc:{escaped(name)}")
    )
    try:
        with unseen:
            yield found.append
    except BaseException as error:
        raised_inside(error, name)
        if mine.notes is not None:
            mine.notes.python(name, began, None, failed=True)
        raise
    if mine.notes is not None:
        mine.notes.python(name, began, found)
    if mine.look is not None:
        mine.look()


class PythonCalls:
    """The Python functions that ops of a run are inside of, seen without tracing it.

    A call that was under way before the run began is not its own. Nor is one by a node that is not
    among its nodes; but of two runs of the same nodes at once either may be meant.
    """

    def __init__(self) -> None:
        self._began = versions.python_calls.start()
        self._found: set[str] = set()

    def look(self) -> None:
        """Note the calls that are under way now."""
        self._found = versions.python_calls.since(self._began)

    def among(self, nodes: Iterable[Any]) -> list[str]:
        """The names of the nodes (NodeDefs) whose functions were under way at the last look."""
        if not self._found:
            return []
        return [
            node.name
            for node in nodes
            if "PyFunc" in node.op and node.attr["token"].s.decode() in self._found
        ]


class _NotedSpan:
    """A span on a thread whose calls are noted: nothing else is needed to see it."""

    def __init__(self, notes: CalledOps, name: str) -> None:
        self._notes = notes
        self._name = name

    def __enter__(self) -> None:
        self._began = time.perf_counter_ns()

    def __exit__(self, *_exc: object) -> None:
        self._notes.span(self._name, self._began)


class Annotation:
    """A span of the user's own: `with annotate("name"):`, or as a decorator. Spans nest."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spans: list[Any] = []

    def __enter__(self) -> Annotation:
        mine = op_calls.listener()
        if mine is not None and mine.notes is not None:
            span: Any = _NotedSpan(mine.notes, self._name)
        else:
            span = versions.trace_me(SPAN + escaped(self._name))
        span.__enter__()
        self._spans.append(span)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._spans.pop().__exit__(None, None, None)

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with Annotation(self._name):
                return function(*args, **kwargs)

        return annotated


def annotate(name: str) -> Annotation:
    """Mark a span of the run with a name; shown among the ops as an `Annotation`."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"annotate takes a name, found {name!r}.")
    return Annotation(name)
