"""`tensorflow.core.protobuf`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.core.protobuf import (
    cluster_pb2,
    config_pb2,
    debug_pb2,
    meta_graph_pb2,
    rewriter_config_pb2,
)

__all__ = ["cluster_pb2", "config_pb2", "debug_pb2", "meta_graph_pb2", "rewriter_config_pb2"]

__getattr__ = absent(__name__)
