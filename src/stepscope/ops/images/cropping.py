"""Parts of images, and images in larger ones: crops and padding, of one image or a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.joining import stack, unstack
from stepscope.ops.arrays.padding import pad
from stepscope.ops.arrays.shaping import expand_dims, reshape, shape, squeeze
from stepscope.ops.arrays.slicing import slice_
from stepscope.ops.flow.assertions import assert_positive
from stepscope.ops.flow.ordering import Assert, with_dependencies
from stepscope.ops.math.comparison import greater_equal
from stepscope.ops.math.elementwise import maximum, minimum
from stepscope.ops.math.random import random_uniform
from stepscope.ops.math.reductions import reduce_all

__all__ = [
    "central_crop", "crop_to_bounding_box", "pad_to_bounding_box", "random_crop",
    "resize_image_with_crop_or_pad",
]  # fmt: skip


def image_of(value: Any, name: str = "image") -> Tensor:
    """An image or a batch of them, after a check that none of its last three axes is empty."""
    image = convert_to_tensor(value, name=name)
    rank = image.shape.rank
    if rank is not None and rank < 3:
        raise ValueError(f"{name!r} (shape {image.shape}) must be at least three-dimensional.")
    axes = (None, None, None) if image.shape.axes is None else image.shape.axes[-3:]
    if 0 in axes:
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {image.shape}")
    if None in axes:
        message = "inner 3 dims of 'image.shape' must be > 0."
        check = assert_positive(shape(image)[-3:], [message])
        image = with_dependencies([check], image)
    return image


def _batch_of(value: Any) -> tuple[Tensor, bool]:
    """Images of rank 4, and whether one was given alone."""
    image = convert_to_tensor(value, name="image")
    if image.shape.rank == 4:
        return image, False
    if image.shape.rank not in (3, None):
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    batch = expand_dims(image, 0)
    batch.set_shape([None] * 4)
    return batch, True


def _sizes(image: Tensor) -> list[Any]:
    """Lengths of the axes: numbers where they are known, else tensors."""
    axes = image.shape.as_list()
    if None not in axes:
        return axes
    found = unstack(shape(image), len(axes))
    return [there if known is None else known for known, there in zip(axes, found, strict=True)]


def _required(*claims: tuple[Any, str]) -> list[Operation]:
    """Checks of what can only be known in a run; ValueError for what is known now."""
    checks = []
    for claim, message in claims:
        if isinstance(claim, Tensor):
            checks.append(Assert(claim, [message]))
        elif not claim:
            raise ValueError(message)
    return checks


def _known(sizes: Sequence[Any]) -> list[Any]:
    return [None if isinstance(size, Tensor) else size for size in sizes]


def _either(function: Any, plain: Any, x: Any, y: Any) -> Any:
    return function(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else plain(x, y)


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """The part of an image (or of each of a batch) that begins there and has that size.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.crop_to_bounding_box(tf.zeros([9, 9, 3]), 2, 0, 4, 5).shape)
    (4, 5, 3)
    """
    with name_scope(None, "crop_to_bounding_box", [image]):
        batch, single = _batch_of(image)
        count, height, width, depth = _sizes(batch)
        checks = _required(
            (offset_width >= 0, "offset_width must be >= 0."),
            (offset_height >= 0, "offset_height must be >= 0."),
            (target_width > 0, "target_width must be > 0."),
            (target_height > 0, "target_height must be > 0."),
            (width >= target_width + offset_width, "width must be >= target + offset."),
            (height >= target_height + offset_height, "height must be >= target + offset."),
        )
        if checks:
            batch = with_dependencies(checks, batch)
        begin = stack([0, offset_height, offset_width, 0])
        cropped = slice_(batch, begin, stack([-1, target_height, target_width, -1]))
        cropped.set_shape(_known([count, target_height, target_width, depth]))
        return squeeze(cropped, [0]) if single else cropped


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """An image (or each of a batch) at that place in one of that size, which is zero elsewhere.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.pad_to_bounding_box(tf.zeros([2, 4, 4, 3]), 1, 1, 6, 9).shape)
    (2, 6, 9, 3)
    """
    with name_scope(None, "pad_to_bounding_box", [image]):
        batch, single = _batch_of(image)
        count, height, width, depth = _sizes(batch)
        right = target_width - offset_width - width
        below = target_height - offset_height - height
        checks = _required(
            (offset_height >= 0, "offset_height must be >= 0"),
            (offset_width >= 0, "offset_width must be >= 0"),
            (right >= 0, "width must be <= target - offset"),
            (below >= 0, "height must be <= target - offset"),
        )
        if checks:
            batch = with_dependencies(checks, batch)
        margins = stack([0, 0, offset_height, below, offset_width, right, 0, 0])
        padded = pad(batch, reshape(margins, [4, 2]))
        padded.set_shape(_known([count, target_height, target_width, depth]))
        return squeeze(padded, [0]) if single else padded


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """The middle of an image in that size, with zeros around it where it is smaller.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.resize_image_with_crop_or_pad(tf.zeros([8, 2, 3]), 4, 4).shape)
    (4, 4, 3)
    """
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        batch, single = _batch_of(image)
        checks = _required(
            (target_width > 0, "target_width must be > 0."),
            (target_height > 0, "target_height must be > 0."),
        )
        if checks:
            batch = with_dependencies(checks, batch)
        _, height, width, _ = _sizes(batch)
        wider, higher = target_width - width, target_height - height
        cropped = crop_to_bounding_box(
            batch,
            _either(maximum, max, -higher // 2, 0), _either(maximum, max, -wider // 2, 0),
            _either(minimum, min, target_height, height),
            _either(minimum, min, target_width, width),
        )  # fmt: skip
        resized = pad_to_bounding_box(
            cropped, _either(maximum, max, higher // 2, 0), _either(maximum, max, wider // 2, 0),
            target_height, target_width,
        )  # fmt: skip
        return squeeze(resized, [0]) if single else resized


def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """The middle of an image (or of each of a batch): that share of its height and width.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.central_crop(tf.zeros([10, 8, 3]), 0.5).shape)
    (6, 4, 3)
    """
    with name_scope(None, "central_crop", [image]):
        image = convert_to_tensor(image, name="image")
        known = not isinstance(central_fraction, Tensor)
        if known and not 0.0 < central_fraction <= 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        if known and central_fraction == 1.0:
            whole: Tensor = image
            return whole
        rank = image.shape.rank
        if rank not in (3, 4):
            raise ValueError(
                f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {rank}."
            )
        before = [0] * (rank - 3)
        sizes = _sizes(image)[-3:-1]
        starts = [_start(size, central_fraction) for size in sizes]
        kept = [size - start * 2 for size, start in zip(sizes, starts, strict=True)]
        begin = stack([*before, *starts, 0])
        cropped = slice_(image, begin, stack([*([-1] * (rank - 3)), *kept, -1]))
        axes = image.shape.as_list()
        cropped.set_shape([*axes[:-3], *_known(kept), axes[-1]])
        return cropped


def _start(size: Any, fraction: Any) -> Any:
    """How much of an axis is left out on either side."""
    if not isinstance(size, Tensor) and not isinstance(fraction, Tensor):
        return int((float(size) - float(size) * fraction) / 2)
    whole = cast(size, dt.float64)
    return cast((whole - whole * cast(fraction, dt.float64)) / 2, dt.int32)


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A part of a tensor of that size, at a random place.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.random_crop(tf.zeros([9, 9, 3]), [4, 5, 3])).shape)
    (4, 5, 3)
    """
    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dt.int32, "size")
        there = shape(value)
        message = "Need value.shape >= size, got "
        check = Assert(reduce_all(greater_equal(there, size)), [message, there, size], 1000)
        there = with_dependencies([check], there)
        limit = there - size + 1
        drawn = random_uniform(shape(there), dtype=dt.int32, maxval=dt.int32.max, seed=seed)
        return slice_(value, drawn % limit, size, name=scope)
