"""`tensorflow.core.protobuf.meta_graph_pb2`."""

from stepscope._messages import CollectionDef, MetaGraphDef
from stepscope.tf1._absent import absent

__all__ = ["CollectionDef", "MetaGraphDef"]

__getattr__ = absent(__name__)
