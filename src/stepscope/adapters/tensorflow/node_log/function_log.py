"""Which calls of functions our executor sees, and which of them wholly: those need no profiler.

A function is seen where this thread executes it, by our executor; wholly where none of its ops runs
anything else in the meantime (Python, functions elsewhere). What an input pipeline does on its own
threads is no part of the call: that it is not shown is declared. What a function is made of is
known where it was traced before the call. Should TensorFlow trace it anew inside, that is declared.
"""

from __future__ import annotations

import weakref
from typing import Any

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.graphs import runs_other_graphs
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.log import NodeLog

_wholly: weakref.WeakKeyDictionary[Any, tuple[versions.RegisteredFunctions, bool | None]]
_wholly = weakref.WeakKeyDictionary()
"""By function, whether it is seen wholly, as long as these functions are known; None of one that is
not seen, or not traced."""


class FunctionLog(NodeLog):
    """The log of one call of a function."""

    def __init__(self, *, outputs: bool, sees_all: bool) -> None:
        super().__init__(outputs=outputs)
        self.sees_all = sees_all
        """Whether the profiler would see nothing of the call that this does not."""


def sees_calls_of(function: Any) -> bool:
    """Whether a call of this function on this thread is executed by our executor."""
    return _executes_here() and _sees(function)


def log_of_call(function: Any, *, outputs: bool) -> FunctionLog | None:
    """A log for a call of this function that is the whole run; None where it would not see it."""
    if not _executes_here() or versions.stays_as_it_is(function):
        return None
    now = versions.registered_functions()
    when, wholly = _wholly.get(function, (None, None))
    if when is not now:
        graphs = _graphs_of(function) if _sees(function) else []
        wholly = not any(map(runs_other_graphs, graphs)) if graphs else None
        _wholly[function] = now, wholly
    return None if wholly is None else FunctionLog(outputs=outputs, sees_all=wholly)


def is_traced(function: Any) -> bool:
    """Whether it is known what the function is made of."""
    return bool(_graphs_of(function))


def _executes_here() -> bool:
    kind = build.executor_type()
    return kind != "" and versions.executes_functions_here_by(kind)


def _sees(function: Any) -> bool:
    return not versions.is_compiled(function) and not versions.stays_as_it_is(function)


def _graphs_of(function: Any) -> list[Any]:
    if versions.is_concrete_function(function):
        return [function.graph]
    return versions.traced_graphs(function)
