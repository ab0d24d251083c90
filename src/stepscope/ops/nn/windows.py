"""Where the windows of convolutions and pools lie: how many, how far apart, how much padding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.errors import UnimplementedError
from stepscope.graph.dtypes import Array
from stepscope.graph.registry import KernelNode
from stepscope.graph.shapes import TensorShape


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """The windows along one axis of an image."""

    count: int | None
    size: int
    stride: int
    dilation: int = 1
    before: int = 0
    after: int = 0

    def at(self, offset: int) -> slice:
        """Of every window the element at `offset`, as a slice of the padded axis."""
        assert self.count is not None
        start = offset * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)

    def covers(self, length: int) -> bool:
        """Whether windows that do not overlap leave out nothing of a (padded) axis."""
        return self.stride == self.size and self.dilation == 1 and self.count == length / self.size

    def turned(self, length: int) -> WindowAxis | None:
        """For each element of an axis of that length, the windows it was in; None if with gaps."""
        reach = (self.size - 1) * self.dilation
        before, count = reach - self.before, self.count or 0
        after = length + reach - count - before
        if self.stride != 1 or before < 0 or after < 0:
            return None
        return WindowAxis(length, self.size, 1, self.dilation, before, after)


def line(
    length: int | None,
    size: int,
    stride: int,
    padding: bytes,
    dilation: int = 1,
    explicit: Sequence[int] = (0, 0),
) -> WindowAxis:
    """The windows of `size` along an axis of that length; ValueError where none fits."""
    reach = (size - 1) * dilation + 1
    if padding == b"SAME":
        if length is None:
            return WindowAxis(None, size, stride, dilation)
        count = -(-length // stride)
        missing = max((count - 1) * stride + reach - length, 0)
        return WindowAxis(count, size, stride, dilation, missing // 2, missing - missing // 2)
    before, after = explicit if padding == b"EXPLICIT" else (0, 0)
    if length is None:
        return WindowAxis(None, size, stride, dilation, before, after)
    count = (length + before + after - reach) // stride + 1
    if count <= 0:
        raise ValueError(
            f"Negative dimension size caused by subtracting {reach} from {length}: the window is "
            "larger than the image."
        )
    return WindowAxis(count, size, stride, dilation, before, after)


def lines_of(
    node: Any, lengths: Sequence[int | None], sizes: Sequence[int]
) -> tuple[WindowAxis, ...]:
    """The windows along each axis of a node's (or a shape rule's) images or volumes."""
    attr = node.attr
    strides, padding = attr("strides"), attr("padding")
    dilations, explicit = [1] * len(strides), [0] * 2 * len(strides)
    if "dilations" in _attrs(node):
        dilations = attr("dilations")
    if "explicit_paddings" in _attrs(node) and padding == b"EXPLICIT":
        explicit = attr("explicit_paddings")
    return tuple(
        line(
            lengths[i], sizes[i], int(strides[i + 1]), padding, int(dilations[i + 1]),
            (int(explicit[2 * i + 2]), int(explicit[2 * i + 3])),
        )
        for i in range(len(sizes))
    )  # fmt: skip


def _attrs(node: Any) -> Any:
    return node.op.attrs if isinstance(node, KernelNode) else node.attrs


def refuse_channels_first(node: KernelNode) -> None:
    layout = node.attr("data_format")
    if layout not in (b"NHWC", b"NDHWC"):
        taken = "NDHWC" if len(layout) == 5 else "NHWC"
        raise UnimplementedError.without_op(
            f"{node.op.type} {node.name!r}: data_format {layout.decode()!r}; the CPU takes "
            f"{taken!r}."
        )


def windowed_shape(node: Any, image: TensorShape, sizes: Sequence[int], depth: Any) -> TensorShape:
    """The shape of one value per window and channel."""
    axes = image.axes if image.axes is not None else (None,) * (len(sizes) + 2)
    lines = lines_of(node, axes[1:-1], sizes)
    return TensorShape((axes[0], *(line.count for line in lines), depth))


def padded(x: Array, *axes: WindowAxis, value: Any = 0) -> Array:
    """The images with what surrounds them; themselves where nothing does."""
    if not any(axis.before or axis.after for axis in axes):
        return x
    lengths = x.shape[1:-1]
    around = [n + axis.before + axis.after for n, axis in zip(lengths, axes, strict=True)]
    result = np.full((x.shape[0], *around, x.shape[-1]), value, x.dtype)
    result[_inner(axes, lengths)] = x
    return result


def unpadded(x: Array, axes: Sequence[WindowAxis], lengths: Sequence[int]) -> Array:
    """The images again, without what surrounded them."""
    part: Array = x[_inner(axes, lengths)]
    return part


def _inner(axes: Sequence[WindowAxis], lengths: Sequence[int]) -> tuple[slice, ...]:
    inside = (slice(a.before, a.before + n) for a, n in zip(axes, lengths, strict=True))
    return slice(None), *inside


def offsets(*axes: WindowAxis) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Every place in a window, and the index of the elements that lie there in all windows."""
    for place in itertools.product(*(range(axis.size) for axis in axes)):
        yield place, (slice(None), *(axis.at(n) for axis, n in zip(axes, place, strict=True)))
