"""TensorFlow under the contract: sessions, here and on a cluster, functions and eager code.

Importing this package does not import TensorFlow; the first call of anything in it does. Names are
imported when they are asked for: a program that may never use TensorFlow does not wait for them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.adapters.tensorflow.capture.python_ops import annotate
    from stepscope.adapters.tensorflow.memory.memory_events import enable_memory_events
    from stepscope.adapters.tensorflow.node_log.build import prepare
    from stepscope.adapters.tensorflow.runs.function import observe, run
    from stepscope.adapters.tensorflow.runs.session import Session
    from stepscope.adapters.tensorflow.runs.targets import SESSION_TARGETS
    from stepscope.adapters.tensorflow.training.session_hook import TraceHook
else:
    from stepscope.lazy_imports import lazy_names as _lazy_names

    __getattr__ = _lazy_names(
        __name__,
        {
            "capture.python_ops": "annotate",
            "memory.memory_events": "enable_memory_events",
            "node_log.build": "prepare",
            "runs.function": "observe run",
            "runs.session": "Session",
            "runs.targets": "SESSION_TARGETS",
            "training.session_hook": "TraceHook",
        },
    )

__all__ = [
    "SESSION_TARGETS", "Session", "TraceHook", "annotate", "enable_memory_events", "observe",
    "prepare", "run",
]  # fmt: skip
