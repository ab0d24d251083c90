"""The way back through a graph: which ops lie between, in which order, how gradients are summed.

The way goes from unit to unit. A unit is an op or, as a whole, a loop: what comes into it are its
inputs, what leaves it its outputs, and how gradients go through it is asked of `through_loop`,
which takes the way back through its body, in turn. An op inside of a loop is met there alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.arrays import constants, joining
from stepscope.ops.flow import ordering
from stepscope.ops.flow.flow_contexts import Context, LoopContext, LoopVariable
from stepscope.ops.flow.switches import ENTERS, EXITS
from stepscope.ops.math import elementwise

Part = Tensor | IndexedSlices
Unit = Operation | LoopContext
ThroughLoop = Callable[
    [LoopContext, Mapping[LoopVariable, Part], Collection[Operation]], Mapping[Tensor, Part]
]
"""Given a loop, the gradients of what leaves it, and the ops that gradients are wanted through: the
gradients of what comes into it, by the tensor that it is inside."""

_PASS_ROWS_ON = frozenset(
    ("AddN", "Enter", "EnsureShape", "Identity", "IdentityN", "PlaceholderWithDefault",
     "ReadVariableOp")
)  # fmt: skip
"""Op types whose gradient is the gradient itself, be it a tensor or some rows of one."""


def differentiable(tensor: Tensor) -> bool:
    return is_number(tensor) or tensor.dtype.base_dtype.name in ("resource", "variant")


def is_number(tensor: Tensor) -> bool:
    """Whether it is differentiable itself, and no handle to something that is."""
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex


class Backward:
    """One way back through the units between `causes` and `results`.

    `level` is the loop that gradients are made of the inside of, if any: of its variables an
    iteration knows no cause. The way ends at the ops in `leaves`.
    """

    def __init__(
        self,
        results: Sequence[Tensor],
        causes: Sequence[Tensor],
        through_loop: ThroughLoop,
        *,
        stops: Sequence[Tensor] = (),
        gated: bool = False,
        colocated: bool = False,
        level: LoopContext | None = None,
        leaves: Collection[Operation] = (),
    ) -> None:
        self._gated = gated
        self._colocated = colocated
        self._causes = causes
        self._results = results
        self._through_loop = through_loop
        self._stopped = {t.op for t in stops}
        self._around = _loops_around(level)
        self._leaves = set(leaves) | {
            variable.merged.op
            for loop in self._around
            if loop is not None
            for variable in loop.variables
        }
        self._between = self._leading_to(results, _reachable_from(causes))
        # How many uses of a unit's outputs have not yet sent their gradient.
        self._open: dict[Unit, int] = dict.fromkeys(map(self._unit, self._between), 0)
        for unit in self._open:
            for tensor in self._inputs(unit):
                source = self._unit(tensor.op)
                if source in self._open:
                    self._open[source] += 1
        self._parts: dict[Tensor, list[Part]] = {}

    def run(self, seeds: Sequence[Part]) -> list[Part | None]:
        """The gradient of each cause."""
        for y, seed in zip(self._results, seeds, strict=True):
            self._parts.setdefault(y, []).append(seed)
        units = dict.fromkeys(self._unit(y.op) for y in self._results)
        ready = deque(unit for unit in units if self._is_due(unit))
        summed: dict[Tensor, Part | None] = {}
        visited: set[Unit] = set()
        while ready:
            unit = ready.popleft()
            if unit in visited:
                continue
            visited.add(unit)
            for tensor in _outputs(unit):
                summed[tensor] = _total(self._parts.pop(tensor, []))
            if isinstance(unit, LoopContext):
                self._send_through(unit, summed)
            else:
                self._send_back(unit, [summed[t] for t in unit.outputs])
            for tensor in self._inputs(unit):
                source = self._unit(tensor.op)
                if source in self._open:
                    self._open[source] -= 1
                    if self._is_due(source):
                        ready.append(source)
        for tensor, parts in self._parts.items():
            summed.setdefault(tensor, _total(parts))
        return [summed.get(x) for x in self._causes]

    def _is_due(self, unit: Unit) -> bool:
        return self._open.get(unit, 0) == 0

    # -- units ---------------------------------------------------------------------------------

    def _unit(self, op: Operation) -> Unit:
        """The op, or the outermost loop around it that is not around the whole way."""
        context: Context | None = op._context
        loop = None if context is None else context.loop
        found: Unit = op
        while loop not in self._around:
            assert loop is not None
            found = loop
            loop = None if loop.outer is None else loop.outer.loop
        return found

    def _inputs(self, unit: Unit) -> list[Tensor]:
        if isinstance(unit, LoopContext):
            return [t.op.inputs[0] for t in _entering(unit) if t.op in self._between]
        return [] if unit in self._leaves else list(unit.inputs)

    # -- gradients -----------------------------------------------------------------------------

    def _send_through(self, loop: LoopContext, summed: Mapping[Tensor, Part | None]) -> None:
        """Take gradients from what leaves a loop to what comes into it."""
        given = {
            v: grad for v in loop.variables if (grad := summed.get(v.left)) is not None
        }  # fmt: skip
        if not given or not loop.back_prop:
            return
        with name_scope(f"{loop.variables[0].entered.op.name.rpartition('/')[0] or 'while'}_grad"):
            found = self._through_loop(loop, given, self._between)
        for entered, gradient in found.items():
            self._parts.setdefault(entered.op.inputs[0], []).append(gradient)

    def _send_back(self, op: Operation, outputs: list[Part | None]) -> None:
        if op in self._stopped or op in self._leaves or op not in self._between:
            return
        if all(g is None for g in outputs) or not self._goes_on(op):
            return
        takes_rows = op.type in _PASS_ROWS_ON
        outputs = [g if g is None or takes_rows else as_dense(g) for g in outputs]
        if op.type in ENTERS and op.get_attr("is_constant"):
            # The loop around the whole way: in one iteration it is what it is outside.
            self._parts.setdefault(op.inputs[0], []).extend(g for g in outputs if g is not None)
            return
        function = op.op_type.gradient
        if function is None:
            what = ""
            if op.type in EXITS:
                what = ": it is part of a loop that was not made by tf.while_loop, but imported"
            raise LookupError(
                f"No gradient is defined for operation {op.name!r} (op type: {op.type}), made at "
                f"{op.source or 'an unknown place'}{what}; tf.stop_gradient ends gradients before "
                "it"
            )
        fills = len(outputs) > 1 and op.type != "Switch"
        filled = [
            constants.zeros_like(t) if g is None and fills and is_number(t) else g
            for t, g in zip(op.outputs, outputs, strict=True)
        ]
        beside = op.graph.colocate_with(op) if self._colocated else nullcontext()
        with name_scope(f"{op.name}_grad"), beside:
            given = function(op, *filled)
        given = [given] if not isinstance(given, (list, tuple)) else list(given)
        if len(given) != len(op.inputs):
            raise ValueError(
                f"the gradient of {op.type} gave {len(given)} gradients for the {len(op.inputs)} "
                f"inputs of {op.name!r}: it must give one, or None, for each"
            )
        needed = [
            g if self._unit(t.op) in self._open else None
            for t, g in zip(op.inputs, given, strict=True)
        ]
        if self._gated and sum(g is not None for g in needed) > 1:
            with name_scope(f"{op.name}_grad/"):
                needed = ordering.tuple(needed)
        for tensor, gradient in zip(op.inputs, needed, strict=True):
            if gradient is None:
                continue
            if isinstance(gradient, Tensor) and tensor.dtype.base_dtype.name != "resource":
                self._check_shape(op, tensor, gradient)
                gradient.set_shape(tensor.shape)
            self._parts.setdefault(tensor, []).append(gradient)

    def _goes_on(self, op: Operation) -> bool:
        return any(self._unit(t.op) in self._open for t in op.inputs)

    @staticmethod
    def _check_shape(op: Operation, tensor: Tensor, gradient: Tensor) -> None:
        if not gradient.shape.is_compatible_with(tensor.shape):
            raise InvalidArgumentError(
                None, op,
                f"the gradient of {op.type} for {tensor.name} has shape {gradient.shape}, the "
                f"tensor has {tensor.shape}",
            )  # fmt: skip

    def _leading_to(self, results: Sequence[Tensor], among: set[Operation]) -> set[Operation]:
        """The ops from which a way of numbers that can vary goes to the results, within `among`."""
        found: set[Operation] = set()
        queue = deque(y.op for y in results)
        while queue:
            op = queue.popleft()
            if op not in found and op in among:
                found.add(op)
                if op not in self._leaves:
                    queue.extend(t.op for t in op.inputs if differentiable(t))
        return found


def _loops_around(level: LoopContext | None) -> list[LoopContext | None]:
    """The loop and those around it; None, outside of all, is last."""
    around: list[LoopContext | None] = [level]
    while level is not None:
        level = None if level.outer is None else level.outer.loop
        around.append(level)
    return around


def _entering(loop: LoopContext) -> list[Tensor]:
    return [*(v.entered for v in loop.variables), *loop.invariants]


def _outputs(unit: Unit) -> list[Tensor]:
    return [v.left for v in unit.variables] if isinstance(unit, LoopContext) else unit.outputs


def _reachable_from(causes: Sequence[Tensor]) -> set[Operation]:
    """The ops that depend on the causes by numbers that can vary, and those that make them."""
    found: set[Operation] = set()
    queue = deque(x.op for x in causes)
    consumers: dict[Operation, list[Operation]] = {}
    if causes:
        for op in causes[0].graph.get_operations():
            for tensor in op.inputs:
                if differentiable(tensor):
                    consumers.setdefault(tensor.op, []).append(op)
    while queue:
        op = queue.popleft()
        if op not in found:
            found.add(op)
            queue.extend(consumers.get(op, ()))
    return found


def _total(parts: Sequence[Part]) -> Part | None:
    """The sum of gradients that meet."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, IndexedSlices) for part in parts):
        slices = [part for part in parts if isinstance(part, IndexedSlices)]
        return IndexedSlices(
            joining.concat([part.values for part in slices], 0),
            joining.concat([part.indices for part in slices], 0),
            slices[0].dense_shape,
        )
    return elementwise.add_n([as_dense(part) for part in parts])


def as_dense(part: Part) -> Tensor:
    """A gradient as one tensor: rows that are not in it become zeros."""
    return convert_to_tensor(part)
