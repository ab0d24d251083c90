"""The count of training steps."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import int64
from stepscope.graph.graph import Graph, GraphKeys
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.variable_scope import get_variable

_READ = "global_step_read_op_cache"
_COUNTING = ("AssignAdd", "AssignAddVariableOp")


def get_global_step(graph: Graph | None = None) -> Any:
    """The graph's count of steps; None if it has none."""
    found = (graph or get_default_graph()).get_collection(GraphKeys.GLOBAL_STEP)
    return found[0] if found else None


def create_global_step(graph: Graph | None = None) -> Any:
    """A new int64 variable `global_step`; ValueError if the graph has one already."""
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=int64,
            initializer=zeros_initializer(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The graph's count of steps, made if it has none."""
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The count of steps now, in that session."""
    return int(sess.run(global_step_tensor))


def global_step_read(graph: Graph | None = None) -> Any:
    """A tensor of the count of steps as it was before the run that reads it; None without one.

    TensorFlow's gives the count from before or after the run's update, as it happens. Here the
    ops that count wait for it.
    """
    graph = graph or get_default_graph()
    step = get_global_step(graph)
    found = graph.get_collection(_READ)
    if step is None or found:
        return found[0] if found else None
    inside = graph.name_scope(f"{step.op.name}/")
    with graph.as_default(), graph.control_dependencies(None), inside:
        read = convert_to_tensor(step) + 0
    counted = step.op.values()[0]
    for op in graph.get_operations():
        if op.type in _COUNTING and op.inputs[0] is counted:
            op._add_control_input(read.op)
    graph.add_to_collection(_READ, read)
    return read
