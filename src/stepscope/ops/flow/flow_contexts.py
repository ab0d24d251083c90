"""The branch or the loop that operations are being made in, and what that does to them.

An op made inside a branch gets the tensors from outside through a `Switch`, one made inside a loop
through an `Enter`; an op without inputs waits for the branch or the iteration instead. What is made
is, node by node and name by name, what TensorFlow 1 makes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stepscope.graph.build import constant_op
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import int32
from stepscope.graph.graph import Graph
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.flow.switches import (
    ENTERS,
    EXITS,
    enter,
    exit_loop,
    identity_in_loop,
    merge,
    next_iteration,
    switch,
)
from stepscope.ops.math.elementwise import add

__all__ = [
    "BranchContext",
    "Context",
    "LoopContext",
    "LoopVariable",
    "context_outside",
    "current_context",
]


def current_context(graph: Graph) -> Context | None:
    """The innermost branch or loop that the graph's ops are being made in."""
    context = graph._scopes.context
    assert context is None or isinstance(context, Context)
    return context


class Context(ABC):
    """What branches and loops have in common."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outer = current_context(graph)
        self._inside: set[Tensor] = set()
        self._stands_for: dict[Tensor, Tensor] = {}
        """Tensors from outside, and what they are in here."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Ops made now are made in here."""
        with self.graph.flow_context(self):
            yield

    @property
    def loop(self) -> LoopContext | None:
        """The innermost loop around."""
        context: Context | None = self
        while context is not None and not isinstance(context, LoopContext):
            context = context.outer
        return context

    def add_op(self, op: Operation) -> None:
        op._context = self
        external: list[Operation] = []
        if op.inputs:
            op._set_inputs([self.bring_in(tensor) for tensor in op.inputs])
            external = self._drop_external_controls(op)
        else:
            external = self._drop_external_controls(op)
            if self._needs_pivot(op):
                op._add_control_input(self._pivot().op)
        self._finish(op, external)
        self._know(list(op.values()))

    def _know(self, tensors: list[Tensor]) -> None:
        context: Context | None = self
        while context is not None:
            context._inside.update(tensors)
            context = context.outer

    def _drop_external_controls(self, op: Operation) -> list[Operation]:
        """Take away what the op waits for outside of the loop; what that was."""
        loop = self.loop
        if loop is None:
            return []
        internal: list[Operation] = []
        external: list[Operation] = []
        for waited in op.control_inputs:
            context = context_outside(waited)
            inside = context is not None and context.loop is loop
            (internal if inside else external).append(waited)
        if external:
            op._set_control_inputs(internal)
        return external

    def bring_in(self, tensor: Tensor) -> Tensor:
        """The tensor as ops in here see it."""
        known = self._stands_for.get(tensor)
        if known is not None:
            return known
        if tensor in self._inside:
            return tensor
        value = self._brought(tensor if self.outer is None else self.outer.bring_in(tensor))
        self._know([value])
        self._stands_for[tensor] = value
        return value

    @abstractmethod
    def _brought(self, value: Tensor) -> Tensor:
        """A tensor from just outside, made one of in here."""

    @abstractmethod
    def _needs_pivot(self, op: Operation) -> bool:
        """Whether an op without inputs has to be made to wait."""

    @abstractmethod
    def _pivot(self) -> Tensor:
        """What such an op waits for."""

    @abstractmethod
    def _finish(self, op: Operation, external: list[Operation]) -> None:
        """The op is as it stays, but for what it waited for outside."""


class BranchContext(Context):
    """One branch of a conditional."""

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int) -> None:
        super().__init__(pred.graph)
        self.pred = pred
        self.branch = branch
        self._branch_pivot = pivot
        self._inside |= {pred, pivot}

    def _pivot(self) -> Tensor:
        return self._branch_pivot

    def _needs_pivot(self, op: Operation) -> bool:
        return not any(self._holds(waited) for waited in op.control_inputs)

    def _holds(self, op: Operation) -> bool:
        """Whether an op was made in here, or in a branch or loop that is in here."""
        context: Context | None = op._context
        while context is not None and context is not self:
            context = context.outer
        return context is self

    def _finish(self, op: Operation, external: list[Operation]) -> None:
        pass

    def _brought(self, value: Tensor) -> Tensor:
        with self.graph.control_dependencies(None):
            made = switch(value, self.pred)[self.branch]
        made.op._context = self
        return made

    def result(self, tensor: Tensor) -> Tensor:
        """A tensor that the branch gives out."""
        if tensor in self._inside or tensor in self._stands_for:
            return self._stands_for.get(tensor, tensor)
        value = tensor if self.outer is None else self.outer.bring_in(tensor)
        with self.graph.flow_context(self.outer):
            value = switch(value, self.pred)[self.branch]
        # It is there only where this branch is taken, whichever context its op was made in.
        value.op._context = self
        self._know([value])
        return value


@dataclass(eq=False, slots=True)
class LoopVariable:
    """What a variable of a loop is at each place that it passes."""

    entered: Tensor
    merged: Tensor
    """At the beginning of an iteration, before it is decided whether there is one."""
    inside: Tensor
    """What the body works with."""
    left: Tensor
    """After the last iteration, outside."""
    given: Tensor | None = None
    """What the body makes of it for the next iteration."""
    is_flow: bool = False
    """Whether it stands for a TensorArray."""


def _counts(variable: LoopVariable) -> bool:
    """Whether a variable begins as 0 and is one more in each iteration."""
    if variable.merged.dtype is not int32 or variable.merged.shape.rank != 0:
        return False
    given = variable.given
    if given is None or given.op.type not in ("Add", "AddV2"):
        return False
    first, second = given.op.inputs
    start, step = constant_value(variable.entered.op.inputs[0]), constant_value(second)
    return (
        first is variable.inside
        and (start is not None and int(start) == 0)
        and (step is not None and int(step) == 1)
    )


class LoopContext(Context):
    """A loop.

    A loop that is complete may be given more variables (`open_variable`, `close_variable`): whoever
    does not use them executes nothing of them.
    """

    def __init__(self, graph: Graph, parallel_iterations: int, back_prop: bool = True) -> None:
        super().__init__(graph)
        self.name = graph.unique_name("while_context")
        self.parallel_iterations = parallel_iterations
        self.back_prop = back_prop
        """Whether it may be differentiated."""
        self.pivot_for_pred: Tensor | None = None
        self.pivot_for_body: Tensor | None = None
        self.goes_on: Tensor | None = None
        """Whether there is an iteration: what `LoopCond` gives."""
        self.variables: list[LoopVariable] = []
        self.invariants: list[Tensor] = []
        """What comes from outside into every iteration, as it is inside."""
        self.in_condition: set[Operation] = set()
        """The ops that decide whether there is an iteration: they execute once more often."""
        self.saved: dict[Tensor, Any] = {}
        """What is kept of all iterations for those who go back through them."""
        self._counter: LoopVariable | None = None

    def add_op(self, op: Operation) -> None:
        super().add_op(op)
        if self.goes_on is None:
            self.in_condition.add(op)

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor is part of an iteration, or of what is in it."""
        context = context_outside(tensor.op)
        while context is not None and context is not self:
            context = context.outer
        return context is self

    def open_variable(
        self, initial: Tensor, shape: TensorShape | None = None, *, is_flow: bool = False
    ) -> LoopVariable:
        """One more variable. It is complete when `close_variable` has said what it becomes."""
        assert self.goes_on is not None
        graph = self.graph
        with graph.control_dependencies(None), graph.colocate_with(None, ignore_existing=True):
            with graph.flow_context(self.outer):
                entered = self.enter_variable(initial)
            entered.set_shape(initial.shape if shape is None else shape)
            with self.entered():
                merged = merge([entered, entered])[0]
                false, true = switch(merged, self.goes_on)
                inside = identity_in_loop(true)
                left = exit_loop(false)
        if self.outer is not None:
            self.outer._know([left])
        made = LoopVariable(entered, merged, inside, left, is_flow=is_flow)
        self.variables.append(made)
        return made

    def close_variable(self, variable: LoopVariable, given: Tensor) -> None:
        """What the body makes of a variable that was opened."""
        graph = self.graph
        with graph.control_dependencies(None), self.entered():
            following = next_iteration(given)
        variable.given = following.op.inputs[0]
        variable.merged.op._set_inputs([variable.entered, following])

    def add_variable(self, initial: Tensor, step: Callable[[Tensor], Tensor]) -> LoopVariable:
        """One more variable, which each iteration makes `step` of."""
        variable = self.open_variable(initial)
        with self.graph.control_dependencies(None), self.entered():
            given = step(variable.inside)
        self.close_variable(variable, given)
        return variable

    @property
    def counter(self) -> LoopVariable:
        """A variable that counts the iterations: one that does so already, or one more."""
        if self._counter is None:
            self._counter = next((v for v in self.variables if _counts(v)), None)
        if self._counter is None:
            with self.graph.control_dependencies(None), self.graph.flow_context(self.outer):
                none = constant_op(0, int32, name="iterations", graph=self.graph)
            self._counter = self.add_variable(none, lambda i: add(i, 1))
        return self._counter

    def _pivot(self) -> Tensor:
        pivot = self.pivot_for_body if self.pivot_for_body is not None else self.pivot_for_pred
        assert pivot is not None
        return pivot

    def _needs_pivot(self, op: Operation) -> bool:
        return not op.control_inputs

    def _finish(self, op: Operation, external: list[Operation]) -> None:
        if op.inputs and not op.control_inputs and all(_is_constant_enter(t.op) for t in op.inputs):
            # Nothing else would keep it from running once more after the last iteration.
            op._add_control_input(self._pivot().op)
        if external:
            with self.graph.control_dependencies(None), self.entered():
                waited = [identity(x.values()[0]).op for x in external if x.values()]
            op._add_control_inputs(waited)

    def enter_variable(self, tensor: Tensor) -> Tensor:
        """A loop variable as it comes into the first iteration."""
        value = tensor if self.outer is None else self.outer.bring_in(tensor)
        entered = self._enter(value, is_constant=False)
        self._know([entered])
        return entered

    def _brought(self, value: Tensor) -> Tensor:
        return self._enter(value, is_constant=True)

    def _enter(self, value: Tensor, *, is_constant: bool) -> Tensor:
        with self.graph.control_dependencies(None):
            made = enter(value, self.name, is_constant=is_constant,
                         parallel_iterations=self.parallel_iterations)  # fmt: skip
            if is_constant:
                made.set_shape(value.shape)
                self.invariants.append(made)
        made.op._context = self
        made.op._add_control_inputs(self._waited_for_outside(value))
        self.graph._waits_already(made.op)
        return made

    def _waited_for_outside(self, value: Tensor) -> list[Operation]:
        """What the blocks around make an Enter wait for, in the iteration it comes from."""
        around: list[Context | None] = []
        context = self.outer
        while context is not None and not isinstance(context, LoopContext):
            around.append(context)
            context = context.outer
        around.append(context)
        controls = self.graph._implied_controls([value], [])
        return [op for op in controls if context_outside(op) in around]


def context_outside(op: Operation) -> Context | None:
    """The branch or loop that an op's outputs are in: an Exit's are outside of its loop."""
    context: Context | None = op._context
    return context.outer if context is not None and op.type in EXITS else context


def _is_constant_enter(op: Operation) -> bool:
    return op.type in ENTERS and bool(op.get_attr("is_constant"))
