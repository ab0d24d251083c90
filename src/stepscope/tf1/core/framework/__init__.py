"""`tensorflow.core.framework`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.core.framework import (
    attr_value_pb2,
    cost_graph_pb2,
    graph_pb2,
    node_def_pb2,
    step_stats_pb2,
    summary_pb2,
    tensor_pb2,
    tensor_shape_pb2,
)

__all__ = [
    "attr_value_pb2",
    "cost_graph_pb2",
    "graph_pb2",
    "node_def_pb2",
    "step_stats_pb2",
    "summary_pb2",
    "tensor_pb2",
    "tensor_shape_pb2",
]

__getattr__ = absent(__name__)
