"""Stepscope: see what one run of a dataflow program did. RunOptions in, RunMetadata out.

`import stepscope` loads next to nothing, not even NumPy: a public name, or a room such as
`stepscope.analysis`, is imported when it is asked for the first time. What begins with a graph or a
session brings every op type along.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from stepscope import errors
    from stepscope.always_on import Recorder
    from stepscope.engines import annotate, observe, run
    from stepscope.export.merge import merge
    from stepscope.graph import Graph, Operation, Tensor, TensorShape, import_graph_def
    from stepscope.hooks import TraceHook
    from stepscope.metadata import RunMetadata, extract_allocation_log, load
    from stepscope.ops.custom import register_op
    from stepscope.options import (
        ClusterDef,
        ConfigProto,
        DebugOptions,
        DebugTensorWatch,
        GPUOptions,
        GraphOptions,
        OptimizerOptions,
        RewriterConfig,
        RunOptions,
        ThreadPoolOptionProto,
    )
    from stepscope.runtime import InteractiveSession, Session
    from stepscope.runtime.debug import register_callback as debug_callback
    from stepscope.scheduling import Action, every, schedule

__version__ = "0.1.0"

__all__ = [
    "Action",
    "ClusterDef",
    "ConfigProto",
    "DebugOptions",
    "DebugTensorWatch",
    "GPUOptions",
    "Graph",
    "GraphOptions",
    "InteractiveSession",
    "Operation",
    "OptimizerOptions",
    "Recorder",
    "RewriterConfig",
    "RunMetadata",
    "RunOptions",
    "Session",
    "Tensor",
    "TensorShape",
    "ThreadPoolOptionProto",
    "TraceHook",
    "annotate",
    "debug_callback",
    "errors",
    "every",
    "extract_allocation_log",
    "import_graph_def",
    "load",
    "merge",
    "observe",
    "register_op",
    "run",
    "schedule",
    "show",
]

_NAMES = {
    "always_on": ("Recorder",),
    "engines": ("annotate", "observe", "run"),
    "export": ("merge",),
    "graph": ("Graph", "Operation", "Tensor", "TensorShape", "import_graph_def"),
    "hooks": ("TraceHook",),
    "notebook": ("show",),
    "metadata": ("RunMetadata", "extract_allocation_log", "load"),
    "ops.custom": ("register_op",),
    "options": (
        "ClusterDef", "ConfigProto", "DebugOptions", "DebugTensorWatch", "GPUOptions",
        "GraphOptions", "OptimizerOptions", "RewriterConfig", "RunOptions",
        "ThreadPoolOptionProto",
    ),
    "runtime": ("InteractiveSession", "Session"),
    "scheduling": ("Action", "every", "schedule"),
}  # fmt: skip
"""By module of this package, the public names that it defines."""

_PLACES = {name: (module, name) for module, names in _NAMES.items() for name in names}
_PLACES["debug_callback"] = ("runtime.debug", "register_callback")

_ROOMS = ("analysis", "engines", "errors", "export", "graph", "hooks", "metadata", "ops", "options",
          "programs", "recorder", "runtime", "scheduling", "tf1")  # fmt: skip


def __getattr__(name: str) -> object:
    """Import what was asked for; from then on it is an ordinary attribute."""
    found: object
    if name in _PLACES:
        module, attribute = _PLACES[name]
        if module == "graph":
            # A graph is built of op types, which register themselves.
            importlib.import_module(f"{__name__}.ops")
        found = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    elif name in _ROOMS:
        found = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
