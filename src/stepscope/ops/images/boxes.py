"""Boxes in images: crops of them, the best of those that overlap, frames drawn around them.

A box is (top, left, bottom, right), from 0 to 1 of the image's height and width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
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
from stepscope.ops.arrays.shaping import shape
from stepscope.ops.signatures import (
    FLOATS,
    SIGNED,
    exactly_rank,
    limited,
    merge_dims,
    one_name,
    output_of,
)

__all__ = ["crop_and_resize", "draw_bounding_boxes", "non_max_suppression"]

_PIXELS = (*FLOATS, *SIGNED, dt.uint8, dt.uint16)

# -- crops of boxes ----------------------------------------------------------------------------


def _places(start: Any, end: Any, given: int, made: int) -> Array:
    """Where in the old image the lines of a crop lie, as floats."""
    start, end = np.float32(start), np.float32(end)
    if made == 1:
        return np.array([np.float32(0.5) * (start + end) * (given - 1)], np.float32)
    step = (end - start) * np.float32(given - 1) / np.float32(made - 1)
    first: Array = start * np.float32(given - 1) + np.arange(made, dtype=np.float32) * step
    return first.astype(np.float32, copy=False)


def _check_boxes(images: Array, boxes: Array, which: Array) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or which.shape != boxes.shape[:1]:
        raise InvalidArgumentError.without_op(
            f"boxes must be (number, 4) and box_ind (number): {boxes.shape}, {which.shape}"
        )
    if which.size and (which.min() < 0 or which.max() >= len(images)):
        raise InvalidArgumentError.without_op(
            f"box_index has values outside [0, batch_size): {which.tolist()}, and there are "
            f"{len(images)} images"
        )


def _crop_kernel(node: KernelNode) -> Kernel:
    nearest = node.attr("method") == b"nearest"
    outside = node.attr("extrapolation_value")

    def call(images: Array, boxes: Array, which: Array, size: Array) -> Array:
        _check_boxes(images, boxes, which)
        height, width = _crop_size(size)
        result = np.full((len(boxes), height, width, images.shape[3]), outside, np.float32)
        for crop, box, index in zip(result, boxes, which, strict=True):
            rows, columns = _lines_of(box, images.shape, height, width)
            inside = np.ix_(*(within for _, within in (rows, columns)))
            image = images[index].astype(np.float32, copy=False)
            crop[inside] = _sampled(image, rows[0][rows[1]], columns[0][columns[1]], nearest)
        return result

    return Kernel(call)


def _crop_size(size: Array) -> tuple[int, int]:
    height, width = (int(n) for n in size)
    if height <= 0 or width <= 0:
        raise InvalidArgumentError.without_op(
            f"crop dimensions must be positive: ({height}, {width})"
        )
    return height, width


def _lines_of(box: Array, images: Any, height: int, width: int) -> Any:
    """For rows and columns of a crop their places, and which of them are in the image."""
    found = []
    for start, end, given, made in (
        (box[0], box[2], images[1], height), (box[1], box[3], images[2], width)
    ):  # fmt: skip
        at = _places(start, end, given, made)
        found.append((at, (at >= 0) & (at <= given - 1)))
    return found


def _sampled(image: Array, rows: Array, columns: Array, nearest: bool) -> Array:
    if nearest:
        down, along = (np.floor(at + np.float32(0.5)).astype(np.intp) for at in (rows, columns))
        return image[np.ix_(down, along)]
    (top, bottom, down), (left, right, along) = map(_neighbours, (rows, columns))
    upper, lower = image[top], image[bottom]
    first = upper[:, left] + (upper[:, right] - upper[:, left]) * along[:, None]
    second = lower[:, left] + (lower[:, right] - lower[:, left]) * along[:, None]
    result: Array = first + (second - first) * down[:, None, None]
    return result


def _neighbours(at: Array) -> tuple[Array, Array, Array]:
    low = np.floor(at)
    return low.astype(np.intp), np.ceil(at).astype(np.intp), at - low


def _crop_shape(ctx: ShapeContext) -> TensorShape:
    images, boxes = exactly_rank(ctx.input(0), 4), exactly_rank(ctx.input(1), 2)
    size = ctx.constant_as_shape(3).merge_with(TensorShape((None, None)))
    which = exactly_rank(ctx.input(2), 1)
    assert images.axes is not None
    assert boxes.axes is not None
    assert which.axes is not None
    assert size.axes is not None
    count = merge_dims(boxes.axes[0], which.axes[0])
    return TensorShape((count, *size.axes, images.axes[3]))


register(
    "CropAndResize",
    inputs=["image: T", "boxes: float32", "box_ind: int32", "crop_size: int32"],
    outputs=["crops: float32"],
    attrs=["T: type", "method: string = 'bilinear'", "extrapolation_value: float = 0.0"],
    shape=limited(_crop_shape, _PIXELS),
    kernel=_crop_kernel,
)


def _image_grad_kernel(node: KernelNode) -> Kernel:
    nearest = node.attr("method") == b"nearest"

    def call(grads: Array, boxes: Array, which: Array, size: Array) -> Array:
        result = np.zeros([int(n) for n in size], node.attr("T").numpy)
        _check_boxes(result, boxes, which)
        for grad, box, index in zip(grads, boxes, which, strict=True):
            rows, columns = _lines_of(box, result.shape, *grad.shape[:2])
            kept = grad[np.ix_(rows[1], columns[1])]
            _spread(result[index], kept, rows[0][rows[1]], columns[0][columns[1]], nearest)
        return result

    return Kernel(call)


def _spread(target: Array, grad: Array, rows: Array, columns: Array, nearest: bool) -> None:
    if nearest:
        down, along = (np.floor(at + np.float32(0.5)).astype(np.intp) for at in (rows, columns))
        np.add.at(target, (down[:, None], along[None]), grad)
        return
    (top, bottom, down), (left, right, along) = map(_neighbours, (rows, columns))
    for line, high in ((top, 1 - down), (bottom, down)):
        for column, wide in ((left, 1 - along), (right, along)):
            share = high[:, None, None] * wide[None, :, None]
            np.add.at(target, (line[:, None], column[None]), grad * share)


def _image_shape(ctx: ShapeContext) -> TensorShape:
    return ctx.constant_as_shape(3).merge_with(TensorShape((None, None, None, None)))


register(
    "CropAndResizeGradImage",
    inputs=["grads: float32", "boxes: float32", "box_ind: int32", "image_size: int32"],
    outputs=["output: T"],
    attrs=["T: type", "method: string = 'bilinear'"],
    shape=_image_shape,
    kernel=_image_grad_kernel,
)


def _boxes_grad_kernel(_node: KernelNode) -> Kernel:
    def call(grads: Array, images: Array, boxes: Array, which: Array) -> Array:
        result = np.zeros(boxes.shape, np.float32)
        for grad, box, index, out in zip(grads, boxes, which, result, strict=True):
            height, width = grad.shape[:2]
            rows, columns = _lines_of(box, images.shape, height, width)
            inside = np.ix_(rows[1], columns[1])
            image = images[index].astype(np.float32, copy=False)
            down, along = _slopes(image, rows[0][rows[1]], columns[0][columns[1]])
            by_row = np.zeros(height, np.float32)
            by_row[rows[1]] = (grad[inside] * down).sum((1, 2))
            by_column = np.zeros(width, np.float32)
            by_column[columns[1]] = (grad[inside] * along).sum((0, 2))
            out[0], out[2] = _ends(by_row, images.shape[1])
            out[1], out[3] = _ends(by_column, images.shape[2])
        return result

    return Kernel(call)


def _slopes(image: Array, rows: Array, columns: Array) -> tuple[Array, Array]:
    """How the pixels of a crop change as they move down, and along."""
    (top, bottom, down), (left, right, along) = map(_neighbours, (rows, columns))
    corners = [image[np.ix_(line, column)] for line in (top, bottom) for column in (left, right)]
    high, wide = down[:, None, None], along[None, :, None]
    first, second, third, fourth = corners
    return (
        (1 - wide) * (third - first) + wide * (fourth - second),
        (1 - high) * (second - first) + high * (fourth - third),
    )


def _ends(by_line: Array, given: int) -> tuple[Any, Any]:
    """The gradient of both ends of a box by those of the places of a crop's lines."""
    made, length = len(by_line), np.float32(given - 1)
    if made == 1:
        half = np.float32(0.5) * length * by_line.sum()
        return half, half
    far = np.arange(made, dtype=np.float32) / np.float32(made - 1)
    return (by_line * (1 - far)).sum() * length, (by_line * far).sum() * length


register(
    "CropAndResizeGradBoxes",
    inputs=["grads: float32", "image: T", "boxes: float32", "box_ind: int32"],
    outputs=["output: float32"],
    attrs=["T: type", "method: string = 'bilinear'"],
    shape=lambda ctx: ctx.input(2),
    kernel=_boxes_grad_kernel,
)


@gradient("CropAndResize")
def _crop_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    image, boxes, which = op.inputs[:3]
    of_image = None
    if image.dtype.base_dtype in FLOATS:
        of_image = output_of(
            "CropAndResizeGradImage", grad, boxes, which, shape(image), T=image.dtype.base_dtype,
            method=op.get_attr("method"),
        )  # fmt: skip
    of_boxes = output_of("CropAndResizeGradBoxes", grad, image, boxes, which)
    return [of_image, of_boxes, None, None]


def crop_and_resize(
    image: Any, boxes: Any, box_ind: Any = None, crop_size: Any = None, method: str = "bilinear",
    extrapolation_value: float = 0, name: str | None = None, box_indices: Any = None,
) -> Tensor:  # fmt: skip
    """What is in each box, as images of one size; `box_ind` says in which image a box is.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    ...     crop = tf.image.crop_and_resize(image, [[0.0, 0.0, 0.5, 1.0]], [0], [2, 2])
    ...     session.run(crop)[0, :, :, 0].tolist()
    [[0.0, 2.0], [3.0, 5.0]]
    """
    which = one_name("box_indices", box_indices, "box_ind", box_ind)
    return output_of(
        "CropAndResize", image, boxes, which, crop_size, method=method,
        extrapolation_value=float(extrapolation_value), name=name,
    )  # fmt: skip


# -- the best of those that overlap ------------------------------------------------------------


def _suppression_kernel(_node: KernelNode) -> Kernel:
    def call(boxes: Array, scores: Array, most: Any, overlap: Any, least: Any) -> Array:
        if not 0 <= overlap <= 1:
            raise InvalidArgumentError.without_op("iou_threshold must be in [0, 1]")
        if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
            raise InvalidArgumentError.without_op(
                f"boxes must be (number, 4) and scores (number): {boxes.shape}, {scores.shape}"
            )
        exact = boxes.astype(np.float32, copy=False)
        low, high = np.minimum(exact[:, :2], exact[:, 2:]), np.maximum(exact[:, :2], exact[:, 2:])
        areas = (high - low).prod(1)
        order = np.argsort(-scores.astype(np.float32), kind="stable")
        kept: list[int] = []
        for index in order[scores[order] > least].tolist():
            if len(kept) >= most:
                break
            shared = np.minimum(high[kept], high[index]) - np.maximum(low[kept], low[index])
            common = np.maximum(shared, 0).prod(1)
            union = areas[kept] + areas[index] - common
            with np.errstate(all="ignore"):
                ratios = np.where((areas[kept] > 0) & (areas[index] > 0), common / union, 0)
            if not (ratios > overlap).any():
                kept.append(index)
        return np.array(kept, np.int32)

    return Kernel(call)


register(
    "NonMaxSuppressionV3",
    inputs=[
        "boxes: T", "scores: T", "max_output_size: int32", "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ],
    outputs=["selected_indices: int32"],
    attrs=["T: type = float32", "T_threshold: type = float32"],
    shape=limited(lambda _ctx: TensorShape((None,)), (dt.float16, dt.float32)),
    kernel=_suppression_kernel,
)  # fmt: skip


def non_max_suppression(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"), name: str | None = None,
) -> Tensor:  # fmt: skip
    """The numbers of the best boxes, none of which overlaps a better one by more than that share.

    >>> import stepscope.tf1 as tf
    >>> boxes = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]]
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     best = tf.image.non_max_suppression(tf.constant(boxes), [0.9, 0.8, 0.3], 3)
    ...     session.run(best).tolist()
    [0, 2]
    """
    with name_scope(name, "non_max_suppression"):
        overlap = convert_to_tensor(iou_threshold, name="iou_threshold")
        least = convert_to_tensor(score_threshold, name="score_threshold")
        return output_of("NonMaxSuppressionV3", boxes, scores, max_output_size, overlap, least)


# -- frames ------------------------------------------------------------------------------------

_COLOURS = np.array(
    [[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1],
     [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]], np.float32,
)  # fmt: skip
"""Yellow, blue, red, lime, purple, olive, maroon, navy, aqua and fuchsia, in turn."""


_WHITE = np.ones((1, 1), np.float32)


def _frames_kernel(_node: KernelNode) -> Kernel:
    def call(images: Array, boxes: Array, colours: Array | None = None) -> Array:
        depth = images.shape[3]
        if depth not in (1, 3, 4):
            raise InvalidArgumentError.without_op(f"Channel depth should be 1, 3 or 4: {depth}")
        used = _WHITE if depth == 1 else _COLOURS
        if colours is not None and len(colours):
            used = colours
        result = images.copy()
        for image, there in zip(result, boxes, strict=True):
            for number, box in enumerate(there):
                _draw(image, box, used[number % len(used)][:depth])
        return result

    return Kernel(call)


def _draw(image: Array, box: Array, colour: Any) -> None:
    """The frame of a box; what of it is outside of the image is left out."""
    height, width = image.shape[:2]
    top, bottom = (int(np.float32(at) * (height - 1)) for at in (box[0], box[2]))
    left, right = (int(np.float32(at) * (width - 1)) for at in (box[1], box[3]))
    if top > bottom or left > right:
        return
    if top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            image[row, columns] = colour
    for column in (left, right):
        if 0 <= column < width:
            image[rows, column] = colour


def _frames_shape(ctx: ShapeContext) -> TensorShape:
    exactly_rank(ctx.input(1), 3)
    return exactly_rank(ctx.input(0), 4)


for _name, _more in (("DrawBoundingBoxes", []), ("DrawBoundingBoxesV2", ["colors: float32"])):
    register(
        _name,
        inputs=["images: T", "boxes: float32", *_more],
        outputs=["output: T"],
        attrs=["T: type = float32"],
        shape=limited(_frames_shape, (dt.float16, dt.float32)),
        kernel=_frames_kernel,
    )


no_gradient("DrawBoundingBoxes")


def draw_bounding_boxes(
    images: Any, boxes: Any, name: str | None = None, colors: Any = None
) -> Tensor:
    """Images with a frame around each of their boxes (image, box, 4).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     framed = tf.image.draw_bounding_boxes(tf.zeros([1, 3, 3, 1]), [[[0.0, 0.0, 1.0, 1.0]]])
    ...     session.run(framed)[0, :, :, 0].tolist()
    [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    if colors is None:
        return output_of("DrawBoundingBoxes", images, boxes, name=name)
    return output_of("DrawBoundingBoxesV2", images, boxes, colors, name=name)
