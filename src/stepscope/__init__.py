"""Stepscope: see what one run of a dataflow program did. RunOptions in, RunMetadata out."""

from stepscope import errors
from stepscope.engines import annotate, observe, run
from stepscope.export import merge
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
]
