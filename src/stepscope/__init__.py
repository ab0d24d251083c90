"""Stepscope: see what one run of a dataflow program did. RunOptions in, RunMetadata out.

`import stepscope` loads next to nothing, not even NumPy: a public name, or a room such as
`stepscope.analysis`, is imported when it is asked for the first time. What begins with a graph or a
session brings every op type along.
"""

import typing

if typing.TYPE_CHECKING:
    from stepscope import errors
    from stepscope.always_on import Recorder
    from stepscope.engines import annotate, observe, run
    from stepscope.export.chrome.merge import merge
    from stepscope.graph import Graph, Operation, Tensor, TensorShape, import_graph_def
    from stepscope.hooks import TraceHook
    from stepscope.metadata import RunMetadata, extract_allocation_log, load
    from stepscope.notebook import show
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
    from stepscope.runtime.debug.debugger import debug_callback
    from stepscope.scheduling import Action, every, schedule

    __version__: str

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

_BUILT_OF_OPS = frozenset({"Graph", "Operation", "Tensor", "TensorShape", "import_graph_def"})

if not typing.TYPE_CHECKING:
    from stepscope.lazy_imports import lazy_names as _lazy_names

    _find = _lazy_names(
        __name__,
        {
            "always_on": "Recorder",
            "analysis": "",
            "engines": "annotate observe run",
            "errors": "",
            "export": "merge",
            "graph": "Graph Operation Tensor TensorShape import_graph_def",
            "hooks": "TraceHook",
            "metadata": "RunMetadata extract_allocation_log load",
            "notebook": "show",
            "ops": "",
            "ops.custom": "register_op",
            "options": "ClusterDef ConfigProto DebugOptions DebugTensorWatch GPUOptions "
            "GraphOptions OptimizerOptions RewriterConfig RunOptions ThreadPoolOptionProto",
            "programs": "",
            "recorder": "",
            "runtime": "InteractiveSession Session",
            "runtime.debug.debugger": "debug_callback",
            "scheduling": "Action every schedule",
            "tf1": "",
        },
    )

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version(__name__)
        if name in _BUILT_OF_OPS:
            # Op types register themselves when their modules are imported.
            _find("ops")
        return _find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
