"""Putting tensors together and taking them apart along an axis."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.constants import known_value
from stepscope.graph.dtypes import int32, string
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
from stepscope.graph.shapes import UNKNOWN, Dimension, TensorShape, unknown_shape
from stepscope.ops.arrays import shaping
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.arrays.shaping import resolve_axis
from stepscope.ops.signatures import output_of

# -- ConcatV2, Concat --------------------------------------------------------------------------


def _concat_shape(c: ShapeContext) -> TensorShape:
    last = c.op_type == "ConcatV2"
    at = len(c.inputs) - 1 if last else 0
    values = c.inputs[:-1] if last else c.inputs[1:]
    axis = c.constant(at)
    ranks = {s.rank for s in values} - {None}
    if len(ranks) > 1:
        listed = ", ".join(s.brief() for s in values)
        raise ValueError(f"Ranks of all input tensors should match: shapes are {listed}")
    if not ranks:
        return UNKNOWN
    (rank,) = ranks
    assert rank is not None
    if rank == 0:
        raise ValueError("Can't concatenate scalars (use tf.stack instead)")
    if axis is None:
        return unknown_shape(rank)
    where = resolve_axis(int(axis), rank, "concat axis")
    total: int | None = 0
    merged = unknown_shape(rank)
    for shape in values:
        axes = shape.axes if shape.axes is not None else (None,) * rank
        length = axes[where]
        total = None if total is None or length is None else total + length
        rest = TensorShape((*axes[:where], None, *axes[where + 1 :]))
        if not merged.is_compatible_with(rest):
            raise ValueError(
                f"Dimensions other than {where} must be equal: shapes are "
                f"{values[0].brief()} and {shape.brief()}"
            )
        merged = merged.merge_with(rest)
    out = merged.as_list()
    out[where] = total
    return TensorShape(out)


def _concat_kernel(node: KernelNode) -> Kernel:
    last = node.op.type == "ConcatV2"
    constant = node.constants[-1 if last else 0]
    concatenate = np.concatenate
    if constant is not None and last:
        axis = int(constant)
        if len(node.input_shapes) == 3:
            return Kernel(
                lambda a, b, _axis, out=None: concatenate((a, b), axis, out), out="keyword"
            )
        return Kernel(lambda *a, out=None: concatenate(a[:-1], axis, out), out="keyword")
    if last:
        return Kernel(lambda *a, out=None: concatenate(a[:-1], int(a[-1]), out), out="keyword")
    return Kernel(lambda axis, *a, out=None: concatenate(a, int(axis), out), out="keyword")


register(
    "ConcatV2",
    inputs=["values: N * T", "axis: Tidx"],
    outputs=["output: T"],
    attrs=["N: int", "T: type", "Tidx: type = int32"],
    shape=_concat_shape,
    kernel=_concat_kernel,
)
register(
    "Concat",
    inputs=["concat_dim: int32", "values: N * T"],
    outputs=["output: T"],
    attrs=["N: int", "T: type"],
    shape=_concat_shape,
    kernel=_concat_kernel,
)


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """The tensors one after the other along `axis`."""
    items = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(items) == 1:
        with name_scope(name):
            convert_to_tensor(axis, int32, "concat_dim").shape.assert_has_rank(0)
            return identity(items[0], name=name)
    return apply_op("ConcatV2", items, axis, name=name).values()[0]


# -- Pack, Unpack ------------------------------------------------------------------------------


def _pack_shape(c: ShapeContext) -> TensorShape:
    merged = c.input(0)
    for shape in c.inputs[1:]:
        if not merged.is_compatible_with(shape):
            raise ValueError(
                f"Shapes must be equal to be packed, but are {merged.brief()} and {shape.brief()}"
            )
        merged = merged.merge_with(shape)
    if merged.axes is None:
        return UNKNOWN
    axis = resolve_axis(int(c.attr("axis")), len(merged.axes) + 1)
    return TensorShape((*merged.axes[:axis], len(c.inputs), *merged.axes[axis:]))


def _pack_kernel(node: KernelNode) -> Kernel:
    axis, rank = int(node.attr("axis")), node.input_shapes[0].rank
    dtype = node.output_dtypes[0].numpy
    if rank == 0 and not dtype.hasobject:
        return Kernel(lambda *values: np.array(values, dtype))
    if rank is None or rank == 0:
        return Kernel(lambda *values: np.stack(values, axis))
    where = axis if axis >= 0 else axis + rank + 1
    index = (slice(None),) * where + (None,)

    def call(*values: Any, out: Any = None) -> Any:
        return np.concatenate([v[index] for v in values], where, out)

    return Kernel(call, out="keyword")


register(
    "Pack",
    inputs=["values: N * T"],
    outputs=["output: T"],
    attrs=["N: int", "T: type", "axis: int = 0"],
    shape=_pack_shape,
    kernel=_pack_kernel,
)


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """The tensors along a new axis; a constant if they are all plain numbers."""
    if axis == 0:
        try:
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass  # mixed types and shapes: the op below says what does not fit
    return apply_op("Pack", list(values), axis=axis, name=name).values()[0]


def _unpack_shape(c: ShapeContext) -> list[TensorShape]:
    num, axes = int(c.attr("num")), c.input(0).axes
    if axes is None:
        return [UNKNOWN] * num
    axis = resolve_axis(int(c.attr("axis")), len(axes))
    if axes[axis] not in (None, num):
        raise ValueError(
            f"Dimension {axis} of {c.input(0).brief()} must be {num} to be unstacked into {num}"
        )
    return [TensorShape((*axes[:axis], *axes[axis + 1 :]))] * num


def _unpack_kernel(node: KernelNode) -> Kernel:
    num, axis = int(node.attr("num")), int(node.attr("axis"))
    if num == 0:
        return Kernel(lambda _x: None)
    if num == 1:
        return Kernel(lambda x: np.squeeze(x, axis), views=(0,))
    if node.output_dtypes[0].base_dtype is string:
        # NumPy gives the bytes themselves for a single element of an object array.
        return Kernel(
            lambda x: tuple(np.asarray(p, dtype=object) for p in np.moveaxis(x, axis, 0)),
            views=(0,),
        )
    if axis == 0:
        return Kernel(lambda x: tuple(x), views=(0,))
    return Kernel(lambda x: tuple(np.moveaxis(x, axis, 0)), views=(0,))


register(
    "Unpack",
    inputs=["value: T"],
    outputs=["output: num * T"],
    attrs=["num: int", "T: type", "axis: int = 0"],
    shape=_unpack_shape,
    kernel=_unpack_kernel,
)


def unstack(
    value: Any, num: int | None = None, axis: int = 0, name: str = "unstack"
) -> list[Tensor]:
    """The slices along `axis`; their number must be known or given."""
    if num is None:
        value = convert_to_tensor(value)
        axes = value.shape.axes
        if axes is not None:
            num = axes[resolve_axis(axis, len(axes))]
        if num is None:
            raise ValueError(
                f"Cannot infer `num` from shape {value.shape}: axis {axis} is not known; pass num."
            )
    return list(apply_op("Unpack", value, num=num, axis=axis, name=name).values())


# -- Split, SplitV -----------------------------------------------------------------------------


def _split_shape(c: ShapeContext) -> list[TensorShape]:
    num, axes, axis = int(c.attr("num_split")), c.input(1).axes, c.constant(0)
    if axes is None:
        return [UNKNOWN] * num
    if axis is None:
        return [unknown_shape(len(axes))] * num
    where = resolve_axis(int(axis), len(axes), "split_dim")
    length = axes[where]
    if length is not None and length % num:
        raise ValueError(
            f"Dimension size must be evenly divisible by {num} but is {length}: number of ways to "
            f"split should evenly divide the split dimension {where} of {c.input(1).brief()}"
        )
    part = None if length is None else length // num
    return [TensorShape((*axes[:where], part, *axes[where + 1 :]))] * num


def _cut(x: Any, lengths: Sequence[int], axis: int) -> tuple[Any, ...]:
    lead = (slice(None),) * (axis if axis >= 0 else axis + x.ndim)
    parts, start = [], 0
    for length in lengths:
        parts.append(x[(*lead, slice(start, start + length))])
        start += length
    return tuple(parts)


def _split_kernel(node: KernelNode) -> Kernel:
    num = int(node.attr("num_split"))
    if num == 1:
        return Kernel(lambda _axis, x: x, views=(1,))

    def call(axis: Any, x: Any) -> Any:
        part, rest = divmod(x.shape[axis], num)
        if rest:
            raise InvalidArgumentError.without_op(
                "Number of ways to split should evenly divide the split dimension, but got "
                f"split_dim {axis} (size = {x.shape[axis]}) and num_split {num}",
            )
        return _cut(x, (part,) * num, int(axis))

    return Kernel(call, views=(1,))


register(
    "Split",
    inputs=["split_dim: int32", "value: T"],
    outputs=["output: num_split * T"],
    attrs=["num_split: int", "T: type"],
    shape=_split_shape,
    kernel=_split_kernel,
)


def _lengths(sizes: Any, total: int) -> list[int]:
    """The sizes with a -1 worked out; ValueError where they do not add up to the axis."""
    lengths = [int(s) for s in sizes]
    free = [i for i, s in enumerate(lengths) if s == -1]
    if len(free) > 1:
        raise ValueError(f"There can only be one -1 in size_splits, not as in {lengths}")
    known = sum(s for s in lengths if s != -1)
    if free and known <= total:
        lengths[free[0]] = total - known
    elif known != total:
        raise ValueError(
            f"size_splits {lengths} must add up to the size of the split axis, which is {total}"
        )
    return lengths


def _split_v_shape(c: ShapeContext) -> list[TensorShape]:
    num, axes = int(c.attr("num_split")), c.input(0).axes
    sizes, axis = c.constant(1), c.constant(2)
    if axes is None:
        return [UNKNOWN] * num
    if axis is None:
        return [unknown_shape(len(axes))] * num
    where = resolve_axis(int(axis), len(axes), "split_dim")
    length = axes[where]
    parts: list[int | None] = [None] * num
    if sizes is not None:
        if len(sizes) != num:
            raise ValueError(f"size_splits has {len(sizes)} entries for {num} outputs")
        if length is not None:
            parts = list(_lengths(sizes, length))
        else:
            parts = [None if s < 0 else int(s) for s in sizes]
    return [TensorShape((*axes[:where], p, *axes[where + 1 :])) for p in parts]


def _split_v_kernel(node: KernelNode) -> Kernel:
    num = int(node.attr("num_split"))
    if num == 1:
        return Kernel(lambda x, _sizes, _axis: x, views=(0,))

    def call(x: Any, sizes: Any, axis: Any) -> Any:
        try:
            lengths = _lengths(sizes, x.shape[axis])
        except ValueError as error:
            raise InvalidArgumentError.without_op(str(error)) from None
        return _cut(x, lengths, int(axis))

    return Kernel(call, views=(0,))


register(
    "SplitV",
    inputs=["value: T", "size_splits: Tlen", "split_dim: int32"],
    outputs=["output: num_split * T"],
    attrs=["num_split: int", "T: type", "Tlen: type = int64"],
    shape=_split_v_shape,
    kernel=_split_v_kernel,
)


def split(
    value: Any,
    num_or_size_splits: Any,
    axis: Any = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Tensor]:
    """Cut along `axis` into equal parts (an int) or parts of the given sizes (a list)."""
    if isinstance(num_or_size_splits, (numbers.Integral, Dimension)):
        count = int(num_or_size_splits)
        return list(apply_op("Split", axis, value, num_split=count, name=name).values())
    sizes = convert_to_tensor(num_or_size_splits)
    if sizes.shape.rank == 0:
        raise ValueError(
            f"num_or_size_splits must be an int or have one axis, not {num_or_size_splits!r}."
        )
    if num is None and sizes.shape.axes:
        num = sizes.shape.axes[0]
    if num is None:
        raise ValueError(f"Cannot infer `num` from {num_or_size_splits!r}; pass num.")
    return list(apply_op("SplitV", value, sizes, axis, num_split=num, name=name).values())


# -- gradients ---------------------------------------------------------------------------------


def _parts_of(grad: Tensor, values: Sequence[Tensor], axis: Tensor) -> list[Tensor]:
    """The gradient of a concatenation, cut where its values meet."""
    where = known_value(axis)
    known = [v.shape.axes for v in values]
    if values[0].shape.is_fully_defined() and known.count(known[0]) == len(known):
        # Of one shape, they can be joined along any axis, whichever is fed.
        axis = output_of("Cast", axis, DstT=int32) if axis.dtype.base_dtype is not int32 else axis
        return list(apply_op("Split", axis, grad, num_split=len(values)).values())
    sizes: Any
    if where is not None and all(s is not None and s[int(where)] is not None for s in known):
        sizes = [s[int(where)] for s in known if s is not None]
    else:
        place = output_of("FloorMod", output_of("Cast", axis, DstT=int32), shaping.rank(values[0]))
        sizes = [output_of("GatherV2", shaping.shape(v), place, 0) for v in values]
    axis = output_of("Cast", axis, DstT=int32) if axis.dtype.base_dtype is not int32 else axis
    lengths = convert_to_tensor(sizes, int32)
    op = apply_op("SplitV", grad, lengths, axis, num_split=len(values))
    return [shaping.reshape(p, shaping.shape(v)) for p, v in zip(op.values(), values, strict=True)]


@gradient("ConcatV2")
def _concat_v2_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    *values, axis = op.inputs
    return [*_parts_of(grad, values, axis), None]


@gradient("Concat")
def _concat_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    axis, *values = op.inputs
    return [None, *_parts_of(grad, values, axis)]


@gradient("Pack")
def _pack_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    return unstack(grad, op.get_attr("N"), op.get_attr("axis"))


@gradient("Unpack")
def _unpack_gradient(op: Operation, *grads: Tensor) -> Tensor:
    return stack(grads, op.get_attr("axis"))


@gradient("Split")
def _split_gradient(op: Operation, *grads: Tensor) -> list[Tensor | None]:
    return [None, concat(list(grads), op.inputs[0])]


@gradient("SplitV")
def _split_v_gradient(op: Operation, *grads: Tensor) -> list[Tensor | None]:
    return [concat(list(grads), op.inputs[2]), None, None]


# -- ConcatOffset ------------------------------------------------------------------------------


def _concat_offset_kernel(_node: KernelNode) -> Kernel:
    def call(axis: Any, *shapes: Any) -> Any:
        where = resolve_axis(int(axis), len(shapes[0]), "concat_dim")
        offsets, at = [], 0
        for shape in shapes:
            offset = np.zeros_like(shape)
            offset[where] = at
            at += int(shape[where])
            offsets.append(offset)
        return offsets[0] if len(offsets) == 1 else tuple(offsets)

    return Kernel(call, cost_ns=3000)


# Where the parts of a concatenation begin: TensorFlow's gradient of it, in imported graphs.
register(
    "ConcatOffset",
    inputs=["concat_dim: int32", "shape: N * shape_type"],
    outputs=["offset: N * shape_type"],
    attrs=["N: int", "shape_type: type = int32"],
    shape=lambda c: list(c.inputs[1:]),
    kernel=_concat_offset_kernel,
)
no_gradient("ConcatOffset")
