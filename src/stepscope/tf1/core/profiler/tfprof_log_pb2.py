"""`tensorflow.core.profiler.tfprof_log_pb2`."""

from stepscope.metadata.profile_messages import (
    CodeDef,
    ExecMemory,
    ExecProfile,
    ExecTime,
    OpLogEntry,
    OpLogProto,
    ProfileNode,
    ProfileProto,
)
from stepscope.tf1._absent import absent

__all__ = [
    "CodeDef",
    "ExecMemory",
    "ExecProfile",
    "ExecTime",
    "OpLogEntry",
    "OpLogProto",
    "ProfileNode",
    "ProfileProto",
]

__getattr__ = absent(__name__)
