"""Moving averages of variables and tensors: `tf.train.ExponentialMovingAverage`.

An average is a variable of its own, named as TensorFlow names it: that of `w` is
`w/ExponentialMovingAverage`. Checkpoints therefore hold it, and `variables_to_restore` loads it
into the variable in place of the variable's own value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import float16, float32, float64
from stepscope.graph.graph import GraphKeys, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.variable_scope import get_variable, get_variable_scope, variable_scope
from stepscope.ops.arrays import conversion
from stepscope.ops.flow import conditionals, ordering
from stepscope.ops.math import division, elementwise
from stepscope.ops.state.variable import (
    Variable,
    assign,
    assign_add,
    assign_sub,
    is_variable_initialized,
)
from stepscope.ops.state.variable_collections import (
    global_variables,
    moving_average_variables,
    trainable_variables,
)

_FLOATS = (float16, float32, float64)


class ExponentialMovingAverage:
    """Keeps averages of variables: `apply` makes them and the op that moves each towards its
    variable, by `1 - decay` of the way.

    With `num_updates` (a count of steps) the decay is `(1 + n) / (10 + n)` as long as that is
    less: an average moves faster at first. An average of a tensor begins at 0; `zero_debias` takes
    out what that does to it.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     w = tf.Variable(1.0, name="w")
    ...     averages = tf.train.ExponentialMovingAverage(decay=0.75)
    ...     update = averages.apply([w])
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(w.assign(3.0)) and session.run(update)
    ...     print(averages.average_name(w), session.run(averages.average(w)))
    w/ExponentialMovingAverage 1.5
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay, self._num_updates = decay, num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Variable] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """The op that moves the averages; all trainable variables' if none are given."""
        given = list(trainable_variables() if var_list is None else var_list)
        debiased: set[Any] = set()
        for var in given:
            if var.dtype.base_dtype not in _FLOATS:
                raise TypeError(f"The variables must be half, float, or double: {var.name}")
            if var not in self._averages:
                self._averages[var] = self._made(var)
                if self._zero_debias and not isinstance(var, Variable):
                    debiased.add(var)
        with name_scope(self._name) as scope:
            decay = self._decay_now()
            updates = [
                assign_moving_average(self._averages[var], var, decay, var in debiased)
                for var in given
            ]
            return ordering.group(*updates, name=scope)

    def average(self, var: Any) -> Variable | None:
        """The variable that holds the average; None where none is kept."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """What that variable is called, also where it is not made yet: for a Saver's map."""
        if var in self._averages:
            return str(self._averages[var].op.name)
        return f"{var.op.name}/{self._name}"

    def variables_to_restore(
        self, moving_avg_variables: Iterable[Any] | None = None
    ) -> dict[str, Any]:
        """A map for `tf.train.Saver` that loads averages into the variables they are of.

        Of `moving_avg_variables` (all trainable and averaged ones if left out) it loads averages;
        of the graph's other variables their own values.
        """
        averaged = [*trainable_variables(), *moving_average_variables()]
        averaged = averaged if moving_avg_variables is None else list(moving_avg_variables)
        found = {self.average_name(var): var for var in dict.fromkeys(averaged)}
        taken = {var.op.name for var in averaged}
        for var in global_variables():
            if var.op.name not in taken and var.op.name not in found:
                found[var.op.name] = var
        return found

    def _decay_now(self) -> Tensor:
        decay = convert_to_tensor(self._decay, float32, "decay")
        if self._num_updates is None:
            return decay
        count = conversion.cast(self._num_updates, float32, name="num_updates")
        return elementwise.minimum(decay, (1.0 + count) / (10.0 + count))

    def _made(self, var: Any) -> Variable:
        graph = var.graph
        with graph.control_dependencies(None):
            if not isinstance(var, Variable):
                held = var.op.type in ("Variable", "VariableV2", "VarHandleOp")
                return _beside(var, self._name, zeros_initializer(), colocated=held)
            with graph.device(var.device):
                start = conditionals.cond(
                    is_variable_initialized(var), var.read_value, lambda: var.initial_value
                )
            graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
            return _beside(var, self._name, start, colocated=True)


def _beside(primary: Any, name: str, value: Any, colocated: bool) -> Variable:
    """A variable named after another (or a tensor), on its device."""
    graph, made_of = primary.graph, value
    shape = dtype = None
    if not isinstance(value, Tensor):
        shape, dtype = primary.shape, primary.dtype.base_dtype
    resource = primary._is_resource if isinstance(primary, Variable) else None
    with variable_scope(None, f"{primary.op.name}/{name}"):
        if not colocated:
            return _unnamed(made_of, shape, dtype, resource)
        with graph.colocate_with(primary.op):
            return _unnamed(made_of, shape, dtype, resource)


def _unnamed(value: Any, shape: Any, dtype: Any, resource: bool | None) -> Variable:
    """A variable under the name of the variable scope itself."""
    made: Variable = get_variable(
        "", shape, dtype, initializer=value, trainable=False, use_resource=resource
    )
    return made


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """The variable moved towards the value, by `1 - decay` of the way.

    With `zero_debias` the variable is what the average would be had it not begun at 0: beside it
    are `biased`, which did, and `local_step`, which counts.

    >>> import stepscope.tf1 as tf
    >>> from stepscope.tf1.python.training import moving_averages
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    ...     moved = moving_averages.assign_moving_average(v, 8.0, 0.75, zero_debias=False)
    ...     session.run(tf.global_variables_initializer())
    ...     print(session.run(moved))
    2.0
    """
    with name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope:
        share = convert_to_tensor(1.0 - decay, name="decay")
        kind = variable.dtype.base_dtype
        if share.dtype.base_dtype is not kind:
            share = conversion.cast(share, kind)
        if zero_debias:
            return _debiased(variable, convert_to_tensor(value), share)
        return assign_sub(variable, (variable - value) * share, name=scope)


def _debiased(variable: Variable, value: Tensor, share: Tensor) -> Any:
    with variable_scope(variable.op.name, values=[variable, value, share]):
        with variable.graph.colocate_with(variable.op), variable.graph.control_dependencies(None):
            kind = variable.dtype.base_dtype
            biased = get_variable(
                _free_name("biased"), variable.shape, kind, zeros_initializer(), trainable=False
            )
            count = get_variable(
                _free_name("local_step"), [], kind, zeros_initializer(), trainable=False
            )
        moved = assign_sub(biased, (biased - value) * share)
        counted = assign_add(count, 1)
        factor = 1 - elementwise.pow(1.0 - share, counted)
        return assign(variable, moved / factor)


def _free_name(name: str) -> str:
    """The name, or where the variable scope has such a variable, the name with a number."""
    scope = get_variable_scope()
    if scope.reuse:
        return name
    graph_has = {v.op.name for v in scope.global_variables()}
    number, candidate = 0, name
    while f"{scope.name}/{candidate}" in graph_has:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def weighted_moving_average(
    value: Any,
    decay: Any,
    weight: Any,
    truediv: bool = True,
    collections: Any = None,
    name: str | None = None,
) -> Tensor:
    """The moving average of `value * weight` over that of `weight`, both kept in variables.

    >>> import stepscope.tf1 as tf
    >>> from stepscope.tf1.python.training import moving_averages
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     x = tf.constant(3.0)
    ...     mean = moving_averages.weighted_moving_average(x, 0.5, tf.constant(2.0))
    ...     session.run(tf.global_variables_initializer())
    ...     print(session.run(mean))
    3.0
    """
    keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections

    def kept(what: str, like: Any) -> Any:
        return get_variable(
            what, like.shape, like.dtype, zeros_initializer(), trainable=False, collections=keys
        )

    value, weight = convert_to_tensor(value), convert_to_tensor(weight)
    with variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        products, weights = kept("value_x_weight", value), kept("weight", weight)
        above = assign_moving_average(products, value * weight, decay, zero_debias=False)
        below = assign_moving_average(weights, weight, decay, zero_debias=False)
        divided: Callable[..., Tensor] = division.truediv if truediv else division.divide
        return divided(above, below, name=scope.name)
