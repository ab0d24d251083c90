"""Text: numbers as strings, and strings joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape
from stepscope.ops.arrays.shaping import resolve_axis


def _texts(values: Any, form: Any) -> Array:
    array = np.asarray(values)
    out = np.empty(array.size, dtype=object)
    for i, item in enumerate(array.reshape(-1).tolist()):
        out[i] = form(item).encode()
    return out.reshape(array.shape)


def _as_string_kernel(node: KernelNode) -> Kernel:
    dtype = node.input_dtypes[0].base_dtype
    precision, width = int(node.attr("precision")), int(node.attr("width"))
    fill = node.attr("fill").decode()
    conversion = "d"
    if dtype.is_floating:
        conversion = "e" if node.attr("scientific") else "g" if node.attr("shortest") else "f"
    digits = f".{precision}" if precision >= 0 and dtype.is_floating else ""
    pattern = f"%{fill}{width if width >= 0 else ''}{digits}{conversion}"

    def form(item: Any) -> str:
        return str(item).lower() if isinstance(item, bool) else pattern % item

    return Kernel(lambda x: _texts(x, form))


register(
    "AsString",
    inputs=["input: T"],
    outputs=["output: string"],
    attrs=[
        "T: type",
        "precision: int = -1",
        "scientific: bool = false",
        "shortest: bool = false",
        "width: int = -1",
        "fill: string = ''",
    ],
    shape=lambda c: c.input(0),
    kernel=_as_string_kernel,
)


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Each number as text, in the way of `printf`."""
    attrs = {"precision": precision, "scientific": scientific, "shortest": shortest}
    return apply_op("AsString", input, **attrs, width=width, fill=fill, name=name).values()[0]


def _join_shape(c: ShapeContext) -> TensorShape:
    result = SCALAR
    for shape in c.inputs:
        if shape.rank == 0:
            continue
        if result.rank == 0:
            result = shape
        elif not result.is_compatible_with(shape):
            raise ValueError(
                f"Strings of shapes {result.brief()} and {shape.brief()} cannot be joined"
            )
        else:
            result = result.merge_with(shape)
    if result.rank == 0 or all(s.rank is not None for s in c.inputs):
        return result
    return result if result.rank is not None else UNKNOWN


def _join_kernel(node: KernelNode) -> Kernel:
    separator = node.attr("separator")

    def call(*parts: Any) -> Any:
        arrays = [np.asarray(p, dtype=object) for p in parts]
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        columns = [np.broadcast_to(a, shape).reshape(-1) for a in arrays]
        out = np.empty(int(np.prod(shape, dtype=np.int64)), dtype=object)
        for i in range(out.size):
            out[i] = separator.join(c[i] for c in columns)
        return out.reshape(shape)

    return Kernel(call)


register(
    "StringJoin",
    inputs=["inputs: N * string"],
    outputs=["output: string"],
    attrs=["N: int", "separator: string = ''"],
    shape=_join_shape,
    kernel=_join_kernel,
)


def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Tensor:
    """The strings of several tensors (or scalars) joined element by element."""
    return apply_op("StringJoin", list(inputs), separator=separator, name=name).values()[0]


def _reduce_join_shape(c: ShapeContext) -> TensorShape:
    axes, which = c.input(0).axes, c.constant(1)
    if axes is None or which is None:
        return UNKNOWN
    gone = {resolve_axis(int(a), len(axes)) for a in np.atleast_1d(which)}
    if c.attr("keep_dims"):
        return TensorShape([1 if i in gone else d for i, d in enumerate(axes)])
    return TensorShape([d for i, d in enumerate(axes) if i not in gone])


def _reduce_join_kernel(node: KernelNode) -> Kernel:
    separator, keep = node.attr("separator"), bool(node.attr("keep_dims"))

    def call(x: Any, which: Any) -> Any:
        gone = [resolve_axis(int(a), x.ndim) for a in np.atleast_1d(which)]
        kept = [i for i in range(x.ndim) if i not in gone]
        # The first axis named is joined first, so it varies fastest.
        moved = x.transpose((*kept, *reversed(gone)))
        shape = tuple(x.shape[i] for i in kept)
        rows = moved.reshape((int(np.prod(shape, dtype=np.int64)), -1)) if moved.size else None
        out = np.empty(int(np.prod(shape, dtype=np.int64)), dtype=object)
        for i in range(out.size):
            out[i] = b"" if rows is None else separator.join(rows[i])
        if keep:
            shape = tuple(1 if i in gone else d for i, d in enumerate(x.shape))
        return out.reshape(shape)

    return Kernel(call)


register(
    "ReduceJoin",
    inputs=["inputs: string", "reduction_indices: int32"],
    outputs=["output: string"],
    attrs=["keep_dims: bool = false", "separator: string = ''"],
    shape=_reduce_join_shape,
    kernel=_reduce_join_kernel,
)


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool = False,
    separator: str = "",
    name: str | None = None,
) -> Tensor:
    """The strings along the axes (all of them without `axis`) joined into one."""
    with name_scope(name, "ReduceJoin", [inputs]):
        tensor = convert_to_tensor(inputs)
        if axis is None:
            if tensor.shape.rank is None:
                raise ValueError("reduce_join() without an axis needs a tensor of known rank.")
            axis = convert_to_tensor(np.arange(tensor.shape.rank - 1, -1, -1, dtype=np.int32))
        return apply_op(
            "ReduceJoin", tensor, axis, keep_dims=keep_dims, separator=separator
        ).values()[0]


no_gradient("AsString", "StringJoin", "ReduceJoin")
