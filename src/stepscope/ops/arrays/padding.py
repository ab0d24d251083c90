"""More of the same values: tiling, padding, mirroring, reversing."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array, string
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import TensorShape, unknown_shape
from stepscope.ops.arrays.shaping import reshape, resolve_axis, shape, transpose
from stepscope.ops.signatures import output_of

# -- Tile, Pad, PadV2, MirrorPad, ReverseV2, ReverseSequence -----------------------------------


def _tile_shape(c: ShapeContext) -> TensorShape:
    axes, multiples = c.input(0).axes, c.constant_as_shape(1)
    if axes is None or multiples.axes is None:
        rank = c.input(0).rank if axes is not None else multiples.rank
        return unknown_shape(rank)
    if len(axes) != len(multiples.axes):
        raise ValueError(
            f"multiples has {len(multiples.axes)} entries, but the input of shape "
            f"{c.input(0).brief()} has {len(axes)} axes"
        )
    return TensorShape(
        [
            None if a is None or m is None else a * m
            for a, m in zip(axes, multiples.axes, strict=True)
        ]
    )


def _tile_kernel(node: KernelNode) -> Kernel:
    if node.constants[1] is not None:
        times = tuple(int(m) for m in node.constants[1])
        return Kernel(lambda x, _multiples: np.tile(x, times))
    return Kernel(lambda x, multiples: np.tile(x, tuple(multiples)))


register(
    "Tile",
    inputs=["input: T", "multiples: Tmultiples"],
    outputs=["output: T"],
    attrs=["T: type", "Tmultiples: type = int32"],
    shape=_tile_shape,
    kernel=_tile_kernel,
)


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeated `multiples[i]` times along each axis."""
    return apply_op("Tile", input, multiples, name=name).values()[0]


def _pad_shape(c: ShapeContext) -> TensorShape:
    axes, paddings = c.input(0).axes, c.constant(1)
    rows = c.input(1).axes
    if axes is None:
        return unknown_shape(rows[0] if rows else None)
    if rows is not None and rows[0] not in (None, len(axes)):
        raise ValueError(
            f"paddings must have a row for each axis, but have shape {c.input(1).brief()} for an "
            f"input of shape {c.input(0).brief()}"
        )
    if paddings is None:
        return unknown_shape(len(axes))
    if np.any(paddings < 0):
        raise ValueError(f"Paddings must be non-negative: {paddings.tolist()}")
    return TensorShape(
        [None if a is None else a + int(p[0] + p[1]) for a, p in zip(axes, paddings, strict=True)]
    )


def _pad_kernel(node: KernelNode) -> Kernel:
    is_string = node.output_dtypes[0].base_dtype is string
    dtype = node.output_dtypes[0].numpy
    zero = b"" if is_string else dtype.type(0)

    def call(x: Any, paddings: Any, value: Any = zero, out: Any = None) -> Any:
        if out is None:
            shape = tuple(d + int(p[0]) + int(p[1]) for d, p in zip(x.shape, paddings, strict=True))
            out = np.empty(shape, dtype=dtype)
        out[...] = value
        inner = tuple(
            slice(int(p[0]), int(p[0]) + d) for d, p in zip(x.shape, paddings, strict=True)
        )
        out[inner] = x
        return out

    return Kernel(call, out="keyword")


def _mirror_kernel(node: KernelNode) -> Kernel:
    reflect = node.attr("mode") == b"REFLECT"
    mode: Any = "reflect" if reflect else "symmetric"

    def call(x: Any, paddings: Any) -> Any:
        for dim, row in zip(x.shape, paddings, strict=True):
            if max(row) > dim - reflect:
                raise InvalidArgumentError.without_op(
                    "paddings must be no greater than the dimension size"
                    f"{' less one' if reflect else ''}: {row[0]}, {row[1]} greater than "
                    f"{dim - reflect}",
                )
        return np.pad(x, paddings, mode)

    return Kernel(call)


register(
    "Pad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: type = int32"],
    shape=_pad_shape,
    kernel=_pad_kernel,
)
register(
    "PadV2",
    inputs=["input: T", "paddings: Tpaddings", "constant_values: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: type = int32"],
    shape=_pad_shape,
    kernel=_pad_kernel,
)
register(
    "MirrorPad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: type = int32", "mode: string"],
    shape=_pad_shape,
    kernel=_mirror_kernel,
)


def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: Any = 0,
) -> Tensor:
    """With `paddings[i]` = (before, after) elements more along each axis."""
    kind = mode.upper()
    if kind == "CONSTANT":
        plain = not isinstance(constant_values, Tensor) and np.ndim(constant_values) == 0
        if plain and constant_values == 0:
            op = apply_op("Pad", tensor, paddings, name=name)
        else:
            op = apply_op("PadV2", tensor, paddings, constant_values, name=name)
    elif kind in ("REFLECT", "SYMMETRIC"):
        op = apply_op("MirrorPad", tensor, paddings, mode=kind, name=name)
    else:
        raise ValueError(f"Unknown padding mode {mode!r}; use CONSTANT, REFLECT or SYMMETRIC.")
    result, axes = op.values()[0], op.inputs[0].shape.axes
    if isinstance(paddings, (list, tuple)) and axes is not None and not result.shape.known:
        result.set_shape(
            [
                None if dim is None or any(isinstance(p, Tensor) for p in row) else dim + sum(row)
                for dim, row in zip(axes, paddings, strict=True)
            ]
        )
    return result


def _reverse_shape(c: ShapeContext) -> TensorShape:
    axes, which = c.input(0).axes, c.constant(1)
    if axes is not None and which is not None:
        resolved = [resolve_axis(int(a), len(axes)) for a in which]
        if len(set(resolved)) != len(resolved):
            raise ValueError(f"axis {which.tolist()} specified more than once")
    return c.input(0)


def _reverse_kernel(node: KernelNode) -> Kernel:
    if node.constants[1] is not None:
        axes = tuple(int(a) for a in node.constants[1])
        return Kernel(lambda x, _axis: np.flip(x, axes), views=(0,))
    return Kernel(lambda x, axis: np.flip(x, tuple(axis)), views=(0,))


register(
    "ReverseV2",
    inputs=["tensor: T", "axis: Tidx"],
    outputs=["output: T"],
    attrs=["Tidx: type = int32", "T: type"],
    shape=_reverse_shape,
    kernel=_reverse_kernel,
)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Back to front along each axis in the list."""
    return apply_op("ReverseV2", tensor, axis, name=name).values()[0]


reverse_v2 = reverse


def _reverse_sequence_kernel(node: KernelNode) -> Kernel:
    seq_dim, batch_dim = int(node.attr("seq_dim")), int(node.attr("batch_dim"))

    def call(x: Array, lengths: Array) -> Array:
        rows = np.moveaxis(x, (batch_dim, seq_dim), (0, 1))
        if len(lengths) != len(rows):
            raise InvalidArgumentError.without_op(
                f"Length of seq_lengths != input.dims({batch_dim}), ({len(lengths)} vs. "
                f"{len(rows)})",
            )
        made = np.empty_like(x)
        into = np.moveaxis(made, (batch_dim, seq_dim), (0, 1))
        for row, (source, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
            if not 0 <= length <= len(source):
                raise InvalidArgumentError.without_op(
                    f"seq_lens({row}) must be in 0..{len(source)}, the length of axis {seq_dim}; "
                    f"it is {length}",
                )
            into[row, :length] = source[:length][::-1]
            into[row, length:] = source[length:]
        return made

    return Kernel(call)


register(
    "ReverseSequence",
    inputs=["input: T", "seq_lengths: Tlen"],
    outputs=["output: T"],
    attrs=["seq_dim: int", "batch_dim: int = 0", "T: type", "Tlen: type = int64"],
    shape=lambda c: c.input(0),
    kernel=_reverse_sequence_kernel,
)


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Of each entry along the batch axis, the first `seq_lengths` elements back to front."""
    along = seq_dim if seq_axis is None else seq_axis
    if along is None:
        raise ValueError("reverse_sequence needs `seq_axis`: the axis that is reversed.")
    each = (batch_dim or 0) if batch_axis is None else batch_axis
    op = apply_op(
        "ReverseSequence", input, seq_lengths, seq_dim=along, batch_dim=each, name=name
    )  # fmt: skip
    return op.values()[0]


# -- gradients ---------------------------------------------------------------------------------


@gradient("Tile")
def _tile_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, multiples = op.inputs
    lengths = shape(x, out_type=multiples.dtype.base_dtype)
    # Every axis becomes two, the repetitions and the elements, and the repetitions are summed.
    pairs = reshape(transpose(output_of("Pack", [multiples, lengths])), [-1])
    axes = output_of("Range", 0, output_of("Size", pairs), 2)
    total = output_of("Sum", reshape(grad, pairs), axes)
    total.set_shape(x.shape)
    return [total, None]


@gradient("Pad", "PadV2")
def _pad_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    x, paddings = op.inputs[:2]
    begin = paddings[:, 0]
    inner = output_of("Slice", grad, begin, shape(x, out_type=paddings.dtype.base_dtype))
    return [inner, *[None] * (len(op.inputs) - 1)]


@gradient("ReverseV2")
def _reverse_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [reverse(grad, op.inputs[1]), None]


@gradient("ReverseSequence")
def _reverse_sequence_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    attrs = {name: op.get_attr(name) for name in ("seq_dim", "batch_dim")}
    return [output_of("ReverseSequence", grad, op.inputs[1], **attrs), None]


def _unmirrored_shape(c: ShapeContext) -> TensorShape:
    axes, paddings = c.input(0).axes, c.constant(1)
    if axes is None or paddings is None:
        return c.input(0) if axes is None else unknown_shape(len(axes))
    return TensorShape(
        [None if a is None else a - int(p[0] + p[1]) for a, p in zip(axes, paddings, strict=True)]
    )


def _unmirror_kernel(node: KernelNode) -> Kernel:
    skip = 1 if node.attr("mode") == b"REFLECT" else 0

    def call(x: Any, paddings: Any) -> Any:
        for axis, (before, after) in enumerate(paddings):
            length = x.shape[axis] - int(before) - int(after)
            turned = np.moveaxis(x, axis, 0)
            inner = np.array(turned[before : before + length])
            # What was mirrored out comes back in, the other way round.
            inner[skip : skip + before] += turned[:before][::-1]
            end = length - skip
            inner[end - after : end] += turned[before + length :][::-1]
            x = np.moveaxis(inner, 0, axis)
        return np.ascontiguousarray(x).reshape(x.shape)

    return Kernel(call)


register(
    "MirrorPadGrad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: type = int32", "mode: string"],
    shape=_unmirrored_shape,
    kernel=_unmirror_kernel,
)


@gradient("MirrorPad")
def _mirror_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    back = output_of("MirrorPadGrad", grad, op.inputs[1], mode=op.get_attr("mode"))
    return [back, None]


@gradient("MirrorPadGrad")
def _mirror_second(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [output_of("MirrorPad", grad, op.inputs[1], mode=op.get_attr("mode")), None]
