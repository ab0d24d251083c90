"""Optimizers that regularize as they step, so that weights become exactly zero: FTRL and the
proximal forms of gradient descent and Adagrad.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.graph.operation import Operation, Tensor
from stepscope.layers.initializers import Constant
from stepscope.layers.optimizer_base import Optimizer, as_hyperparameter, hyperparameter
from stepscope.ops.math import elementwise
from stepscope.ops.state.variable import Variable


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader: for sparse linear models.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     w = tf.Variable([1.0, 1.0])
    ...     loss = tf.reduce_sum(w * [3.0, 0.01])
    ...     optimizer = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=1.0)
    ...     step = optimizer.minimize(loss)
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(session.run(w).round(3))
    [0.763 0.   ]
    """

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        super().__init__(use_locking, name)
        for what, value in (
            ("initial_accumulator_value", initial_accumulator_value),
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            if value < 0.0:
                raise ValueError(f"{what} {value} needs to be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(
                f"learning_rate_power {learning_rate_power} needs to be negative or zero"
            )
        self._learning_rate, self._power = learning_rate, learning_rate_power
        self._initial = initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength
        self._shrinkage, self._beta = l2_shrinkage_regularization_strength, beta or 0.0
        self._accum_name, self._linear_name = accum_name or name, linear_name or name

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slot(var, "accum", self._accum_name, Constant(self._initial))
            self._slot(var, "linear", self._linear_name)

    def _prepare(self) -> None:
        rate = as_hyperparameter(self._learning_rate, "learning_rate")
        l1 = as_hyperparameter(self._l1, "l1_regularization_strength")
        l2 = self._l2 + self._beta / (2.0 * elementwise.maximum(self._learning_rate, 1e-36))
        self._numbers = [rate, l1, l2]
        if self._shrinkage > 0.0:
            shrinkage = as_hyperparameter(self._shrinkage, "l2_shrinkage_regularization_strength")
            self._numbers.append(shrinkage)
        self._numbers.append(as_hyperparameter(self._power, "learning_rate_power"))

    def _run(self, prefix: str, var: Variable, *grads: Tensor) -> Operation:
        states = [var, self._slots["accum"][var], self._slots["linear"][var]]
        numbers = [hyperparameter(n, var) for n in self._numbers]
        op_type = "ApplyFtrlV2" if self._shrinkage > 0.0 else "ApplyFtrl"
        return self._apply(prefix + op_type, states, *grads, *numbers)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._run("", var, grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        return self._run("Sparse", var, grad, indices)


class _Proximal(Optimizer):
    """A step, and then every weight nearer to zero by what its regularization says."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float,
        l2_regularization_strength: float,
        use_locking: bool,
        name: str,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _prepare(self) -> None:
        self._numbers = [
            as_hyperparameter(self._learning_rate, "learning_rate"),
            as_hyperparameter(self._l1, "l1_regularization_strength"),
            as_hyperparameter(self._l2, "l2_regularization_strength"),
        ]

    def _run(self, op_type: str, states: Sequence[Variable], *grads: Tensor) -> Operation:
        numbers = [hyperparameter(n, states[0]) for n in self._numbers]
        return self._apply(op_type, states, *numbers, *grads)


class ProximalGradientDescentOptimizer(_Proximal):
    """Gradient descent with L1 and L2 regularization in the step.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     w = tf.Variable([1.0, 0.02])
    ...     optimizer = tf.train.ProximalGradientDescentOptimizer(0.1, 0.5)
    ...     step = optimizer.minimize(tf.reduce_sum(w))
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(session.run(w).round(3))
    [ 0.85 -0.03]
    """

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(
            learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name
        )

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._run("ApplyProximalGradientDescent", [var], grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        return self._run("SparseApplyProximalGradientDescent", [var], grad, indices)


class ProximalAdagradOptimizer(_Proximal):
    """Adagrad with L1 and L2 regularization in the step.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     w = tf.Variable([1.0, 0.02])
    ...     optimizer = tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.5)
    ...     step = optimizer.minimize(tf.reduce_sum(w))
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(session.run(w).round(3))
    [ 0.857 -0.028]
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}"
            )
        super().__init__(
            learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name
        )
        self._initial = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slot(var, "accumulator", self._name, Constant(self._initial))

    def _states(self, var: Variable) -> list[Variable]:
        return [var, self._slots["accumulator"][var]]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._run("ApplyProximalAdagrad", self._states(var), grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        return self._run("SparseApplyProximalAdagrad", self._states(var), grad, indices)
