"""Gradients through `while_loop`: a loop that goes through the iterations of another one backwards.

For a loop whose body makes `y` of the variable `x` and of what comes from outside, `w`:

    forward                             backward
    n, x = 0, x0                        i, dx, dw = n, dxn, 0
    while goes_on(x):                   while i > 0:
        n, x = n + 1, body(x, w)            i = i - 1
                                            a, b = gradient of body at iteration i, given dx
                                            dx, dw = a, dw + b

The backward loop is a loop as any other, so it has gradients as well. What the gradient of the body
needs of iteration i, the forward loop keeps in TensorArrays, one per tensor (`_Savings`), as a
variable that it has from then on; a run that wants no gradients does not execute it. The arrays let
go of an element once it was read, unless several backward loops need it. Not kept, but found again,
is what is the same in all iterations: what comes from outside, constants, and the flow of a
TensorArray, which is that after the last iteration: the backward loop comes after the forward one.

A value that is made in a branch is kept only where that branch is taken, and read only there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import resource
from stepscope.graph.graph import Graph
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.constants import zeros, zeros_like
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.flow.backward import Backward, Part, as_dense, differentiable, is_number
from stepscope.ops.flow.flow_contexts import LoopContext, LoopVariable
from stepscope.ops.flow.guards import Guard, guards
from stepscope.ops.flow.switches import (
    ENTERS,
    SWITCHES,
    exit_loop,
    identity_in_loop,
    loop_cond,
    merge,
    next_iteration,
    switch,
)
from stepscope.ops.flow.tensor_array import TensorArray
from stepscope.ops.math.comparison import greater
from stepscope.ops.math.elementwise import add, subtract


def through_loop(
    loop: LoopContext, given: Mapping[LoopVariable, Part], between: Collection[Operation]
) -> dict[Tensor, Part]:
    """Build the backward loop; the gradients of what comes into the loop, by what it is inside.

    `given` are the gradients of what leaves the loop; gradients are made of what is `between`.
    """
    graph = loop.graph
    varied = [v for v in loop.variables if v.merged.op in between and is_number(v.merged)]
    constant = [t for t in loop.invariants if t.op in between and differentiable(t)]
    back = BackwardLoop(loop, graph)
    opened = {}
    for variable in varied:
        part = given.get(variable)
        if part is not None:
            start = as_dense(part)
        else:
            # Of a flow that nobody waits for, the gradient waits for the loop all the same.
            start = variable.left if variable.is_flow else zeros_like(variable.left)
        opened[variable] = back.open_variable(
            start, variable.merged.shape, is_flow=variable.is_flow
        )
    with back.entered():
        results = [v.given for v in varied if v.given is not None]
        causes = [v.merged for v in varied] + constant
        way = Backward(
            results, causes, through_loop, level=loop, leaves=[t.op for t in constant]
        )  # fmt: skip
        found = way.run([opened[v].inside for v in varied])
        sums = [None if part is None else as_dense(part) for part in found]
        for variable, total in zip(varied, sums, strict=False):
            made = opened[variable]
            if total is None:
                total = made.inside if variable.is_flow else zeros_like(variable.inside)
            back.close_variable(made, total)
    gradients: dict[Tensor, Part] = {v.entered: opened[v].left for v in varied}
    for tensor, total in zip(constant, sums[len(varied) :], strict=True):
        if total is not None:
            start = _zeros_for(tensor.op.inputs[0], total)
            gradients[tensor] = back.add_variable(start, partial(add, total)).left
    back.close()
    return gradients


def _zeros_for(tensor: Tensor, gradient: Tensor) -> Tensor:
    """Zeros of the shape of a tensor, or of the variable that a handle stands for."""
    if tensor.dtype.base_dtype is not resource:
        return zeros_like(tensor)
    if gradient.shape.is_fully_defined():
        return zeros(gradient.shape, gradient.dtype.base_dtype)
    value = apply_op("ReadVariableOp", tensor, dtype=gradient.dtype.base_dtype).values()[0]
    return zeros_like(value)


class BackwardLoop(LoopContext):
    """The loop that goes through the iterations of `forward` backwards.

    To the ops in it, a tensor of an iteration of `forward` is what it was in that iteration.
    """

    def __init__(self, forward: LoopContext, graph: Graph) -> None:
        super().__init__(graph, forward.parallel_iterations)
        self._forward = forward
        self._savings = _Savings(forward)
        self._count_down(forward.counter.left)

    def _count_down(self, count: Tensor) -> None:
        graph = self.graph
        with graph.control_dependencies(None):
            with graph.flow_context(self.outer):
                entered = self.enter_variable(count)
            entered.set_shape(TensorShape(()))
            with self.entered():
                merged = merge([entered, entered])[0]
                self.pivot_for_pred = merged
                self.goes_on = loop_cond(greater(merged, 0))
                false, true = switch(merged, self.goes_on)
                inside = self.pivot_for_body = identity_in_loop(true)
                self._index = subtract(inside, 1)
                merged.op._set_inputs([entered, next_iteration(self._index)])
                left = exit_loop(false)
        if self.outer is not None:
            self.outer._know([left])
        self.variables.append(LoopVariable(entered, merged, inside, left, self._index))

    def close(self) -> None:
        """The loop is complete: it needs nothing more of the forward loop."""
        self._savings.close()

    def bring_in(self, tensor: Tensor) -> Tensor:
        known = self._stands_for.get(tensor)
        if known is not None:
            return known
        if tensor in self._inside or not self._forward.holds(tensor):
            return super().bring_in(tensor)
        graph = self.graph
        with (
            graph.control_dependencies(None),
            graph.colocate_with(None, ignore_existing=True),
            self.entered(),
        ):
            value = self._recalled(tensor)
        self._stands_for[tensor] = value
        return value

    def _recalled(self, tensor: Tensor) -> Tensor:
        """What a tensor was in the iteration that this one goes back through."""
        op = tensor.op
        forward = self._forward
        flow = self._flow_at_end(tensor)
        if flow is not None:
            return self.bring_in(flow)
        if op.type in ENTERS and op._context is forward and op.get_attr("is_constant"):
            return self.bring_in(op.inputs[0])
        if op.type == "Const":
            made = op.graph.create_op("Const", [], {"value": op.get_attr("value"),
                                                    "dtype": op.get_attr("dtype")})  # fmt: skip
            return made.values()[0]
        if op.type in SWITCHES and op.inputs[1].op.type != "LoopCond":
            data, pred = (self.bring_in(t) for t in op.inputs)
            return switch(data, pred)[tensor.value_index]
        for variable in forward.variables:
            if tensor is variable.merged:
                return self.bring_in(variable.inside)
        saved = self._savings.saved(tensor, self)
        flow = saved.array.flow
        for pred, branch in saved.guards:
            flow = switch(flow, self.bring_in(pred))[branch]
        value = saved.array._after(flow).read(self._index)
        value.set_shape(tensor.shape)
        return value

    def _flow_at_end(self, tensor: Tensor) -> Tensor | None:
        """The flow of a loop's TensorArray after the last iteration, for that of any iteration."""
        while True:
            for variable in self._forward.variables:
                if tensor is variable.merged or tensor is variable.inside:
                    return variable.left if variable.is_flow else None
            op = tensor.op
            if op.type not in _FLOWS or op._context is not self._forward:
                return None
            tensor = op.inputs[-1]


_FLOWS = frozenset({"TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3"})


@dataclass(eq=False, slots=True)
class _Saved:
    """A tensor of a loop, kept for all iterations."""

    array: TensorArray
    """With the flow that it has after the loop."""
    guards: list[Guard]
    """Where it is made: elsewhere there is nothing."""
    reader: BackwardLoop

    def read_by(self, loop: BackwardLoop) -> None:
        if self.reader is not loop:
            self.array.handle.op._set_attr("clear_after_read", False)


class _Savings:
    """What a loop keeps of its iterations for one backward loop.

    One flow keeps all its arrays in order: it is one variable of the loop, however many there are.
    """

    def __init__(self, loop: LoopContext) -> None:
        self._loop = loop
        self._variable: LoopVariable | None = None
        self._flow: Tensor | None = None

    def close(self) -> None:
        """Nothing more is kept."""
        if self._variable is not None:
            assert self._flow is not None
            self._loop.close_variable(self._variable, self._flow)

    def saved(self, tensor: Tensor, reader: BackwardLoop) -> _Saved:
        """The tensor as it is kept: already, or from now on."""
        known = self._loop.saved.get(tensor)
        if isinstance(known, _Saved):
            known.read_by(reader)
            return known
        graph = self._loop.graph
        with graph.control_dependencies(None), graph.colocate_with(None, ignore_existing=True):
            return self._save(tensor, reader)

    def _save(self, tensor: Tensor, reader: BackwardLoop) -> _Saved:
        loop = self._loop
        with loop.graph.flow_context(loop.outer):
            array = TensorArray(
                tensor.dtype.base_dtype, size=0, dynamic_size=True, infer_shape=False
            )
        conditions = guards(tensor, loop)
        index = loop.counter.inside
        if self._variable is None:
            self._variable = loop.open_variable(array.flow, is_flow=True)
            self._flow = self._variable.inside
        assert self._flow is not None
        with loop.entered():
            value = tensor
            if tensor.op in loop.in_condition:
                assert loop.goes_on is not None
                value = identity(switch(tensor, loop.goes_on)[1])
            flow = self._flow
            past: list[Tensor] = []
            for pred, branch in conditions:
                ways = switch(flow, pred)
                flow = ways[branch]
                past.append(ways[1 - branch])
            flow = array._after(flow).write(index, value).flow
            for other in reversed(past):
                flow = merge([other, flow])[0]
            self._flow = flow
        saved = loop.saved[tensor] = _Saved(array._after(self._variable.left), conditions, reader)
        return saved
