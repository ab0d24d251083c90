"""Errors that are TensorFlow's and ours at once, with the run's metadata on them."""

from __future__ import annotations

import re
import threading
from typing import Any

from stepscope import errors
from stepscope.adapters.tensorflow import versions
from stepscope.metadata import InFlight, Status

_lock = threading.Lock()
_both: dict[type, type] = {}
_NODE = re.compile(r"\{\{node ([^}]+)\}\}|Node: '([^']+)'|\[\[([\w/.-]+)\]\]")


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
            _both[kind] = type(kind.__name__, (kind, ours), {"run_metadata": None})
    error.__class__ = _both[kind]


def new_error(name: str, message: str) -> Exception:
    """A TensorFlow error of that class, ours as well."""
    error: Exception = getattr(versions.tensorflow().errors, name)(None, None, message)
    both_classes(error)
    return error


def failing_nodes(error: BaseException) -> list[str]:
    """The nodes an error's message names, in order."""
    text = str(getattr(error, "message", error))
    names = [next(filter(None, groups)) for groups in _NODE.findall(text)]
    return list(dict.fromkeys(names))


def status_of(error: BaseException | None, outcomes: tuple[InFlight, ...] = ()) -> Status:
    """How a run ended, from what it raised."""
    if error is None:
        return Status()
    code: Any = getattr(error, "error_code", None)
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return Status("CANCELLED", f"{type(error).__name__}: {error}".rstrip(": "), outcomes)
    if not isinstance(code, int):
        return Status("UNKNOWN", f"{type(error).__name__}: {error}", outcomes)
    if not outcomes:
        outcomes = tuple(InFlight(name) for name in failing_nodes(error)[:1])
    return Status(errors.code_name(code), str(getattr(error, "message", error)), outcomes)
