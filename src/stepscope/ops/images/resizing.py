"""Images of another size: bilinear, nearest, bicubic and by areas, with gradients.

TensorFlow has none for ResizeArea.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.constants import constant_as_shape
from stepscope.graph.dtypes import Array
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
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.shaping import expand_dims, shape, squeeze
from stepscope.ops.math.reductions import reduce_min
from stepscope.ops.math.unary import round
from stepscope.ops.signatures import FLOATS, SIGNED, exactly_rank, limited, output_of

__all__ = [
    "ResizeMethod",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_images",
    "resize_nearest_neighbor",
]

_PIXELS = (*FLOATS, *SIGNED, dt.uint8, dt.uint16)


class ResizeMethod:
    """How `resize_images` finds pixels between those that are there.

    >>> ResizeMethod.NEAREST_NEIGHBOR
    1
    """

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def _scale(node: KernelNode, given: int, made: int) -> Any:
    if node.attr("align_corners") and made > 1:
        return np.float32(given - 1) / np.float32(made - 1)
    return np.float32(given) / np.float32(made)


def _between(node: KernelNode, given: int, made: int) -> tuple[Array, Array, Array]:
    """For each new line the two old ones it lies between, and how far it is from the first."""
    scale, half = _scale(node, given, made), np.float32(0.5)
    at = np.arange(made, dtype=np.float32)
    at = (at + half) * scale - half if node.attr("half_pixel_centers") else at * scale
    below = np.floor(at)
    low = np.maximum(below, 0).astype(np.intp)
    high = np.clip(np.ceil(at), 0, given - 1).astype(np.intp)
    return low, high, at - below


def _nearest(node: KernelNode, given: int, made: int) -> Array:
    """For each new line the old one it is taken from."""
    scale, half = _scale(node, given, made), np.float32(0.5)
    at = np.arange(made, dtype=np.float32)
    at = (at + half) * scale if node.attr("half_pixel_centers") else at * scale
    lines = np.floor(at + half) if node.attr("align_corners") else np.floor(at)
    result: Array = np.clip(lines, 0, given - 1).astype(np.intp)
    return result


def _wanted(size: Array) -> tuple[int, int]:
    height, width = (int(n) for n in size)
    if height <= 0 or width <= 0:
        raise InvalidArgumentError.without_op(
            f"output dimensions must be positive: ({height}, {width})"
        )
    return height, width


def _shape(ctx: ShapeContext) -> TensorShape:
    images = exactly_rank(ctx.input(0), 4)
    size = ctx.constant_as_shape(1).merge_with(TensorShape((None, None)))
    assert images.axes is not None
    assert size.axes is not None
    return TensorShape((images.axes[0], *size.axes, images.axes[3]))


# -- bilinear ----------------------------------------------------------------------------------


def _bilinear_kernel(node: KernelNode) -> Kernel:
    def call(images: Array, size: Array) -> Array:
        height, width = _wanted(size)
        top, bottom, down = _between(node, images.shape[1], height)
        left, right, along = _between(node, images.shape[2], width)
        x = images.astype(np.float32, copy=False)
        first, second = x[:, :, left], x[:, :, right]
        rows = first + (second - first) * along[:, None]
        upper, lower = rows[:, top], rows[:, bottom]
        result: Array = upper + (lower - upper) * down[:, None, None]
        return result

    return Kernel(call)


def _shares(node: KernelNode, given: int, made: int) -> Array:
    """What each new line has of each old one, as a matrix (new, old)."""
    low, high, far = _between(node, given, made)
    result = np.zeros((made, given), np.float32)
    lines = np.arange(made)
    np.add.at(result, (lines, low), np.float32(1) - far)
    np.add.at(result, (lines, high), far)
    return result


def _bilinear_grad_kernel(node: KernelNode) -> Kernel:
    def call(grads: Array, original: Array) -> Array:
        down = _shares(node, original.shape[1], grads.shape[1])
        along = _shares(node, original.shape[2], grads.shape[2])
        rows = np.tensordot(grads, down, (1, 0))  # (image, new column, channel, old line)
        whole = np.tensordot(rows, along, (1, 0))  # (image, channel, old line, old column)
        return np.ascontiguousarray(whole.transpose(0, 2, 3, 1)).astype(original.dtype, copy=False)

    return Kernel(call)


_ATTRS = ("T: type", "align_corners: bool = false", "half_pixel_centers: bool = false")
register(
    "ResizeBilinear",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: float32",),
    attrs=_ATTRS,
    shape=limited(_shape, _PIXELS),
    kernel=_bilinear_kernel,
)
register(
    "ResizeBilinearGrad",
    inputs=("grads: float32", "original_image: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=lambda ctx: ctx.input(1),
    kernel=_bilinear_grad_kernel,
)
no_gradient("ResizeBilinearGrad")

# -- nearest -----------------------------------------------------------------------------------


def _nearest_kernel(node: KernelNode) -> Kernel:
    def call(images: Array, size: Array) -> Array:
        height, width = _wanted(size)
        lines = _nearest(node, images.shape[1], height)
        columns = _nearest(node, images.shape[2], width)
        return np.ascontiguousarray(images[:, lines][:, :, columns])

    return Kernel(call)


def _nearest_grad_kernel(node: KernelNode) -> Kernel:
    def call(grads: Array, size: Array) -> Array:
        height, width = _wanted(size)
        lines = _nearest(node, height, grads.shape[1])
        columns = _nearest(node, width, grads.shape[2])
        out = np.zeros((grads.shape[0], height, width, grads.shape[3]), grads.dtype)
        places = (lines[:, None], columns[None, :])
        np.add.at(out.transpose(1, 2, 0, 3), places, grads.transpose(1, 2, 0, 3))
        return out

    return Kernel(call)


register(
    "ResizeNearestNeighbor",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: T",),
    attrs=_ATTRS,
    shape=limited(_shape, _PIXELS),
    kernel=_nearest_kernel,
)
register(
    "ResizeNearestNeighborGrad",
    inputs=("grads: T", "size: int32"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=_shape,
    kernel=_nearest_grad_kernel,
)


# -- by lines: what a new line has of each old one -------------------------------------------


def _by_lines(images: Array, down: Array, along: Array) -> Array:
    """Images whose new lines and columns are sums of old ones: matrices (new, old)."""
    rows = np.tensordot(images.astype(np.float32, copy=False), down, (1, 1))
    whole = np.tensordot(rows, along, (1, 1))  # (image, channel, line, column)
    return np.ascontiguousarray(whole.transpose(0, 2, 3, 1))


_STEPS = 1024
"""Cubic weights are those of the nearest of so many places between two pixels."""


def _cubic_table(a: float) -> Array:
    """Keys' function at 0 to 1 in the first row, at 1 to 2 in the second."""
    near = np.arange(_STEPS + 1, dtype=np.float32) / np.float32(_STEPS)
    far = near + 1
    return np.stack(
        [
            ((a + 2) * near - (a + 3)) * near * near + 1,
            ((a * far - 5 * a) * far + 8 * a) * far - 4 * a,
        ]
    ).astype(np.float32)


_SHARP, _SMOOTH = _cubic_table(-0.75), _cubic_table(-0.5)


def _cubic_shares(node: KernelNode, given: int, made: int) -> Array:
    """What each new line has of each old one, as a matrix (new, old)."""
    scale, half = _scale(node, given, made), np.float32(0.5)
    centred = node.attr("half_pixel_centers")
    at = np.arange(made, dtype=np.float32)
    at = (at + half) * scale - half if centred else at * scale
    first = np.floor(at)
    step = np.rint((at - first) * np.float32(_STEPS)).astype(np.intp)
    near, far = _SMOOTH if centred else _SHARP
    weights = np.stack([far[step], near[step], near[_STEPS - step], far[_STEPS - step]], 1)
    places = first.astype(np.intp)[:, None] + np.arange(-1, 3)
    bounded = np.clip(places, 0, given - 1)
    if centred:
        weights = np.where(places == bounded, weights, np.float32(0))
        weights = weights / weights.sum(1, keepdims=True)
    result = np.zeros((made, given), np.float32)
    np.add.at(result, (np.arange(made)[:, None], bounded), weights)
    return result


def _area_shares(node: KernelNode, given: int, made: int) -> Array:
    """As `_cubic_shares`, for the mean of what lies below a new pixel."""
    scale = _scale(node, given, made)
    result = np.zeros((made, given), np.float32)
    for line in range(made):
        start, end = np.float32(line) * scale, np.float32(line + 1) * scale
        for old in range(int(np.floor(start)), int(np.ceil(end))):
            share = min(np.float32(old + 1), end) - max(np.float32(old), start)
            result[line, min(max(old, 0), given - 1)] += share / scale
    return result


def _lines_kernel(node: KernelNode) -> Kernel:
    shares = _cubic_shares if node.op.type == "ResizeBicubic" else _area_shares

    def call(images: Array, size: Array) -> Array:
        height, width = _wanted(size)
        down, along = (
            shares(node, images.shape[1], height), shares(node, images.shape[2], width)
        )  # fmt: skip
        return _by_lines(images, down, along)

    return Kernel(call)


def _bicubic_grad_kernel(node: KernelNode) -> Kernel:
    def call(grads: Array, original: Array) -> Array:
        down = _cubic_shares(node, original.shape[1], grads.shape[1])
        along = _cubic_shares(node, original.shape[2], grads.shape[2])
        return _by_lines(grads, down.T, along.T).astype(original.dtype, copy=False)

    return Kernel(call)


for _name, _attrs in (("ResizeBicubic", _ATTRS), ("ResizeArea", _ATTRS[:2])):
    register(
        _name,
        inputs=("images: T", "size: int32"),
        outputs=("resized_images: float32",),
        attrs=_attrs,
        shape=limited(_shape, _PIXELS),
        kernel=_lines_kernel,
    )
register(
    "ResizeBicubicGrad",
    inputs=("grads: float32", "original_image: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=lambda ctx: ctx.input(1),
    kernel=_bicubic_grad_kernel,
)


def _like(op: Operation) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}


@gradient("ResizeBilinear")
def _bilinear_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [output_of("ResizeBilinearGrad", grad, op.inputs[0], **_like(op)), None]


@gradient("ResizeBicubic")
def _bicubic_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    image = op.inputs[0]
    if image.dtype not in (dt.float32, dt.float64):
        return [None, None]
    return [output_of("ResizeBicubicGrad", grad, image, **_like(op)), None]


@gradient("ResizeNearestNeighbor")
def _nearest_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    size = shape(op.inputs[0])[1:3]
    return [output_of("ResizeNearestNeighborGrad", grad, size, **_like(op)), None]


# -- functions ---------------------------------------------------------------------------------


def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:  # fmt: skip
    """Images (batch, height, width, channels) of that (height, width), as float32."""
    return output_of(
        "ResizeBilinear", images, size, align_corners=align_corners,
        half_pixel_centers=half_pixel_centers, name=name,
    )  # fmt: skip


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:  # fmt: skip
    """Images (batch, height, width, channels) of that (height, width), pixels as they were."""
    return output_of(
        "ResizeNearestNeighbor", images, size, align_corners=align_corners,
        half_pixel_centers=half_pixel_centers, name=name,
    )  # fmt: skip


def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:  # fmt: skip
    """Images (batch, height, width, channels) of that (height, width), as float32; cubic.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     image = tf.constant([[[[0.0]], [[8.0]]]])
    ...     session.run(tf.image.resize_bicubic(image, [4, 1]))[0, :, 0, 0].tolist()
    [0.0, 4.0, 8.0, 8.75]
    """
    return output_of(
        "ResizeBicubic", images, size, align_corners=align_corners,
        half_pixel_centers=half_pixel_centers, name=name,
    )  # fmt: skip


def resize_area(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Tensor:
    """Images of that (height, width), as float32: means of the pixels each new one covers.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     image = tf.constant([[[[0.0]], [[8.0]], [[4.0]]]])
    ...     session.run(tf.image.resize_area(image, [1, 1])).tolist()
    [[[[4.0]]]]
    """
    return output_of("ResizeArea", images, size, align_corners=align_corners, name=name)


_METHODS: dict[Any, Callable[..., Tensor]] = {
    ResizeMethod.BILINEAR: resize_bilinear,
    "bilinear": resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    "nearest": resize_nearest_neighbor,
    ResizeMethod.BICUBIC: resize_bicubic,
    "bicubic": resize_bicubic,
    ResizeMethod.AREA: resize_area,
    "area": resize_area,
}


def _fitting(size: Tensor, images: Tensor) -> Tensor:
    """The largest height and width within `size` that have the images' ratio."""
    now = cast(shape(images)[1:3], dt.float32)
    factor = reduce_min(cast(size, dt.float32) / now)
    return cast(round(factor * now), dt.int32)


def resize_images(
    images: Any, size: Any, method: Any = ResizeMethod.BILINEAR, align_corners: bool = False,
    preserve_aspect_ratio: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """An image, or a batch of them, of that (height, width); as it is where it has that size."""
    if method not in _METHODS:
        raise ValueError(
            f"Resize method is not implemented: {method}. There are BILINEAR, NEAREST_NEIGHBOR, "
            "BICUBIC and AREA of tf.image.ResizeMethod."
        )
    with name_scope(name, "resize", [images, size]):
        images = convert_to_tensor(images, None, "images")
        if images.shape.rank not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        single = images.shape.rank == 3
        batch = expand_dims(images, 0) if single else images
        size = convert_to_tensor(size, dt.int32, "size")
        if not size.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if preserve_aspect_ratio:
            size = _fitting(size, batch)
        axes = constant_as_shape(size).axes or (None, None)
        if None in axes or exactly_rank(batch.shape, 4)[1:3].axes != axes:
            batch = _METHODS[method](batch, size, align_corners)
            batch.set_shape([None, *axes, None])
        return squeeze(batch, [0]) if single else batch
