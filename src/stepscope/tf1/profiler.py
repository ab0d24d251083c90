"""`tf.profiler`: parameters, floating-point operations, time and memory of a model."""

from stepscope.metadata.wire.profile_messages import (
    AdviceProto,
    GraphNodeProto,
    MultiGraphNodeProto,
    OpLogProto,
)
from stepscope.programs.profiler import (
    ProfileOptionBuilder,
    Profiler,
    advise,
    profile,
    write_op_log,
)
from stepscope.tf1._absent import absent

__all__ = [
    "AdviceProto",
    "GraphNodeProto",
    "MultiGraphNodeProto",
    "OpLogProto",
    "ProfileOptionBuilder",
    "Profiler",
    "advise",
    "profile",
    "write_op_log",
]

__getattr__ = absent(__name__)
