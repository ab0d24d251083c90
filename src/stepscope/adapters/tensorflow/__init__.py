"""TensorFlow under the contract: sessions, here and on a cluster, functions and eager code.

Importing this package does not import TensorFlow; the first call of anything in it does.
"""

from typing import Any

from stepscope.adapters.tensorflow.capture.python_ops import annotate
from stepscope.adapters.tensorflow.memory.memory_events import enable_memory_events
from stepscope.adapters.tensorflow.node_log.build import prepare
from stepscope.adapters.tensorflow.runs.function import observe, run
from stepscope.adapters.tensorflow.runs.targets import SESSION_TARGETS

__all__ = [
    "SESSION_TARGETS", "Session", "TraceHook", "annotate", "enable_memory_events", "observe",
    "prepare", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Session":
        from stepscope.adapters.tensorflow.runs.session import Session

        return Session
    if name == "TraceHook":
        from stepscope.adapters.tensorflow.training.session_hook import TraceHook

        return TraceHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
