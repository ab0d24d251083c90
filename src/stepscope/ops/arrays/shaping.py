"""Ops that change how values are laid out in axes, and ops that ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.constants import known_value
from stepscope.graph.dtypes import DType, as_dtype, int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.signatures import one_name, output_of


def resolve_axis(axis: int, rank: int, what: str = "axis") -> int:
    """The axis counted from the front; ValueError naming axis and range if there is none such."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what} {axis} is out of the range [{-rank}, {rank})")
    return axis + rank if axis < 0 else axis


# -- Reshape, Squeeze, ExpandDims, Transpose, BroadcastTo --------------------------------------


def _reshape_shape(c: ShapeContext) -> TensorShape:
    target = c.constant_as_shape(1)
    explicit = c.constant(1)
    if explicit is not None and int(np.sum(explicit < 0)) > 1:
        raise ValueError(f"A reshape can infer one dimension only, not those of {target.brief()}")
    count = c.input(0).num_elements()
    axes = target.axes
    if axes is None or count is None:
        return target
    known = 1
    for d in axes:
        known *= 1 if d is None else d
    unknown = [i for i, d in enumerate(axes) if d is None]
    if not unknown:
        if known != count:
            raise ValueError(
                f"Cannot reshape a tensor of shape {c.input(0).brief()} with {count} elements to "
                f"shape {target.brief()} ({known} elements)"
            )
        return target
    if len(unknown) > 1 or known == 0:
        return target
    if count % known:
        raise ValueError(
            f"Dimension size must be evenly divisible by {known} but is {count}: cannot reshape "
            f"{c.input(0).brief()} to {target.brief()}"
        )
    return TensorShape([count // known if d is None else d for d in axes])


def _reshape_kernel(node: KernelNode) -> Kernel:
    known = node.output_shapes[0].known
    if known is not None:
        return Kernel(lambda x, _shape: x.reshape(known), views=(0,))

    def call(x: Any, shape: Any) -> Any:
        target = tuple(int(d) for d in shape)
        try:
            return x.reshape(target)
        except ValueError:
            raise InvalidArgumentError.without_op(
                f"Input to reshape is a tensor of shape {list(x.shape)} with {x.size} values, "
                f"but the requested shape is {list(target)}",
            ) from None

    return Kernel(call, views=(0,))


register(
    "Reshape",
    inputs=["tensor: T", "shape: Tshape"],
    outputs=["output: T"],
    attrs=["T: type", "Tshape: type = int32"],
    shape=_reshape_shape,
    kernel=_reshape_kernel,
)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The elements in order, under another shape; one -1 in it is worked out."""
    return apply_op("Reshape", tensor, shape, name=name).values()[0]


def _squeeze_shape(c: ShapeContext) -> TensorShape:
    axes = c.input(0).axes
    if axes is None:
        return UNKNOWN
    dims = {resolve_axis(int(d), len(axes)) for d in c.attr("squeeze_dims")}
    if not dims:
        return UNKNOWN if None in axes else TensorShape([d for d in axes if d != 1])
    for d in dims:
        if axes[d] not in (None, 1):
            raise ValueError(f"Can not squeeze dim[{d}], expected a dimension of 1, got {axes[d]}")
    return TensorShape([d for i, d in enumerate(axes) if i not in dims])


def _squeeze_kernel(node: KernelNode) -> Kernel:
    known = node.output_shapes[0].known
    if known is not None:
        return Kernel(lambda x: x.reshape(known), views=(0,))
    dims = tuple(int(d) for d in node.attr("squeeze_dims")) or None
    return Kernel(lambda x: np.squeeze(x, dims), views=(0,))


register(
    "Squeeze",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type", "squeeze_dims: list(int) = []"],
    shape=_squeeze_shape,
    kernel=_squeeze_kernel,
)


def squeeze(
    input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None
) -> Tensor:
    """Without the axes of length 1, or without those named in `axis`."""
    axis = one_name("axis", axis, "squeeze_dims", squeeze_dims)
    dims = [] if axis is None else [int(a) for a in np.atleast_1d(axis)]
    return apply_op("Squeeze", input, squeeze_dims=dims, name=name).values()[0]


def _expand_shape(c: ShapeContext) -> TensorShape:
    axes, dim = c.input(0).axes, c.constant(1)
    if axes is None:
        return UNKNOWN
    if dim is None:
        return unknown_shape(len(axes) + 1)
    at = resolve_axis(int(np.reshape(dim, ())), len(axes) + 1, "dim")
    return TensorShape((*axes[:at], 1, *axes[at:]))


def _expand_kernel(node: KernelNode) -> Kernel:
    known = node.output_shapes[0].known
    if known is not None:
        return Kernel(lambda x, _dim: x.reshape(known), views=(0,))
    return Kernel(lambda x, dim: np.expand_dims(x, int(np.reshape(dim, ()))), views=(0,))


register(
    "ExpandDims",
    inputs=["input: T", "dim: Tdim"],
    outputs=["output: T"],
    attrs=["T: type", "Tdim: type = int32"],
    shape=_expand_shape,
    kernel=_expand_kernel,
)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """With a new axis of length 1 at `axis`."""
    axis = one_name("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("expand_dims() needs an axis.")
    return apply_op("ExpandDims", input, axis, name=name).values()[0]


def _transpose_shape(c: ShapeContext) -> TensorShape:
    axes, perm = c.input(0).axes, c.constant(1)
    rank = len(axes) if axes is not None else None
    if rank is None and c.input(1).axes:
        rank = c.input(1).axes[0]  # type: ignore[index]
    if rank is None:
        return UNKNOWN
    if perm is None:
        return unknown_shape(rank)
    order = [int(p) for p in perm]
    if len(order) != rank:
        raise ValueError(
            f"perm {order} has {len(order)} entries, but the input of shape "
            f"{c.input(0).brief()} has {rank} axes"
        )
    order = [resolve_axis(p, rank, "perm entry") for p in order]
    if sorted(order) != list(range(rank)):
        raise ValueError(f"perm {order} is not a permutation of the axes")
    return unknown_shape(rank) if axes is None else TensorShape([axes[p] for p in order])


def _transpose_kernel(node: KernelNode) -> Kernel:
    if node.constants[1] is not None:
        order = tuple(int(p) for p in node.constants[1])
        return Kernel(lambda x, _perm: x.transpose(order), views=(0,))
    return Kernel(lambda x, perm: x.transpose(tuple(perm)), views=(0,))


register(
    "Transpose",
    inputs=["x: T", "perm: Tperm"],
    outputs=["y: T"],
    attrs=["T: type", "Tperm: type = int32"],
    shape=_transpose_shape,
    kernel=_transpose_kernel,
)


def transpose(
    a: Any, perm: Any = None, name: str | None = "transpose", conjugate: bool = False
) -> Tensor:
    """The axes in the order of `perm`; reversed without it."""
    with name_scope(name, "transpose", [a]) as scope:
        a = convert_to_tensor(a, name="a")
        if conjugate and a.dtype.is_complex:
            raise NotImplementedError("transpose(conjugate=True) of complex tensors.")
        if perm is None:
            if a.shape.rank is None:
                last = apply_op("Sub", apply_op("Rank", a).values()[0], 1, name="sub").values()[0]
                perm = apply_op("Range", last, -1, -1).values()[0]
            else:
                perm = np.arange(a.shape.rank - 1, -1, -1, dtype=np.int32)
        return apply_op("Transpose", a, perm, name=scope).values()[0]


def _broadcast_to_shape(c: ShapeContext) -> TensorShape:
    target, source = c.constant_as_shape(1), c.input(0)
    if target.axes is None or source.axes is None:
        return target
    pad = len(target.axes) - len(source.axes)
    fits = pad >= 0 and all(
        a in (None, 1) or b is None or a == b
        for a, b in zip(source.axes, target.axes[pad:], strict=True)
    )
    if not fits:
        raise ValueError(f"Incompatible shapes: {source.brief()} vs. {target.brief()}")
    return target


def _broadcast_to_kernel(node: KernelNode) -> Kernel:
    known = node.output_shapes[0].known

    def call(x: Any, shape: Any, out: Any = None) -> Any:
        target = known if known is not None else tuple(int(d) for d in shape)
        if out is None:
            out = np.empty(target, dtype=x.dtype)
        np.copyto(out, x)
        return out

    return Kernel(call, out="keyword")


register(
    "BroadcastTo",
    inputs=["input: T", "shape: Tidx"],
    outputs=["output: T"],
    attrs=["T: type", "Tidx: type = int32"],
    shape=_broadcast_to_shape,
    kernel=_broadcast_to_kernel,
)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """The values repeated along new axes and axes of length 1, up to `shape`."""
    return apply_op("BroadcastTo", input, shape, name=name).values()[0]


# -- Shape, ShapeN, Size, Rank -----------------------------------------------------------------


def _shape_length(shape: TensorShape) -> TensorShape:
    return TensorShape([shape.rank])


def _shape_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy
    return Kernel(lambda x: np.array(x.shape, dtype))


def _shape_n_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy
    if len(node.output_dtypes) == 1:
        return Kernel(lambda x: np.array(x.shape, dtype))
    return Kernel(lambda *xs: tuple(np.array(x.shape, dtype) for x in xs))


def _size_kernel(node: KernelNode) -> Kernel:
    make = node.output_dtypes[0].numpy.type
    return Kernel(lambda x: make(x.size))


register(
    "Shape",
    inputs=["input: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: type = int32"],
    shape=lambda c: _shape_length(c.input(0)),
    kernel=_shape_kernel,
)
register(
    "ShapeN",
    inputs=["input: N * T"],
    outputs=["output: N * out_type"],
    attrs=["N: int", "T: type", "out_type: type = int32"],
    shape=lambda c: [_shape_length(s) for s in c.inputs],
    kernel=_shape_n_kernel,
)
register(
    "Size",
    inputs=["input: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: type = int32"],
    shape=lambda _c: SCALAR,
    kernel=_size_kernel,
)
register(
    "Rank",
    inputs=["input: T"],
    outputs=["output: int32"],
    attrs=["T: type"],
    shape=lambda _c: SCALAR,
    kernel=lambda _node: Kernel(lambda x: np.int32(x.ndim)),
)


def shape_tensor_of(tensor: Tensor, out_type: DType, name: str | None) -> Tensor:
    """The Shape node of a tensor."""
    return apply_op("Shape", tensor, out_type=out_type, name=name).values()[0]


def shape(input: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """The shape as a tensor: a constant where it is known when the graph is built."""
    kind = int32 if out_type is None else as_dtype(out_type)
    with name_scope(name, "Shape", [input]) as scope:
        tensor = convert_to_tensor(input)
        known = tensor.shape.known
        if known is not None:
            return constant_op(list(known), kind, name=scope)
        return shape_tensor_of(tensor, kind, scope)


def shape_n(input: Sequence[Any], out_type: Any = int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors of one type."""
    return list(apply_op("ShapeN", list(input), out_type=as_dtype(out_type), name=name).values())


def size(input: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """The number of elements."""
    kind = int32 if out_type is None else as_dtype(out_type)
    with name_scope(name, "Size", [input]) as scope:
        tensor = convert_to_tensor(input)
        axes = tensor.shape.axes
        count = 0 if axes is not None and 0 in axes else tensor.shape.num_elements()
        if count is not None:
            return constant_op(count, kind, name=scope)
        return apply_op("Size", tensor, out_type=kind, name=scope).values()[0]


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes."""
    with name_scope(name, "Rank", [input]) as scope:
        tensor = convert_to_tensor(input)
        if tensor.shape.rank is not None:
            return constant_op(tensor.shape.rank, int32, name=scope)
        return apply_op("Rank", tensor, name=scope).values()[0]


# -- gradients ---------------------------------------------------------------------------------


def _inverse(perm: Any) -> Any:
    order = np.asarray(perm)
    if sorted(order.tolist()) != list(np.arange(len(order))):
        raise InvalidArgumentError.without_op(f"{order.tolist()} is not a permutation")
    result = np.empty_like(order)
    result[order] = np.arange(len(order), dtype=order.dtype)
    return result


register(
    "InvertPermutation",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: type = int32"],
    shape=lambda c: c.input(0).with_rank(1),
    kernel=lambda _node: Kernel(_inverse),
)


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """The permutation that undoes `x`."""
    return output_of("InvertPermutation", x, name=name)


@gradient("Reshape", "ExpandDims")
def _reshape_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [reshape(grad, shape(op.inputs[0])), None]


@gradient("Squeeze")
def _squeeze_gradient(op: Operation, grad: Tensor) -> Tensor:
    return reshape(grad, shape(op.inputs[0]))


@gradient("Transpose")
def _transpose_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    perm = op.inputs[1]
    known = known_value(perm)
    if known is not None and (known < 0).any():
        perm = output_of("FloorMod", perm, len(known))
    return [transpose(grad, invert_permutation(perm)), None]


@gradient("BroadcastTo")
def _broadcast_to_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, target = op.inputs
    own = shape(x, out_type=target.dtype.base_dtype)
    axes = output_of("BroadcastGradientArgs", own, target)
    return [reshape(output_of("Sum", grad, axes, keep_dims=True), own), None]


no_gradient("Shape", "ShapeN", "Size", "Rank", "InvertPermutation")
