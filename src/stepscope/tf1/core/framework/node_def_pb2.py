"""`tensorflow.core.framework.node_def_pb2`."""

from stepscope._messages import NodeDef
from stepscope.tf1._absent import absent

__all__ = ["NodeDef"]

__getattr__ = absent(__name__)
