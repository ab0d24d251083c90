"""`Optimizer`: from a loss to the op that makes one step of training.

The nodes, the slot variables and their names are TensorFlow's: a slot of `w` is `w/Momentum`, the
update of `w` is `Momentum/update_w/ApplyMomentum`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.graph import Graph, GraphKeys, name_scope
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.variable_scope import get_variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays import conversion
from stepscope.ops.flow import ordering
from stepscope.ops.flow.gradients import gradients
from stepscope.ops.math import segments
from stepscope.ops.signatures import output_of
from stepscope.ops.state.variable import Variable, assign_add
from stepscope.ops.state.variable_collections import trainable_variables


class Optimizer:
    """The base of all: a subclass says which slots it keeps and how one variable is updated."""

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[Variable, Variable]] = {}
        self._non_slots: dict[tuple[str, Graph], Variable] = {}

    # -- what a subclass decides ---------------------------------------------------------------

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        """Make what is kept per variable."""

    def _prepare(self) -> None:
        """Make the tensors of the hyperparameters."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        raise NotImplementedError

    def _apply_sparse(self, grad: Tensor, indices: Tensor, var: Variable) -> Operation:
        """Update the rows at `indices`, each of which comes once."""
        raise NotImplementedError

    def _apply_rows(self, grad: IndexedSlices, var: Variable) -> Operation:
        places, order = segments.unique(grad.indices)
        count = output_of("Shape", places)[0]
        summed = segments.unsorted_segment_sum(grad.values, order, count)
        return self._apply_sparse(summed, places, var)

    def _finish(self, updates: list[Operation], name: str) -> Operation:
        """The op that is done when all updates are."""
        return ordering.group(*updates, name=name)

    # -- what a user calls ---------------------------------------------------------------------

    def get_name(self) -> str:
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """One step: `compute_gradients`, then `apply_gradients`. `global_step` counts it."""
        pairs = self.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops,
            grad_loss,
        )  # fmt: skip
        if all(grad is None for grad, _ in pairs):
            listed = ", ".join(str(var) for _, var in pairs)
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not "
                f"support gradients, between variables {listed} and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Pairs of gradient (a tensor, IndexedSlices or None) and variable.

        `var_list` is all trainable variables if left out. `gate_gradients` says what is waited for
        before a gradient is used: nothing, the gradients of the same op, or all of them.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, "
                f"Optimizer.GATE_GRAPH. Not {gate_gradients}"
            )
        variables = trainable_variables() if var_list is None else structures.leaves(var_list)
        if not variables:
            raise ValueError("No variables to optimize.")
        for var in variables:
            if not isinstance(var, Variable):
                raise TypeError(f"Argument is not a tf.Variable: {var!r}")
            if not var.dtype.base_dtype.is_floating:
                raise ValueError(
                    f"Invalid type {var.dtype.base_dtype!r} for {var.name}, expected: floats."
                )
        found = gradients(
            loss, variables, grad_ys=grad_loss, gate_gradients=gate_gradients == self.GATE_OP,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            aggregation_method=aggregation_method,
        )  # fmt: skip
        if gate_gradients == self.GATE_GRAPH:
            found = ordering.tuple(found)
        return list(zip(found, variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Operation:
        """The op that updates the variables; variables whose gradient is None stay as they are."""
        given = list(grads_and_vars)
        if not given:
            raise ValueError("No variables provided.")
        pairs = [(_as_gradient(grad, var), var) for grad, var in given if grad is not None]
        if not pairs:
            listed = [str(var) for _, var in given]
            raise ValueError(f"No gradients provided for any variable: {listed}.")
        variables = [var for _, var in pairs]
        graph = variables[0].graph
        with graph.as_default(), graph.control_dependencies(None):
            self._create_slots(variables)
        with graph.as_default(), name_scope(name, self._name) as scope:
            self._prepare()
            updates = []
            for grad, var in pairs:
                with graph.name_scope(f"update_{var.op.name}"), graph.colocate_with(var.op):
                    updates.append(self._update(grad, var))
            if global_step is None:
                done = self._finish(updates, scope)
            else:
                finished = self._finish(updates, "update")
                with graph.control_dependencies([finished]), graph.colocate_with(global_step):
                    done = _counted(global_step, scope)
            if done not in graph.get_collection(GraphKeys.TRAIN_OP):
                graph.add_to_collection(GraphKeys.TRAIN_OP, done)
            return done

    def get_slot(self, var: Any, name: str) -> Variable | None:
        """The slot of that name for the variable; None if there is none."""
        return self._slots.get(name, {}).get(var)

    def get_slot_names(self) -> list[str]:
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """Everything the optimizer keeps: slots and counters."""
        slots = [slot for kept in self._slots.values() for slot in kept.values()]
        return sorted([*slots, *self._non_slots.values()], key=lambda v: v.name)

    # -- for subclasses ------------------------------------------------------------------------

    def _update(self, grad: Tensor | IndexedSlices, var: Variable) -> Operation:
        if isinstance(grad, IndexedSlices):
            if var.constraint is not None:
                raise RuntimeError("Cannot use a constraint function on a sparse variable.")
            return self._apply_rows(grad, var)
        update = self._apply_dense(grad, var)
        if var.constraint is None:
            return update
        with var.graph.control_dependencies([update]):
            constrained: Operation = var.assign(var.constraint(var.read_value()), read_value=False)
            return constrained

    def _slot(
        self,
        var: Variable,
        slot: str,
        op_name: str,
        initial: Callable[..., Tensor] | None = None,
    ) -> Variable:
        """The slot of a variable, made (of zeros) where it is not there yet."""
        kept = self._slots.setdefault(slot, {})
        if var not in kept:
            graph, kind = var.graph, var.dtype.base_dtype
            make = initial if initial is not None else zeros_initializer()
            outer = get_variable_scope().name
            name = f"{outer}/{var.op.name}/{op_name}" if outer else f"{var.op.name}/{op_name}"
            with graph.name_scope(None), graph.colocate_with(var.op):
                kept[var] = Variable(
                    lambda: make(var.shape, dtype=kind),
                    trainable=False,
                    name=name,
                    dtype=kind,
                    use_resource=var._is_resource,
                )
        return kept[var]

    def _counter(self, initial: Any, name: str, beside: Variable) -> Variable:
        """A variable of the optimizer as a whole, made where it is not there yet."""
        key = (name, beside.graph)
        if key not in self._non_slots:
            with beside.graph.colocate_with(beside.op):
                self._non_slots[key] = Variable(
                    initial, name=name, trainable=False, use_resource=beside._is_resource
                )
        return self._non_slots[key]

    def _apply(
        self, op_type: str, states: Sequence[Variable], *args: Any, **attrs: Any
    ) -> Operation:
        """The training op of the variable's kind, on the variable and its slots."""
        if states[0]._is_resource:
            op_type, held = f"Resource{op_type}", [s.handle for s in states]
        else:
            held = [s._as_ref() for s in states]
        return apply_op(op_type, *held, *args, use_locking=self._use_locking, **attrs)


def hyperparameter(value: Any, var: Variable) -> Tensor:
    """A hyperparameter's tensor in the variable's dtype."""
    return conversion.cast(value, var.dtype.base_dtype)


def as_hyperparameter(value: Any, name: str) -> Tensor:
    return convert_to_tensor(value() if callable(value) else value, name=name)


def _as_gradient(grad: Any, var: Any) -> Tensor | IndexedSlices:
    if not isinstance(var, Variable):
        raise TypeError(f"Variable must be a tf.Variable: {var!r}")
    return grad if isinstance(grad, IndexedSlices) else convert_to_tensor(grad)


def _counted(step: Any, name: str) -> Operation:
    if isinstance(step, Variable) and step._is_resource:
        one = convert_to_tensor(1, step.dtype.base_dtype, "value")
        return apply_op("AssignAddVariableOp", step.handle, one, name=name)
    counted: Operation = assign_add(step, 1, name=name).op
    return counted
