"""`tf.contrib.tfprof.model_analyzer`."""

from stepscope.programs.profiler.model_analyzer import (
    FLOAT_OPS_OPTIONS,
    PRINT_ALL_TIMING_MEMORY,
    TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
    print_model_analysis,
)
from stepscope.tf1._absent import absent

__all__ = [
    "FLOAT_OPS_OPTIONS",
    "PRINT_ALL_TIMING_MEMORY",
    "TRAINABLE_VARS_PARAMS_STAT_OPTIONS",
    "print_model_analysis",
]

__getattr__ = absent(__name__)
