"""Images mirrored and turned, always or by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.padding import reverse_v2
from stepscope.ops.arrays.shaping import rank, reshape, shape
from stepscope.ops.arrays.shaping import transpose as transposed
from stepscope.ops.flow.conditionals import case, cond
from stepscope.ops.images.cropping import image_of
from stepscope.ops.math.comparison import equal, less
from stepscope.ops.math.division import floormod
from stepscope.ops.math.random import random_uniform
from stepscope.ops.math.unary import round

__all__ = [
    "flip_left_right", "flip_up_down", "random_flip_left_right", "random_flip_up_down", "rot90",
    "transpose_image",
]  # fmt: skip


def _by_rank(image: Tensor, one: Callable[[], Any], batch: Callable[[], Any]) -> Tensor:
    """What is made of one image, or of a batch; decided in the run where that is not known."""
    known = image.shape.rank
    if known is None:
        result: Tensor = cond(equal(rank(image), 3), one, batch)
        return result
    if known not in (3, 4):
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    made: Tensor = one() if known == 3 else batch()
    return made


def _flip(value: Any, axis: int, name: str) -> Tensor:
    with name_scope(None, name, [value]):
        image = image_of(value)
        return _by_rank(
            image, lambda: reverse_v2(image, [axis]), lambda: reverse_v2(image, [axis + 1])
        )


def flip_left_right(image: Any) -> Tensor:
    """An image, or each of a batch, with its columns in reverse.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.flip_left_right([[[1.0], [2.0]]])).tolist()
    [[[2.0], [1.0]]]
    """
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image: Any) -> Tensor:
    """An image, or each of a batch, with its rows in reverse.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.flip_up_down([[[1.0]], [[2.0]]])).tolist()
    [[[2.0]], [[1.0]]]
    """
    return _flip(image, 0, "flip_up_down")


def _random_flip(value: Any, axis: int, seed: int | None, name: str) -> Tensor:
    with name_scope(None, name, [value]) as scope:
        image = image_of(value)

        def one() -> Tensor:
            mirrored = less(random_uniform([], 0, 1.0, seed=seed), 0.5)
            result: Tensor = cond(
                mirrored, lambda: reverse_v2(image, [axis]), lambda: image, name=scope
            )
            result.set_shape(image.shape if image.shape.rank is not None else [None] * 3)
            return result

        def batch() -> Tensor:
            count = shape(image)[0]
            drawn = random_uniform([count], 0, 1.0, seed=seed)
            flips = cast(round(reshape(drawn, [count, 1, 1, 1])), image.dtype)
            flipped = reverse_v2(image, [axis + 1])
            result: Tensor = flips * flipped + (1 - flips) * image
            return result

        return _by_rank(image, one, batch)


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """An image with its columns in reverse, or as it is: one of the two, at random.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.random_flip_left_right(tf.zeros([8, 8, 3])).shape)
    (8, 8, 3)
    """
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """An image with its rows in reverse, or as it is: one of the two, at random.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.random_flip_up_down(tf.zeros([8, 8, 3])).shape)
    (8, 8, 3)
    """
    return _random_flip(image, 0, seed, "random_flip_up_down")


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """An image, or each of a batch, turned to the left `k` times by a right angle.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.rot90([[[1.0], [2.0]]])).tolist()
    [[[2.0]], [[1.0]]]
    """
    with name_scope(name, "rot90", [image, k]) as scope:
        image = image_of(image)
        k = convert_to_tensor(k, dt.int32, "k")
        k.shape.assert_has_rank(0)
        k = floormod(k, 4)
        return _by_rank(
            image, lambda: _turned(image, k, 0, scope), lambda: _turned(image, k, 1, scope)
        )


def _turned(image: Tensor, k: Tensor, first: int, name: str) -> Tensor:
    """The image whose rows are the axis `first`, turned."""
    rows, columns = first, first + 1
    swapped = [*range(first), columns, rows, first + 2]
    ways = [
        (equal(k, 1), lambda: transposed(reverse_v2(image, [columns]), swapped)),
        (equal(k, 2), lambda: reverse_v2(image, [rows, columns])),
        (equal(k, 3), lambda: reverse_v2(transposed(image, swapped), [columns])),
    ]
    result: Tensor = case(ways, default=lambda: image, exclusive=True, name=name)
    axes = image.shape.as_list() if image.shape.rank is not None else [None] * (first + 3)
    result.set_shape([*axes[:first], None, None, axes[-1]])
    return result


def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """An image, or each of a batch, with rows for columns.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.transpose_image(tf.zeros([2, 4, 5, 3])).shape)
    (2, 5, 4, 3)
    """
    with name_scope(name, "transpose", [image]):
        image = image_of(image)
        return _by_rank(
            image,
            lambda: transposed(image, [1, 0, 2], name=name),
            lambda: transposed(image, [0, 2, 1, 3], name=name),
        )
