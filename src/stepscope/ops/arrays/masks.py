"""Masks: the elements a mask selects, and masks from lengths."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import apply_op, constant_op, convert_to_tensor
from stepscope.graph.dtypes import as_dtype, bool_, int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.indexing import gather
from stepscope.ops.arrays.joining import concat
from stepscope.ops.arrays.shaping import expand_dims, reshape, shape, squeeze


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = bool_, name: str | None = None
) -> Tensor:
    """For each length n a row of `maxlen` (the longest, if not given) flags, the first n set."""
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            if lengths.shape.rank is None:
                raise ValueError("sequence_mask() of lengths of unknown rank needs maxlen.")
            axes = constant_op(list(range(lengths.shape.rank)), int32)
            longest = apply_op("Max", lengths, axes).values()[0]
            zero = constant_op(0, longest.dtype)
            maxlen = apply_op("Maximum", zero, longest).values()[0]
        else:
            maxlen = convert_to_tensor(maxlen)
        if maxlen.shape.rank not in (None, 0):
            raise ValueError(f"maxlen must be scalar for sequence_mask, not {maxlen!r}.")
        start, step = constant_op(0, maxlen.dtype), constant_op(1, maxlen.dtype)
        row = apply_op("Range", start, maxlen, step).values()[0]
        column = apply_op(
            "Cast", expand_dims(lengths, -1), DstT=maxlen.dtype.base_dtype
        ).values()[0]  # fmt: skip
        return cast(apply_op("Less", row, column).values()[0], as_dtype(dtype))


def boolean_mask(
    tensor: Any, mask: Any, name: str = "boolean_mask", axis: int | None = None
) -> Tensor:
    """The elements (or slices) of `tensor` where `mask` is true, in order."""
    at = 0 if axis is None else int(axis)
    with name_scope(name, None, [tensor, mask]):
        tensor = convert_to_tensor(tensor, name="tensor")
        mask = convert_to_tensor(mask, bool_, "mask")
        rank = mask.shape.rank
        if not rank:
            raise ValueError(f"A mask has a known rank of at least 1, not shape {mask.shape}.")
        if not tensor.shape[at : at + rank].is_compatible_with(mask.shape):
            raise ValueError(
                f"Shapes {tensor.shape[at : at + rank]} and {mask.shape} are incompatible: the "
                f"mask must fit the axes of the tensor, {tensor.shape}, from {at} on."
            )
        masked = shape(tensor)[at : at + rank]
        count = apply_op("Prod", masked, [0], name="Prod").values()[0]
        before, after = shape(tensor)[:at], shape(tensor)[at + rank :]
        flat = reshape(tensor, concat([before, [count], after], 0))
        axes = tensor.shape.axes
        if axes is not None:
            length = TensorShape(axes[at : at + rank]).num_elements()
            flat.set_shape([*axes[:at], length, *axes[at + rank :]])
        where = apply_op("Where", reshape(mask, [-1])).values()[0]
        return gather(flat, squeeze(where, axis=[1]), axis=at)
