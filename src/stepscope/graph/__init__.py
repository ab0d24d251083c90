"""Graphs: operations, tensors, names and scopes, shapes and dtypes, GraphDef in and out."""

from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.defaults import (
    get_default_graph,
    get_default_session,
    reset_default_graph,
)
from stepscope.graph.device import DeviceSpec
from stepscope.graph.dtypes import DType, as_dtype
from stepscope.graph.graph import (
    Graph,
    GraphKeys,
    add_to_collection,
    colocate_with,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    name_scope,
)
from stepscope.graph.graph_def import import_graph_def
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, OpType, ShapeContext, register
from stepscope.graph.shapes import Dimension, TensorShape

__all__ = [
    "DType", "DeviceSpec", "Dimension", "Graph", "GraphKeys", "Kernel", "KernelNode", "OpType",
    "Operation", "ShapeContext", "Tensor", "TensorShape", "add_to_collection", "apply_op",
    "as_dtype", "colocate_with", "constant_op", "constant_value", "control_dependencies",
    "convert_to_tensor", "device", "get_collection", "get_collection_ref", "get_default_graph",
    "get_default_session", "import_graph_def", "name_scope", "register", "reset_default_graph",
]  # fmt: skip
