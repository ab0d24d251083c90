"""Parts of a tensor by position: Slice, StridedSlice and `t[...]`."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.dtypes import bool_, int16, int32, int64, string
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor, define_operator
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, Dimension, TensorShape, unknown_shape
from stepscope.ops.arrays.constants import ones_like
from stepscope.ops.arrays.joining import stack
from stepscope.ops.arrays.masks import boolean_mask
from stepscope.ops.arrays.shaping import rank, reshape, shape
from stepscope.ops.signatures import output_of

newaxis = None
"""In `t[...]`: a new axis of length 1."""

# -- Slice -------------------------------------------------------------------------------------


def _slice_shape(c: ShapeContext) -> TensorShape:
    axes, begin, size = c.input(0).axes, c.constant(1), c.constant(2)
    if axes is None:
        spec = c.input(2).axes
        return UNKNOWN if not spec else unknown_shape(spec[0])
    for what, value in (("begin", begin), ("size", size)):
        if value is not None and len(value) != len(axes):
            raise ValueError(
                f"{what} has {len(value)} entries, but the input of shape {c.input(0).brief()} "
                f"has {len(axes)} axes"
            )
    if size is None:
        return c.constant_as_shape(2).merge_with(unknown_shape(len(axes)))
    out: list[int | None] = []
    for i, dim in enumerate(axes):
        length, start = int(size[i]), None if begin is None else int(begin[i])
        if length == -1:
            # A start beyond the end is the kernel's to report, as in TensorFlow.
            out.append(None if dim is None or start is None else max(dim - start, 0))
        else:
            out.append(length)
    return TensorShape(out)


def _slice_kernel(node: KernelNode) -> Kernel:
    begin, size = node.constants[1], node.constants[2]
    if begin is not None and size is not None and node.input_shapes[0].known is not None:
        try:
            index = _slice_index(node.input_shapes[0].known, begin, size)
        except InvalidArgumentError:
            pass  # it is the run that fails, not the plan
        else:
            return Kernel(lambda x, _begin, _size: x[index], views=(0,))
    return Kernel(lambda x, begin, size: x[_slice_index(x.shape, begin, size)], views=(0,))


def _slice_index(shape: tuple[int, ...], begin: Any, size: Any) -> tuple[slice, ...]:
    out = []
    for i, (dim, b, s) in enumerate(zip(shape, begin, size, strict=True)):
        if not 0 <= b <= dim:
            raise InvalidArgumentError.without_op(f"Expected begin[{i}] in [0, {dim}], but got {b}")
        if s != -1 and not 0 <= s <= dim - b:
            raise InvalidArgumentError.without_op(
                f"Expected size[{i}] in [0, {dim - b}], but got {s}"
            )
        out.append(slice(int(b), dim if s == -1 else int(b) + int(s)))
    return tuple(out)


register(
    "Slice",
    inputs=["input: T", "begin: Index", "size: Index"],
    outputs=["output: T"],
    attrs=["T: type", "Index: type"],
    shape=_slice_shape,
    kernel=_slice_kernel,
)


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """The block of `size` that starts at `begin`; a size of -1 means up to the end."""
    return apply_op("Slice", input_, begin, size, name=name).values()[0]


@gradient("Slice")
def _slice_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, begin, _size = op.inputs
    kind = begin.dtype.base_dtype
    after = shape(x, out_type=kind) - shape(op.outputs[0], out_type=kind) - begin
    columns = [reshape(t, output_of("Pack", [rank(x), 1])) for t in (begin, after)]
    return [output_of("Pad", grad, output_of("ConcatV2", columns, 1)), None, None]


# -- StridedSlice ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Masks:
    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int

    @classmethod
    def of(cls, attr: Any) -> _Masks:
        return cls(
            attr("begin_mask"),
            attr("end_mask"),
            attr("ellipsis_mask"),
            attr("new_axis_mask"),
            attr("shrink_axis_mask"),
        )


_Index = tuple[Any, ...]


def _strided_index(length: int, begin: Any, end: Any, strides: Any, masks: _Masks) -> _Index:
    """The NumPy index of a strided slice whose spec has `length` entries.

    Unknown begins and ends (None as the whole argument) become slices with `_UNKNOWN` bounds.
    """
    if masks.ellipsis & (masks.ellipsis - 1):
        raise ValueError("Multiple ellipses in slice spec not allowed")
    index: list[Any] = []
    for i in range(length):
        bit = 1 << i
        if masks.ellipsis & bit:
            index.append(Ellipsis)
        elif masks.new_axis & bit:
            index.append(None)
        else:
            step = _UNKNOWN if strides is None else int(strides[i])
            if step == 0:
                raise ValueError(f"strides[{i}] must be non-zero")
            if masks.shrink_axis & bit:
                if step is not _UNKNOWN and step < 0:
                    raise ValueError("only stride 1 allowed on non-range indexing")
                index.append(_UNKNOWN if begin is None else int(begin[i]))
                continue
            start = None if masks.begin & bit else _UNKNOWN if begin is None else int(begin[i])
            stop = None if masks.end & bit else _UNKNOWN if end is None else int(end[i])
            index.append(slice(start, stop, step))
    return tuple(index)


_UNKNOWN: Any = object()


def _spread(index: _Index, rank: int) -> list[Any]:
    """The index with its ellipsis (at the end if it has none) written out for `rank` axes."""
    used = sum(1 for i in index if i is not None and i is not Ellipsis)
    if used > rank:
        raise ValueError(f"Index out of range using input dim {rank}; input has only {rank} dims")
    at = index.index(Ellipsis) if Ellipsis in index else len(index)
    return [*index[:at], *[slice(None)] * (rank - used), *index[at + 1 :]]


def _strided_shape(c: ShapeContext) -> TensorShape:
    spec = c.input(1).merge_with(c.input(2)).merge_with(c.input(3)).with_rank(1)
    length, axes = spec.axes[0] if spec.axes else None, c.input(0).axes
    if length is None or axes is None:
        return UNKNOWN
    masks = _Masks.of(c.attr)
    index = _strided_index(length, c.constant(1), c.constant(2), c.constant(3), masks)
    out: list[int | None] = []
    at = 0
    for item in _spread(index, len(axes)):
        if item is None:
            out.append(1)
            continue
        dim = axes[at]
        if isinstance(item, slice):
            out.append(_sliced_length(item, dim))
        elif dim is not None and item is not _UNKNOWN and not -dim <= item < dim:
            raise ValueError(f"slice index {item} of dimension {at} out of bounds")
        at += 1
    return TensorShape(out)


def _sliced_length(item: slice, dim: int | None) -> int | None:
    if item.start is None and item.stop is None and item.step in (None, 1, -1):
        return dim
    if _UNKNOWN in (item.start, item.stop, item.step):
        return None
    return None if dim is None else len(range(dim)[item])


def _strided_kernel(node: KernelNode) -> Kernel:
    masks = _Masks.of(node.attr)
    if node.output_dtypes[0].base_dtype is string and masks.shrink_axis:
        # NumPy gives the bytes themselves for a single element of an object array.
        inner = _strided_index_kernel(node, masks)
        return Kernel(lambda *args: np.asarray(inner(*args), dtype=object), views=(0,))
    return Kernel(_strided_index_kernel(node, masks), views=(0,))


def _strided_index_kernel(node: KernelNode, masks: _Masks) -> Callable[..., Any]:
    begin, end, strides = node.constants[1:4]
    rank = node.input_shapes[0].rank
    if begin is not None and end is not None and strides is not None and rank is not None:
        index = tuple(_spread(_strided_index(len(begin), begin, end, strides, masks), rank))
        known = node.input_shapes[0].known
        if known is not None and not _out_of_bounds(index, known):
            if len(index) == 1:
                only = index[0]
                return lambda x, _b, _e, _s: x[only]
            return lambda x, _b, _e, _s: x[index]

    def call(x: Any, begin: Any, end: Any, strides: Any) -> Any:
        try:
            index = tuple(_spread(_strided_index(len(begin), begin, end, strides, masks), x.ndim))
        except ValueError as error:
            raise InvalidArgumentError.without_op(str(error)) from None
        problem = _out_of_bounds(index, x.shape)
        if problem:
            raise InvalidArgumentError.without_op(problem)
        return x[index]

    return call


def _out_of_bounds(index: tuple[Any, ...], shape: tuple[int, ...]) -> str:
    at = 0
    for item in index:
        if item is None:
            continue
        if not isinstance(item, slice) and not -shape[at] <= item < shape[at]:
            return f"slice index {item} of dimension {at} out of bounds."
        at += 1
    return ""


register(
    "StridedSlice",
    inputs=["input: T", "begin: Index", "end: Index", "strides: Index"],
    outputs=["output: T"],
    attrs=[
        "T: type",
        "Index: type",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ],
    shape=_strided_shape,
    kernel=_strided_kernel,
)


def _strided_gradient_kernel(node: KernelNode) -> Kernel:
    masks, dtype = _Masks.of(node.attr), node.output_dtypes[0].numpy

    def call(lengths: Any, begin: Any, end: Any, strides: Any, dy: Any, out: Any = None) -> Any:
        if out is None:
            out = np.zeros(tuple(lengths), dtype)
        else:
            out.fill(0)
        index = tuple(_spread(_strided_index(len(begin), begin, end, strides, masks), out.ndim))
        out[index] = dy
        return out

    return Kernel(call, out="keyword")


register(
    "StridedSliceGrad",
    inputs=["shape: Index", "begin: Index", "end: Index", "strides: Index", "dy: T"],
    outputs=["output: T"],
    attrs=[
        "T: type",
        "Index: type",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ],
    shape=lambda c: c.constant_as_shape(0),
    kernel=_strided_gradient_kernel,
)

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@gradient("StridedSlice")
def _strided_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, begin, end, strides = op.inputs
    lengths = shape(x, out_type=begin.dtype.base_dtype)
    masks = {name: op.get_attr(name) for name in _MASKS}
    back = output_of("StridedSliceGrad", lengths, begin, end, strides, grad, **masks)
    return [back, None, None, None]


@gradient("StridedSliceGrad")
def _strided_second(op: Operation, grad: Tensor) -> list[Tensor | None]:
    _lengths, begin, end, strides, _dy = op.inputs
    masks = {name: op.get_attr(name) for name in _MASKS}
    return [None, None, None, None, strided_slice(grad, begin, end, strides, **masks)]


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """`input_[begin:end:strides]` for all axes at once; the masks as in TensorFlow."""
    if var is not None:
        raise UnimplementedError.without_op("strided_slice(var=...): assignment to slices.")
    if strides is None:
        strides = ones_like(begin)
    return apply_op(
        "StridedSlice",
        input_,
        begin,
        end,
        strides,
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
        name=name,
    ).values()[0]


_INDEX_TYPES = (int16, int32, int64)


def _as_index(value: Any) -> Any:
    if type(value) is not bool and isinstance(value, (numbers.Integral, Dimension)):
        return int(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu":
        return int(value)
    value = value._as_tensor(None) if hasattr(value, "_as_tensor") else value
    is_index = isinstance(value, Tensor) and value.dtype.base_dtype in _INDEX_TYPES
    if is_index and value.shape.rank in (None, 0):
        return value
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar "
        f"int32/int64 tensors are valid indices, got {value!r}"
    )


def _bound(value: Any, default: int, kind: Any) -> tuple[Any, bool]:
    """A slice's bound, and whether it was left out."""
    if value is None or (isinstance(value, Dimension) and value.value is None):
        return (default if kind is None else constant_op(default, kind)), True
    return _as_index(value), False


def _getitem(tensor: Any, spec: Any) -> Tensor:
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks: dict[str, Any] = dict.fromkeys(_MASKS, 0)
    tensor = convert_to_tensor(tensor)
    is_mask = getattr(spec, "dtype", None) in (bool_, np.dtype(bool))
    if is_mask or isinstance(spec, bool):
        return boolean_mask(tensor, spec)
    for i, item in enumerate(spec if isinstance(spec, (list, tuple)) else [spec]):
        if isinstance(item, slice):
            kinds = [
                t.dtype.base_dtype
                for t in (item.start, item.stop, item.step)
                if isinstance(t, Tensor) and t.dtype.base_dtype in _INDEX_TYPES
            ]
            kind = max(kinds, key=lambda d: d.size) if kinds else None
            for values, value, default, mask in (
                (begin, item.start, 0, "begin_mask"),
                (end, item.stop, 0, "end_mask"),
                (strides, item.step, 1, ""),
            ):
                bound, left_out = _bound(value, default, kind)
                values.append(bound)
                if left_out and mask:
                    masks[mask] |= 1 << i
            continue
        if item is Ellipsis or item is newaxis:
            masks["ellipsis_mask" if item is Ellipsis else "new_axis_mask"] |= 1 << i
            begin.append(0)
            end.append(0)
            strides.append(1)
            continue
        index = _as_index(item)
        masks["shrink_axis_mask"] |= 1 << i
        begin.append(index)
        if isinstance(index, Tensor):
            end.append(apply_op("AddV2", index, 1, name="add").values()[0])
            wide = index.dtype.base_dtype is not int32
            strides.append(constant_op(1, index.dtype.base_dtype) if wide else 1)
        else:
            end.append(index + 1)
            strides.append(1)
    with name_scope(None, "strided_slice", [tensor]) as scope:
        if begin:
            packed = [stack(begin), stack(end), stack(strides)]
            if any(p.dtype is int64 for p in packed):
                packed = [
                    p if p.dtype is int64 else apply_op("Cast", p, DstT=int64).values()[0]
                    for p in packed
                ]
        else:
            packed = [constant_op([], int32)] * 3
        return apply_op("StridedSlice", tensor, *packed, **masks, name=scope).values()[0]


define_operator("__getitem__", _getitem)
