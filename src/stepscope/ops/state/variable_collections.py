"""Variables as users see them: the class, changing them, and all of a graph's at once."""

from __future__ import annotations

from collections.abc import Iterable

from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import bool_, string
from stepscope.graph.graph import GraphKeys, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.arrays.indexing import gather
from stepscope.ops.arrays.shaping import reshape
from stepscope.ops.flow.ordering import group
from stepscope.ops.math.comparison import where
from stepscope.ops.state.variable import (
    Variable,
    assign,
    assign_add,
    assign_sub,
    is_variable_initialized,
    scatter_add,
    scatter_sub,
    scatter_update,
)

__all__ = [
    "Variable", "all_variables", "assign", "assign_add", "assign_sub", "global_variables",
    "global_variables_initializer", "initialize_all_variables", "initialize_local_variables",
    "initialize_variables", "is_variable_initialized",
    "local_variables", "local_variables_initializer", "model_variables",
    "moving_average_variables", "report_uninitialized_variables",
    "scatter_add", "scatter_sub", "scatter_update", "trainable_variables",
    "variables_initializer",
]  # fmt: skip


def global_variables(scope: str | None = None) -> list[Variable]:
    """The default graph's variables that are shared by all runs of a session."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def all_variables() -> list[Variable]:
    return global_variables()


def local_variables(scope: str | None = None) -> list[Variable]:
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Variable]:
    """The variables of layers (`tf.contrib.layers`)."""
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Variable]:
    """The variables that moving averages are kept of."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def initialize_variables(var_list: Iterable[Variable], name: str = "init") -> Operation:
    return variables_initializer(var_list, name)


def initialize_local_variables() -> Operation:
    return local_variables_initializer()


def variables_initializer(var_list: Iterable[Variable], name: str = "init") -> Operation:
    """An op that initialises the given variables."""
    return group(*[v.initializer for v in var_list], name=name)


def global_variables_initializer() -> Operation:
    """An op that initialises all global variables made so far."""
    return variables_initializer(global_variables())


def initialize_all_variables() -> Operation:
    return global_variables_initializer()


def local_variables_initializer() -> Operation:
    """An op that initialises all local variables made so far."""
    return variables_initializer(local_variables())


def report_uninitialized_variables(
    var_list: Iterable[Variable] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """The names of those variables that have no value yet in the session that asks.

    All global and local variables by default.
    """
    if var_list is None:
        var_list = global_variables() + local_variables()
    variables = list(var_list)
    with name_scope(name, None, variables):
        if not variables:
            return constant_op([], string, shape=[0])
        states = [is_variable_initialized(v) for v in variables]
        stacked = convert_to_tensor(states, bool_)
        missing = apply_op("LogicalNot", stacked).values()[0]
        names = constant_op([v.op.name for v in variables], string)
        return gather(names, reshape(where(missing), [-1]))
