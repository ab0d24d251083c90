"""What the rows of the op tables cover of each op type: dtypes, shapes, gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from op_cases import OURS, all_cases, flatten

from stepscope.graph.graph import Graph
from stepscope.graph.registry import OpType, registered

SOURCES = ("Const", "Placeholder", "PlaceholderWithDefault")


@dataclass
class Covered:
    """One op type: what it was built with in rows that are compared with TensorFlow."""

    rows: int = 0
    dtypes: set[str] = field(default_factory=set)
    """Names of all dtypes of its inputs and outputs."""
    signatures: set[tuple[str, ...]] = field(default_factory=set)
    """The dtypes of its inputs and outputs, in order."""
    shapes: set[str] = field(default_factory=set)
    backward: set[tuple[Any, ...]] = field(default_factory=set)
    """Signatures and shapes that a gradient went back through."""


def is_float(tensor: Any) -> bool:
    dtype = getattr(tensor, "dtype", None)
    return dtype is not None and (dtype.base_dtype.is_floating or dtype.base_dtype.is_complex)


def has_gradient(op_type: OpType) -> bool:
    """Whether gradients go on through it; some end there, silently."""
    function = op_type.gradient
    if function is None:
        return False
    return not (function.__name__ == "<lambda>" and "no_gradient" in function.__qualname__)


def public_op_types() -> list[OpType]:
    """Names with an underscore in front are the engine's own nodes."""
    return [op_type for op_type in registered() if op_type.name[0] != "_"]


@cache
def coverage() -> dict[str, Covered]:
    """By op type. Rows are built here alone, with gradients where they have any."""
    found: dict[str, Covered] = {t.name: Covered() for t in public_op_types()}
    for case in all_cases():
        if case.fails:
            continue
        graph = Graph()
        with graph.as_default():
            results = flatten(case.build(OURS))
            backward = case.grad and _differentiate(graph, results)
        for op in graph.get_operations():
            entry = found.get(op.type)
            if entry is None:
                continue
            tensors = [*op.inputs, *op.outputs]
            types = [a.name for a in op.op_type.attrs.values() if a.kind == "type"]
            signature = tuple(
                [t.dtype.base_dtype.name for t in tensors]
                + [op.get_attr(name).base_dtype.name for name in types]
            )
            shapes = str([t.shape.axes for t in tensors])
            entry.dtypes |= set(signature)
            entry.signatures.add(signature)
            # A shape that is not known is another way of calling it, with what is fed.
            entry.shapes.add(f"{shapes} {case.id if case.feeds else ''}")
            if backward:
                entry.backward.add((signature, shapes))
        for name in set(case.op_types) & set(found):
            found[name].rows += 1
    return found


def _differentiate(graph: Any, results: list[Any]) -> bool:
    """Take the gradients of what is differentiable; whether there were any."""
    results = [t for t in results if is_float(t)]
    causes = [
        t
        for op in graph.get_operations()
        if op.type in SOURCES and graph.is_fetchable(op)
        for t in op.outputs
        if is_float(t)
    ]
    causes += [v for v in OURS.trainable_variables() if is_float(v)]
    if not results or not causes:
        return False
    try:
        return any(g is not None for g in OURS.gradients(results, causes))
    except LookupError as error:
        # `prevent_gradient` refuses: that is its gradient.
        return "PreventGradient" in str(error)
