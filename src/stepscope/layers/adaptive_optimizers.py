"""Optimizers that scale each element's step by what its gradients have been: Adagrad, Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.graph.operation import Operation, Tensor
from stepscope.layers.initializers import Constant
from stepscope.layers.optimizer_base import Optimizer, as_hyperparameter, hyperparameter
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.state.variable import Variable


class AdagradOptimizer(Optimizer):
    """Divides the gradient by the root of the sum of all its squares so far.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     w = tf.Variable(1.0)
    ...     step = tf.train.AdagradOptimizer(0.1).minimize(w * 3.0)
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(round(float(session.run(w)), 4))
    0.9006
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate, self._initial = learning_rate, initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slot(var, "accumulator", self._name, Constant(self._initial))

    def _prepare(self) -> None:
        self._rate = as_hyperparameter(self._learning_rate, "learning_rate")

    def _run(self, op_type: str, var: Variable, *grads: Tensor) -> Operation:
        states = [var, self._slots["accumulator"][var]]
        return self._apply(op_type, states, hyperparameter(self._rate, var), *grads)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._run("ApplyAdagrad", var, grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        return self._run("SparseApplyAdagrad", var, grad, indices)


class AdadeltaOptimizer(Optimizer):
    """Steps as large as steps were on average, over what gradients were on average.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     w = tf.Variable(1.0)
    ...     step = tf.train.AdadeltaOptimizer(1.0, epsilon=0.01).minimize(w * 3.0)
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(round(float(session.run(w)), 4))
    0.5577
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slot(var, "accum", self._name)
            self._slot(var, "accum_update", self._name)

    def _prepare(self) -> None:
        self._numbers = [
            as_hyperparameter(self._learning_rate, "lr"),
            as_hyperparameter(self._rho, "rho"),
            as_hyperparameter(self._epsilon, "epsilon"),
        ]

    def _run(self, op_type: str, var: Variable, *grads: Tensor) -> Operation:
        states = [var, self._slots["accum"][var], self._slots["accum_update"][var]]
        numbers = [hyperparameter(n, var) for n in self._numbers]
        return self._apply(op_type, states, *numbers, *grads)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._run("ApplyAdadelta", var, grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        return self._run("SparseApplyAdadelta", var, grad, indices)


class AdagradDAOptimizer(Optimizer):
    """Dual averaging: the variable follows from the sums of all gradients and their squares.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     w, count = tf.Variable(0.0), tf.train.create_global_step()
    ...     optimizer = tf.train.AdagradDAOptimizer(0.1, count)
    ...     step = optimizer.minimize(w * 3.0, global_step=count)
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(round(float(session.run(w)), 4))
    -0.0994
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive: "
                f"{initial_gradient_squared_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate, self._global_step = learning_rate, global_step
        self._initial = initial_gradient_squared_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slot(var, "gradient_accumulator", self._name)
            squares = Constant(self._initial)
            self._slot(var, "gradient_squared_accumulator", self._name, squares)

    def _prepare(self) -> None:
        self._rate = as_hyperparameter(self._learning_rate, "learning_rate")
        with self._rate.graph.colocate_with(self._rate.op):
            self._steps = identity(self._global_step) + 1

    def _run(self, op_type: str, var: Variable, *grads: Tensor) -> Operation:
        slots = ("gradient_accumulator", "gradient_squared_accumulator")
        states = [var, *(self._slots[slot][var] for slot in slots)]
        with var.graph.device(var.device):
            steps = identity(self._steps)
        numbers = [hyperparameter(n, var) for n in (self._rate, self._l1, self._l2)]
        return self._apply(op_type, states, *grads, *numbers, steps)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._run("ApplyAdagradDA", var, grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        return self._run("SparseApplyAdagradDA", var, grad, indices)
