"""`tensorflow.core.protobuf.rewriter_config_pb2`."""

from stepscope.options import RewriterConfig
from stepscope.tf1._absent import absent

__all__ = ["RewriterConfig"]

__getattr__ = absent(__name__)
