"""`tf.contrib.tfprof`: what `tf.profiler` was before."""

from stepscope.tf1._absent import absent
from stepscope.tf1.contrib.tfprof import model_analyzer, tfprof_logger

__all__ = ["model_analyzer", "tfprof_logger"]

__getattr__ = absent(__name__)
