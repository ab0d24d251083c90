"""`tensorflow.python.profiler.option_builder`."""

from stepscope.programs.profiler import ProfileOptionBuilder
from stepscope.tf1._absent import absent

__all__ = ["ProfileOptionBuilder"]

__getattr__ = absent(__name__)
