"""Python inside TensorFlow: functions timed where it does not, eager outputs, annotations."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.events import PYTHON_OP, SPAN
from stepscope.adapters.tensorflow.capture.source_lines import EagerSources
from stepscope.adapters.tensorflow.capture.steps import Described
from stepscope.adapters.tensorflow.failures import raised_inside
from stepscope.adapters.tensorflow.runs import cancelling
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


@contextmanager
def between_eager_ops(look: Callable[[], None]) -> Iterator[None]:
    """While inside, call this after each eager op of this thread, Python functions too.

    It may raise.
    """
    outer = getattr(_thread, "look", None)
    _thread.look = look

    def after(op_type: str, _outputs: Any) -> None:
        if not cancelling.finalizes(op_type):
            look()

    try:
        with timed, versions.op_callback(after):
            yield
    finally:
        _thread.look = outer


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
    called = cancelling.here()
    if called is not None:
        called.begin(name)
    with versions.trace_me(f"{PYTHON_OP}PyFunc:{escaped(name)}"):
        try:
            yield getattr(_thread, "note_python", _ignore)
        except BaseException as error:
            raised_inside(error, name)
            raise
    look = getattr(_thread, "look", None)
    if look is not None:
        look()


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


def _ignore(_outputs: Any) -> None:
    pass


@contextmanager
def describing(outputs: list[tuple[str, list[Described]]], sources: EagerSources) -> Iterator[None]:
    """While inside, note type, shape and bytes of what each eager op of this thread puts out, and
    the line that called it.
    """

    def note(op_type: str, found: Sequence[Any]) -> None:
        outputs.append((op_type, [_describe(tensor) for tensor in found]))
        sources.note(op_type)

    def note_python(found: Any) -> None:
        tensors = found if isinstance(found, (list, tuple)) else [found]
        note("PyFunc", [tensor for tensor in tensors if hasattr(tensor, "dtype")])

    outer = getattr(_thread, "note_python", _ignore)
    _thread.note_python = note_python
    try:
        with versions.op_callback(note):
            yield
    finally:
        _thread.note_python = outer


def _describe(tensor: Any) -> Described:
    axes = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
    shape = tuple(-1 if axis is None else axis for axis in axes)
    size = 0 if -1 in shape else math.prod(shape) * tensor.dtype.size
    return tensor.dtype.as_datatype_enum, shape, size


class Annotation:
    """A span of the user's own: `with annotate("name"):`, or as a decorator. Spans nest."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spans: list[Any] = []

    def __enter__(self) -> Annotation:
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
