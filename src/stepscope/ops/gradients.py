"""`gradients`: the graph that computes derivatives, built by going back from results to causes.

Each op type brings its own gradient function (`graph.registry.gradient`), beside its kernel. Here
is only the way back: which ops lie between, in which order, and how gradients that meet are summed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, ValuesView
from contextlib import nullcontext
from typing import Any

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import string
from stepscope.graph.graph import name_scope
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops import constants, control, elementwise, joining
from stepscope.ops.control_flow import EXITS

__all__ = ["as_dense", "gradients"]

Part = Tensor | IndexedSlices

_PASS_ROWS_ON = frozenset(
    ("AddN", "EnsureShape", "Identity", "IdentityN", "PlaceholderWithDefault", "ReadVariableOp")
)
"""Op types whose gradient is the gradient itself, be it a tensor or some rows of one."""


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
) -> list[Part | None]:
    """The derivative of the sum of `ys` with respect to each of `xs`; None where there is none.

    Nothing goes through integers: with respect to what is behind them there is no gradient.
    `grad_ys` weighs the elements of `ys` (ones if left out); `stop_gradients` are taken for
    constants; with `unconnected_gradients="zero"` zeros come in the place of None. With
    `gate_gradients` the gradients of one op's inputs are available all at once: none is used, say
    to change a variable, while another still reads it. An op on the way that has no gradient is a
    LookupError naming it.
    """
    del aggregation_method
    if unconnected_gradients not in ("none", "zero"):
        raise ValueError(
            f"unconnected_gradients must be 'none' or 'zero'; it was {unconnected_gradients!r}"
        )
    results, causes = _tensors(ys, "ys"), _tensors(xs, "xs")
    stops = _tensors(stop_gradients, "stop_gradients") if stop_gradients is not None else []
    with name_scope(name, "gradients", [*results, *causes]):
        seeds = _seeds(results, grad_ys)
        way = _Backward(results, causes, stops, gate_gradients, colocate_gradients_with_ops)
        found = way.run(seeds)
        if unconnected_gradients == "zero":
            given = _as_list(xs)
            return [
                constants.zeros_like(x) if g is None else g
                for x, g in zip(given, found, strict=True)
            ]
        return found


def _tensors(values: Any, what: str) -> list[Tensor]:
    items = list(values) if isinstance(values, (list, tuple, ValuesView)) else [values]
    tensors = []
    for item in items:
        # A variable is differentiated through what it is, not through one read of it.
        handle = getattr(item, "_gradient_source", None)
        tensors.append(handle() if handle is not None else convert_to_tensor(item, name=what))
    return tensors


def _seeds(results: Sequence[Tensor], given: Any) -> list[Part]:
    weights = [None] * len(results) if given is None else list(_as_list(given))
    if len(weights) != len(results):
        raise ValueError(f"grad_ys has {len(weights)} entries for {len(results)} ys")
    seeds: list[Part] = []
    for number, (y, weight) in enumerate(zip(results, weights, strict=True)):
        if y.dtype.base_dtype is string:
            raise TypeError(
                f"Gradients of {y.name} cannot be taken: it is of type string, and only numbers "
                "have gradients"
            )
        if weight is None:
            seeds.append(constants.ones_like(y, name=f"grad_ys_{number}"))
        elif isinstance(weight, IndexedSlices):
            seeds.append(weight)
        else:
            seeds.append(convert_to_tensor(weight, y.dtype.base_dtype, f"grad_ys_{number}"))
    return seeds


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _differentiable(tensor: Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or dtype.name in ("resource", "variant")


class _Backward:
    """One way back through the ops between `causes` and `results`."""

    def __init__(
        self,
        results: Sequence[Tensor],
        causes: Sequence[Tensor],
        stops: Sequence[Tensor],
        gated: bool,
        colocated: bool,
    ) -> None:
        self._gated = gated
        self._colocated = colocated
        self._causes = causes
        self._results = results
        self._stopped = {t.op for t in stops}
        between = _leading_to(results, _reachable_from(causes))
        self._between = between
        # How many uses of an op's outputs have not yet sent their gradient.
        self._open = dict.fromkeys(between, 0)
        for op in between:
            for tensor in op.inputs:
                if tensor.op in self._open:
                    self._open[tensor.op] += 1
        self._parts: dict[Tensor, list[Part]] = {}

    def run(self, seeds: Sequence[Part]) -> list[Part | None]:
        """The gradient of each cause."""
        for y, seed in zip(self._results, seeds, strict=True):
            self._parts.setdefault(y, []).append(seed)
        ready = deque(op for op in dict.fromkeys(y.op for y in self._results) if self._is_due(op))
        summed: dict[Tensor, Part | None] = {}
        visited: set[Operation] = set()
        while ready:
            op = ready.popleft()
            if op in visited:
                continue
            visited.add(op)
            for tensor in op.outputs:
                summed[tensor] = _total(self._parts.pop(tensor, []))
            self._send_back(op, [summed[t] for t in op.outputs])
            for tensor in op.inputs:
                source = tensor.op
                if source in self._open:
                    self._open[source] -= 1
                    if self._is_due(source):
                        ready.append(source)
        for tensor, parts in self._parts.items():
            summed.setdefault(tensor, _total(parts))
        return [summed.get(x) for x in self._causes]

    def _is_due(self, op: Operation) -> bool:
        return self._open.get(op, 0) == 0

    def _send_back(self, op: Operation, outputs: list[Part | None]) -> None:
        if op in self._stopped or op not in self._between:
            return
        if all(g is None for g in outputs) or not any(t.op in self._open for t in op.inputs):
            return
        function = op.op_type.gradient
        if function is None:
            what = ""
            if op.type in EXITS or op.type.startswith("TensorArray"):
                what = ": gradients through while loops and TensorArrays are not there"
            raise LookupError(
                f"No gradient is defined for operation {op.name!r} (op type: {op.type}), made at "
                f"{op.source or 'an unknown place'}{what}; tf.stop_gradient ends gradients before "
                "it"
            )
        takes_rows = op.type in _PASS_ROWS_ON
        outputs = [g if g is None or takes_rows else as_dense(g) for g in outputs]
        fills = len(outputs) > 1 and op.type != "Switch"
        filled = [
            constants.zeros_like(t) if g is None and _differentiable(t) and fills else g
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
        needed = [g if t.op in self._open else None for t, g in zip(op.inputs, given, strict=True)]
        if self._gated and sum(g is not None for g in needed) > 1:
            with name_scope(f"{op.name}_grad/"):
                needed = control.tuple(needed)
        for tensor, gradient in zip(op.inputs, needed, strict=True):
            if gradient is None:
                continue
            if isinstance(gradient, Tensor) and tensor.dtype.base_dtype.name != "resource":
                self._check_shape(op, tensor, gradient)
                gradient.set_shape(tensor.shape)
            self._parts.setdefault(tensor, []).append(gradient)

    @staticmethod
    def _check_shape(op: Operation, tensor: Tensor, gradient: Tensor) -> None:
        if not gradient.shape.is_compatible_with(tensor.shape):
            raise InvalidArgumentError(
                None, op,
                f"the gradient of {op.type} for {tensor.name} has shape {gradient.shape}, the "
                f"tensor has {tensor.shape}",
            )  # fmt: skip


def _reachable_from(causes: Sequence[Tensor]) -> set[Operation]:
    """The ops that depend on the causes by numbers that can vary, and those that make them."""
    found: set[Operation] = set()
    queue = deque(x.op for x in causes)
    consumers: dict[Operation, list[Operation]] = {}
    if causes:
        for op in causes[0].graph.get_operations():
            for tensor in op.inputs:
                if _differentiable(tensor):
                    consumers.setdefault(tensor.op, []).append(op)
    while queue:
        op = queue.popleft()
        if op not in found:
            found.add(op)
            queue.extend(consumers.get(op, ()))
    return found


def _leading_to(results: Sequence[Tensor], among: set[Operation]) -> set[Operation]:
    """The ops from which a way goes to the results that never leaves `among`."""
    found: set[Operation] = set()
    queue = deque(y.op for y in results)
    while queue:
        op = queue.popleft()
        if op not in found and op in among:
            found.add(op)
            queue.extend(t.op for t in op.inputs)
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
