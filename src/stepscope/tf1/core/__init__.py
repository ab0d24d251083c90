"""The message modules of TensorFlow that programs import from."""

from stepscope.tf1._absent import absent
from stepscope.tf1.core import framework, profiler, protobuf

__all__ = ["framework", "profiler", "protobuf"]

__getattr__ = absent(__name__)
