"""`tf.profiler`: what a model holds and does, and what runs of it took."""

from stepscope.programs.profiler.model_analyzer import ALL_ADVICE, Profiler, advise, profile
from stepscope.programs.profiler.op_log import merge_default_with_oplog, write_op_log
from stepscope.programs.profiler.option_builder import ProfileOptionBuilder
from stepscope.programs.profiler.profile_context import ProfileContext

__all__ = [
    "ALL_ADVICE",
    "ProfileContext",
    "ProfileOptionBuilder",
    "Profiler",
    "advise",
    "merge_default_with_oplog",
    "profile",
    "write_op_log",
]
