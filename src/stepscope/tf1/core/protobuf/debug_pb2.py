"""`tensorflow.core.protobuf.debug_pb2`."""

from stepscope.options import DebugOptions, DebugTensorWatch
from stepscope.tf1._absent import absent

__all__ = ["DebugOptions", "DebugTensorWatch"]

__getattr__ = absent(__name__)
