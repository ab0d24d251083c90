"""Registering the op types of datasets: what all of them have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope._messages import AttrValue
from stepscope.graph.function_graph import FunctionGraph
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import SCALAR, TensorShape
from stepscope.ops.data.stages import DatasetPlace, DatasetValue

TYPES_AND_SHAPES = ("output_types: list(type)", "output_shapes: list(shape)")
METADATA = "metadata: string = ''"
_PYTHON = frozenset({"PyFunc", "PyFuncStateless"})


def register_dataset(
    op_type: str,
    make: Callable[..., DatasetValue],
    inputs: Sequence[str] = (),
    attrs: Sequence[str] = (*TYPES_AND_SHAPES, METADATA),
) -> None:
    """An op type whose output is a dataset: `make(node, place, *inputs)`."""

    def kernel(node: KernelNode) -> Kernel:
        place = DatasetPlace(node.name, op_type, node.op.source, node.device)

        def call(*values: Any) -> DatasetValue:
            return make(node, place, *values)

        # It keeps what it is given.
        return Kernel(call, opaque=True, cost_ns=2000)

    register(
        op_type,
        inputs=inputs,
        outputs=["handle: variant"],
        attrs=attrs,
        shape=_scalar,
        kernel=kernel,
        stateful=True,
    )


def _scalar(_context: ShapeContext) -> TensorShape:
    return SCALAR


def function_of(node: KernelNode, place: DatasetPlace, attr: str = "f") -> FunctionGraph:
    """The function that a dataset calls; the place says which it is."""
    value: AttrValue = node.attr(attr)
    graph: FunctionGraph = node.op.graph.get_function(value.func.name)
    place.function, place.defined = graph.function_name, graph.defined
    place.python = any(op.type in _PYTHON for op in graph.get_operations())
    return graph
