"""Counting a variable up to a limit, which ends the input of a program."""

from __future__ import annotations

from typing import Any

from stepscope.errors import OutOfRangeError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, register
from stepscope.graph.shapes import SCALAR
from stepscope.ops.state.variable import applied, reference_of
from stepscope.ops.state.variable_cells import VariableCell


def _kernel(node: KernelNode) -> Kernel:
    limit = node.attr("limit")

    def call(cell: VariableCell) -> Array:
        before: list[Array] = []

        def count(stored: Array) -> None:
            if stored >= limit:
                raise OutOfRangeError.without_op(f"Reached limit of {limit}")
            before.append(stored.copy())
            stored += 1

        cell.modify(count)
        return before[0]

    return Kernel(call)


for _name, _input in (("CountUpTo", "ref: Ref(T)"), ("ResourceCountUpTo", "resource: resource")):
    register(
        _name,
        inputs=[_input],
        outputs=["output: T"],
        attrs=["limit: int", "T: type"],
        shape=lambda _c: SCALAR,
        kernel=_kernel,
        stateful=True,
    )


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """The variable's value before it is counted up by one; OutOfRangeError once it is `limit`."""
    reference = reference_of(ref)
    if reference is None:
        dtype = ref.dtype.base_dtype
        op = apply_op("ResourceCountUpTo", ref.handle, limit=limit, T=dtype, name=name)
        return op.values()[0]
    return applied("CountUpTo", reference, name=name, limit=limit)
