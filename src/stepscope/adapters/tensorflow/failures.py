"""Errors that are TensorFlow's and ours at once, with the run's metadata on them."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Any

from stepscope import errors
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.graphs import runs_python
from stepscope.metadata import InFlight, Loss, Status

_lock = threading.Lock()
_both: dict[type, type] = {}
_NODE = re.compile(r"\{\{node ([^}]+)\}\}|Node: '([^']+)'|\[\[([\w/.-]+)\]\]")
_EAGER_OP = re.compile(r"\[Op:(?!__)([^\]]+)\]")
_PYTHON_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    ((ValueError, TypeError), "INVALID_ARGUMENT"),
    (StopIteration, "OUT_OF_RANGE"),
    (MemoryError, "RESOURCE_EXHAUSTED"),
    (NotImplementedError, "UNIMPLEMENTED"),
)
"""What TensorFlow makes of what a Python function raises; eager code raises it as it is."""

_STOPPED = (errors.CANCELLED, errors.DEADLINE_EXCEEDED)
"""The codes of runs that were ended from outside."""


class _AlsoTensorFlows(type):
    """The type of a class that is TensorFlow's and ours: it equals TensorFlow's own.

    A monitored session asks whether what ended it is one of a list of classes.
    """

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.__mro__[1]

    def __hash__(cls) -> int:
        return hash(cls.__mro__[1])


def both_classes(error: BaseException) -> None:
    """Make a TensorFlow error an instance of our class of the same name, too."""
    kind = type(error)
    ours = getattr(errors, kind.__name__, None)
    if ours is None or not isinstance(error, versions.tensorflow().errors.OpError):
        return
    if issubclass(kind, errors.OpError):
        return
    with _lock:
        if kind not in _both:
            _both[kind] = _AlsoTensorFlows(
                kind.__name__, (kind, ours), {"run_metadata": None, "__reduce__": _reduce}
            )
    error.__class__ = _both[kind]


def _reduce(error: Any) -> tuple[Any, ...]:
    """For pickling: these classes are made at run time and have no name to be found under."""
    return _again, (type(error).__name__, error.message, error.run_metadata)


def _again(name: str, message: str, run_metadata: Any) -> Exception:
    error: Any = new_error(name, message)
    error.run_metadata = run_metadata
    return error  # type: ignore[no-any-return]


def new_error(name: str, message: str) -> Exception:
    """A TensorFlow error of that class, ours as well."""
    error: Exception = getattr(versions.tensorflow().errors, name)(None, None, message)
    both_classes(error)
    return error


def raised_inside(error: BaseException, op: str) -> None:
    """Note the eager Python op that an error came out of: TensorFlow hides the frames that tell."""
    if not hasattr(error, "_stepscope_op"):
        error._stepscope_op = op  # type: ignore[attr-defined]


def failing_eager_op(error: BaseException | None) -> str:
    """The eager op an error came out of, as its execution is named; "" for none."""
    noted: str = getattr(error, "_stepscope_op", "")
    found = _EAGER_OP.search(str(getattr(error, "message", "")))
    return noted or (found[1] if found else "")


def failing_nodes(error: BaseException) -> list[str]:
    """The nodes an error names, in order; of eager code, the op."""
    text = str(getattr(error, "message", error))
    names = [next(filter(None, groups)) for groups in _NODE.findall(text)]
    return list(dict.fromkeys(names)) or list(filter(None, [failing_eager_op(error)]))


def status_of(error: BaseException | None, outcomes: tuple[InFlight, ...] = ()) -> Status:
    """How a run ended, from what it raised."""
    if error is None:
        return Status()
    code: Any = getattr(error, "error_code", None)
    if not outcomes:
        stopped = code in _STOPPED or not isinstance(error, Exception)
        outcome = "cancelled" if stopped else "failed"
        outcomes = tuple(InFlight(name, outcome) for name in failing_nodes(error)[:1])
    if isinstance(code, int):
        return Status(errors.code_name(code), str(getattr(error, "message", error)), outcomes)
    name = "UNKNOWN"
    if not isinstance(error, Exception):  # an interrupt, an exit
        name = "CANCELLED"
    for kinds, found in _PYTHON_CODES:
        if isinstance(error, kinds):
            name = found
            break
    return Status(name, f"{type(error).__name__}: {error}".rstrip(": "), outcomes)


@dataclass(frozen=True, slots=True)
class Failure:
    """What a run's metadata need of what the run raised, taken off it at once.

    Not the error itself: that holds the frames it came through and all that is in them, and has the
    metadata on it. Metadata that held the error would be half of a cycle, which stays in memory
    until Python's collector comes by; and that counts objects, not the bytes that a trace takes.
    """

    status: Status
    cancelled: tuple[str, ...] = ()
    """Of an interrupt, the nodes that TensorFlow said it cancelled for it."""
    interrupted: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """What is known of an error before it is raised to the run's caller."""
        if not isinstance(error, KeyboardInterrupt):
            return cls(status_of(error))
        inside = error.__context__
        nodes = failing_nodes(inside)[:1] if inside is not None else []
        return cls(status_of(error), tuple(nodes), interrupted=True)


def raise_with(error: BaseException, run_metadata: Any) -> Any:
    """Raise an error again, of both classes and with the run's metadata on it."""
    both_classes(error)
    error.run_metadata = run_metadata  # type: ignore[attr-defined]
    try:
        raise error
    finally:
        # The error has this frame in its traceback: without them there is no way back to it.
        del error, run_metadata


def nodes_missing(status: Status, count: int) -> Loss:
    """What a run that ended early did not come to; `count` is 0 where it is not known."""
    reason = f"the run ended with {status.code} before they were done"
    if status.in_flight:
        reason += f"; in flight: {', '.join(status.in_flight)}"
    return Loss("node executions", count, reason)


def inside_python_unknown(graph: Any) -> list[Loss]:
    """What TensorFlow's own step stats lack of a graph whose ops call Python functions."""
    if not runs_python(graph):
        return []
    reason = "TensorFlow's own step stats do not tell what a Python function inside an op executes"
    return [Loss("ops inside Python functions", 0, reason)]


def in_flight_unknown(why: str) -> Loss:
    """That a run ended early and nobody can say what it was doing."""
    return Loss("ops in flight", 0, why)
