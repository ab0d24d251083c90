"""`tensorflow.core.protobuf.config_pb2`."""

from stepscope.metadata import RunMetadata
from stepscope.options import (
    CallableOptions,
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RPCOptions,
    RunOptions,
    SessionMetadata,
    ThreadPoolOptionProto,
)
from stepscope.tf1._absent import absent

__all__ = [
    "CallableOptions",
    "ConfigProto",
    "GPUOptions",
    "GraphOptions",
    "OptimizerOptions",
    "RPCOptions",
    "RunMetadata",
    "RunOptions",
    "SessionMetadata",
    "ThreadPoolOptionProto",
]

__getattr__ = absent(__name__)
