"""`tensorflow.core.framework.graph_pb2`."""

from stepscope._messages import GraphDef
from stepscope.tf1._absent import absent

__all__ = ["GraphDef"]

__getattr__ = absent(__name__)
