"""The optimizers: gradient descent, momentum, RMSProp and Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.graph.graph import control_dependencies
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor
from stepscope.layers.initializers import ones_initializer
from stepscope.layers.optimizer_base import Optimizer, as_hyperparameter, hyperparameter
from stepscope.ops.flow import ordering
from stepscope.ops.math import unary
from stepscope.ops.state.variable import Variable, scatter_add, scatter_sub
from stepscope.ops.state.variable_ops import add_to_rows


class GradientDescentOptimizer(Optimizer):
    """Subtracts the gradient times the learning rate."""

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self) -> None:
        self._rate = as_hyperparameter(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._apply("ApplyGradientDescent", [var], hyperparameter(self._rate, var), grad)

    def _apply_rows(self, grad: IndexedSlices, var: Variable) -> Operation:
        step = grad.values * hyperparameter(self._rate, var)
        if var._is_resource:
            return add_to_rows(var.handle, grad.indices, -step)
        return scatter_sub(var, grad.indices, step, self._use_locking).op


class MomentumOptimizer(Optimizer):
    """Gradient descent along a decaying sum of gradients; with Nesterov's look ahead if asked."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum = learning_rate, momentum
        self._nesterov = use_nesterov

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._rate = as_hyperparameter(self._learning_rate, "learning_rate")
        self._share = as_hyperparameter(self._momentum, "momentum")

    def _states(self, var: Variable) -> list[Variable]:
        return [var, self._slots["momentum"][var]]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        rate, share = (hyperparameter(h, var) for h in (self._rate, self._share))
        return self._apply(
            "ApplyMomentum", self._states(var), rate, grad, share, use_nesterov=self._nesterov
        )

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        rate, share = (hyperparameter(h, var) for h in (self._rate, self._share))
        return self._apply(
            "SparseApplyMomentum", self._states(var), rate, grad, indices, share,
            use_nesterov=self._nesterov,
        )  # fmt: skip


class RMSPropOptimizer(Optimizer):
    """Divides the gradient by a running root mean square of it; of its deviation if centered."""

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._decay = learning_rate, decay
        self._momentum, self._epsilon, self._centered = momentum, epsilon, centered

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slot(var, "rms", self._name, ones_initializer())
            if self._centered:
                self._slot(var, "mg", self._name)
            self._slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._numbers = [
            as_hyperparameter(self._learning_rate, "learning_rate"),
            as_hyperparameter(self._decay, "decay"),
            as_hyperparameter(self._momentum, "momentum"),
            as_hyperparameter(self._epsilon, "epsilon"),
        ]

    def _run(self, prefix: str, var: Variable, *grads: Tensor) -> Operation:
        slots = ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")
        op_type = "ApplyCenteredRMSProp" if self._centered else "ApplyRMSProp"
        states = [var, *(self._slots[slot][var] for slot in slots)]
        numbers = [hyperparameter(n, var) for n in self._numbers]
        return self._apply(prefix + op_type, states, *numbers, *grads)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._run("", var, grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        return self._run("Sparse", var, grad, indices)


class AdamOptimizer(Optimizer):
    """Steps by running averages of the gradient and its square, corrected for their start."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-08,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._beta1, self._beta2 = learning_rate, beta1, beta2
        self._epsilon = epsilon

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda v: v.name)
        self._power1 = self._counter(_number(self._beta1), "beta1_power", first)
        self._power2 = self._counter(_number(self._beta2), "beta2_power", first)
        for var in var_list:
            self._slot(var, "m", self._name)
            self._slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._rate = as_hyperparameter(self._learning_rate, "learning_rate")
        self._decay1 = as_hyperparameter(self._beta1, "beta1")
        self._decay2 = as_hyperparameter(self._beta2, "beta2")
        self._small = as_hyperparameter(self._epsilon, "epsilon")

    def _numbers(self, var: Variable) -> list[Tensor]:
        given = (self._power1, self._power2, self._rate, self._decay1, self._decay2, self._small)
        return [hyperparameter(n, var) for n in given]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        states = [var, self._slots["m"][var], self._slots["v"][var]]
        return self._apply("ApplyAdam", states, *self._numbers(var), grad)

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        power1, power2, rate, beta1, beta2, small = self._numbers(var)
        rate = rate * unary.sqrt(1 - power2) / (1 - power1)
        m = self._decayed(self._slots["m"][var], beta1, indices, grad * (1 - beta1))
        v = self._decayed(self._slots["v"][var], beta2, indices, grad * grad * (1 - beta2))
        step = rate * m / (unary.sqrt(v) + small)
        update = var.assign_sub(step, use_locking=self._use_locking, read_value=False)
        return ordering.group(update, m, v)

    def _decayed(self, slot: Variable, share: Tensor, indices: Tensor, rows: Tensor) -> Tensor:
        """The slot after it shrank to its share and the rows were added to it."""
        shrunk = slot.assign(slot.value() * share, use_locking=self._use_locking, read_value=False)
        with control_dependencies([shrunk]):
            if not slot._is_resource:
                return scatter_add(slot, indices, rows, self._use_locking)
            added = add_to_rows(slot.handle, indices, rows)
            with control_dependencies([added]):
                return slot.value()

    def _finish(self, updates: list[Operation], name: str) -> Operation:
        # Every update reads the powers, so they change after all of them.
        with control_dependencies(updates), self._power1.graph.colocate_with(self._power1.op):
            next1 = self._power1.assign(
                self._power1.value() * self._decay1, use_locking=self._use_locking,
                read_value=False,
            )  # fmt: skip
            next2 = self._power2.assign(
                self._power2.value() * self._decay2, use_locking=self._use_locking,
                read_value=False,
            )  # fmt: skip
        return ordering.group(*updates, next1, next2, name=name)


def _number(value: Any) -> Any:
    return value() if callable(value) else value
