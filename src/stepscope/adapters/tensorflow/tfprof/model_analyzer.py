"""`tf.contrib.tfprof.model_analyzer`: TensorFlow's profiler under the names that it had there."""

from __future__ import annotations

from typing import Any

from tensorflow.compat.v1.profiler import ProfileOptionBuilder, Profiler, advise, profile
from tensorflow.python.profiler.model_analyzer import ALL_ADVICE

from stepscope.adapters.tensorflow.tfprof.profile_context import TensorFlowProfileContext

__all__ = [
    "ALL_ADVICE",
    "FLOAT_OPS_OPTIONS",
    "PRINT_ALL_TIMING_MEMORY",
    "TRAINABLE_VARS_PARAMS_STAT_OPTIONS",
    "ProfileContext",
    "Profiler",
    "advise",
    "print_model_analysis",
]

TRAINABLE_VARS_PARAMS_STAT_OPTIONS = ProfileOptionBuilder.trainable_variables_parameter()
FLOAT_OPS_OPTIONS = ProfileOptionBuilder.float_operation()
PRINT_ALL_TIMING_MEMORY = ProfileOptionBuilder.time_and_memory()
ProfileContext = TensorFlowProfileContext


def print_model_analysis(
    graph: Any,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: Any = TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
) -> Any:
    """`tf.profiler.profile` as `tf.contrib.tfprof` called it."""
    return profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options)
