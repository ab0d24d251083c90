"""The session targets that TensorFlow serves; loads TensorFlow when one of them is opened."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any, Final

from stepscope.errors import FailedPreconditionError


def _open(target: str, graph: Any, config: Any, python_function: Callable[[str], Any]) -> Any:
    _check_there_is_one(target)
    from stepscope.adapters.tensorflow.runs.embedded import EmbeddedGraph

    return EmbeddedGraph(target, graph, config, python_function)


def _check_there_is_one(target: str) -> None:
    installed = PathFinder.find_spec("tensorflow")
    if installed is None:
        raise FailedPreconditionError.without_op(
            f"The session target {target!r} needs TensorFlow, which is not installed: "
            "pip install 'stepscope[tensorflow]'."
        )
    import tensorflow

    if tensorflow.__file__ != installed.origin:
        raise FailedPreconditionError.without_op(
            f"The session target {target!r} needs TensorFlow, but in this process the "
            "embedded engine stands in for the module `tensorflow`: import stepscope.tf1 instead."
        )


SESSION_TARGETS: Final = {"tensorflow": _open, "grpc://": _open}
