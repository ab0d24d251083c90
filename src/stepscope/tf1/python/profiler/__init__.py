"""`tensorflow.python.profiler`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.python.profiler import model_analyzer, option_builder, tfprof_logger

__all__ = ["model_analyzer", "option_builder", "tfprof_logger"]

__getattr__ = absent(__name__)
