"""`tensorflow.python.profiler.model_analyzer`."""

from stepscope.programs.profiler import ALL_ADVICE, Profiler, advise, profile
from stepscope.tf1._absent import absent

__all__ = ["ALL_ADVICE", "Profiler", "advise", "profile"]

__getattr__ = absent(__name__)
