"""`tensorflow.python.framework.ops`."""

from stepscope.graph import (
    Graph,
    GraphKeys,
    Operation,
    Tensor,
    add_to_collection,
    colocate_with,
    control_dependencies,
    convert_to_tensor,
    device,
    get_collection,
    get_collection_ref,
    get_default_graph,
    get_default_session,
    name_scope,
    reset_default_graph,
)
from stepscope.tf1._absent import absent

__all__ = [
    "Graph",
    "GraphKeys",
    "Operation",
    "Tensor",
    "add_to_collection",
    "colocate_with",
    "control_dependencies",
    "convert_to_tensor",
    "device",
    "get_collection",
    "get_collection_ref",
    "get_default_graph",
    "get_default_session",
    "name_scope",
    "reset_default_graph",
]

__getattr__ = absent(__name__)
