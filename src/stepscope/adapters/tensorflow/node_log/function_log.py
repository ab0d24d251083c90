"""Which calls of functions our executor sees, and which of them wholly: those need no profiler.

A function is seen where this thread executes it, by our executor; wholly where none of its ops runs
anything else in the meantime (Python, functions elsewhere). What an input pipeline does on its own
threads is no part of the call: that it is not shown is declared. What a function is made of is
known where it was traced before the call. Should TensorFlow trace it anew inside, that is declared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.graphs import runs_other_graphs
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.log import NodeLog


class FunctionLog(NodeLog):
    """The log of one call of a function."""

    def __init__(self, graphs: Iterable[Any], *, outputs: bool) -> None:
        """`graphs` is what the function was traced to."""
        super().__init__(outputs=outputs)
        self.sees_all = not any(map(runs_other_graphs, graphs))
        """Whether the profiler would see nothing of the call that this does not."""


def sees_calls_of(function: Any) -> bool:
    """Whether a call of this function on this thread is executed by our executor."""
    kind = build.executor_type()
    return bool(kind) and (
        versions.executes_functions_here_by(kind)
        and not versions.is_compiled(function)
        and not versions.stays_as_it_is(function)
    )


def log_of_call(function: Any, *, outputs: bool) -> FunctionLog | None:
    """A log for a call of this function that is the whole run; None where it would not see it."""
    graphs = _graphs_of(function) if sees_calls_of(function) else []
    return FunctionLog(graphs, outputs=outputs) if graphs else None


def is_traced(function: Any) -> bool:
    """Whether it is known what the function is made of."""
    return bool(_graphs_of(function))


def _graphs_of(function: Any) -> list[Any]:
    if versions.is_concrete_function(function):
        return [function.graph]
    return versions.traced_graphs(function)
