"""Colours of images: brightness, contrast, hue, saturation, greys, types of pixels.

Pixels are floats from 0 to 1, or integers from 0 to the largest of their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import Array, DType, as_dtype
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
from stepscope.ops.arrays.constants import constant
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.arrays.joining import concat
from stepscope.ops.arrays.padding import tile
from stepscope.ops.arrays.shaping import expand_dims, rank, shape
from stepscope.ops.flow.ordering import Assert, with_dependencies
from stepscope.ops.images.cropping import image_of
from stepscope.ops.math import comparison, division, elementwise, reductions, unary
from stepscope.ops.math.division import divide, floordiv
from stepscope.ops.math.matmul import tensordot
from stepscope.ops.math.random import random_uniform
from stepscope.ops.math.reductions import reduce_mean, reduce_prod, reduce_sum
from stepscope.ops.signatures import at_least_rank, limited, output_of

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "convert_image_dtype", "grayscale_to_rgb", "hsv_to_rgb", "per_image_standardization",
    "random_brightness", "random_contrast", "random_hue", "random_saturation", "rgb_to_grayscale",
    "rgb_to_hsv", "saturate_cast", "total_variation",
]  # fmt: skip

_HALVES = (dt.float16, dt.float32)


def _colour_shape(ctx: ShapeContext) -> TensorShape:
    images = at_least_rank(ctx.input(0), 1)
    if images.axes is None:
        return images
    return TensorShape((*images.axes[:-1], None)).merge_with(
        TensorShape((*[None] * (len(images.axes) - 1), 3))
    )


def _three(images: Array) -> Array:
    if images.shape[-1] != 3:
        raise InvalidArgumentError.without_op(
            f"The last axis must be red, green and blue, 3 long; it is {images.shape[-1]} long in "
            f"{images.shape}."
        )
    return images


# -- hue, saturation, value --------------------------------------------------------------------


def _hsv_of(rgb: Array) -> Array:
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    value = rgb.max(-1)
    spread = value - rgb.min(-1)
    saturation = np.where(value > 0, spread / np.where(value > 0, value, 1), 0)
    sixth = 1 / (6 * np.where(spread > 0, spread, 1))
    hue = np.where(
        red == value,
        sixth * (green - blue),
        np.where(green == value, sixth * (blue - red) + 2 / 6, sixth * (red - green) + 4 / 6),
    )
    hue = np.where(spread <= 0, 0, hue)
    hue = np.where(hue < 0, hue + 1, hue)
    return np.stack([hue, saturation, value], -1).astype(rgb.dtype, copy=False)


def _rgb_of(hsv: Array) -> Array:
    hue, saturation, value = hsv[..., 0:1], hsv[..., 1:2], hsv[..., 2:3]
    far = np.abs(hue * 6 - np.array([3, 2, 4], hsv.dtype))
    share = np.clip(far * np.array([1, -1, -1], hsv.dtype) + np.array([-1, 2, 2], hsv.dtype), 0, 1)
    result: Array = ((1 - saturation) + saturation * share) * value
    return result.astype(hsv.dtype, copy=False)


def _colours_kernel(change: Callable[[Array], Array]) -> Callable[[KernelNode], Kernel]:
    def kernel(_node: KernelNode) -> Kernel:
        def call(images: Array) -> Array:
            exact = np.float32 if images.dtype == np.float16 else images.dtype
            return change(_three(images).astype(exact, copy=False)).astype(images.dtype, copy=False)

        return Kernel(call)

    return kernel


for _name, _change in (("RGBToHSV", _hsv_of), ("HSVToRGB", _rgb_of)):
    register(
        _name,
        inputs=["images: T"],
        outputs=["output: T"],
        attrs=["T: type = float32"],
        shape=limited(_colour_shape, (dt.float16, dt.float32, dt.float64)),
        kernel=_colours_kernel(_change),
    )


no_gradient("HSVToRGB")


@gradient("RGBToHSV")
def _hsv_gradient(op: Operation, grad: Tensor) -> Tensor:
    """By the chain: value is the largest part, saturation and hue are ratios of differences."""
    rgb, kind = op.inputs[0], op.inputs[0].dtype.base_dtype
    value = reductions.reduce_max(rgb, -1, keepdims=True)
    least = reductions.reduce_min(rgb, -1, keepdims=True)
    spread = value - least
    largest = _first_of(comparison.equal(rgb, value), kind)
    smallest = _first_of(comparison.equal(rgb, least), kind)
    by_spread = largest - smallest
    ratio = division.div_no_nan(spread, value)
    of_saturation = division.div_no_nan(by_spread, value) - largest * division.div_no_nan(
        ratio, value
    )
    # With red the largest the hue is (green - blue) / (6 spread), and so on around the circle.
    following = concat([rgb[..., 1:], rgb[..., :1]], -1) - concat([rgb[..., 2:], rgb[..., :2]], -1)
    around = reductions.reduce_sum(largest * following, -1, keepdims=True)
    ahead = concat([largest[..., 2:], largest[..., :2]], -1)
    behind = concat([largest[..., 1:], largest[..., :1]], -1)
    of_hue = division.div_no_nan(ahead - behind, 6 * spread) - by_spread * division.div_no_nan(
        around, 6 * unary.square(spread)
    )
    hue, saturation, bright = (grad[..., n : n + 1] for n in range(3))
    result: Tensor = hue * of_hue + saturation * of_saturation + bright * largest
    return result


def _first_of(those: Tensor, kind: DType) -> Tensor:
    """1 for the first of red, green and blue that is one of those, else 0."""
    parts = cast(those, kind)
    earlier = concat(
        [0 * parts[..., :1], parts[..., :1], elementwise.maximum(parts[..., :1], parts[..., 1:2])],
        -1,
    )
    result: Tensor = parts * (1 - earlier)
    return result


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Red, green and blue (the last axis) as hue, saturation and value.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.rgb_to_hsv([0.5, 0.25, 0.25])).tolist()
    [0.0, 0.5, 0.5]
    """
    return output_of("RGBToHSV", images, name=name)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Hue, saturation and value (the last axis) as red, green and blue.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.hsv_to_rgb([0.0, 0.5, 0.5])).tolist()
    [0.5, 0.25, 0.25]
    """
    return output_of("HSVToRGB", images, name=name)


# -- changes by one number ---------------------------------------------------------------------


def _contrast(images: Array, factor: Any) -> Array:
    mean = images.mean((-3, -2), keepdims=True, dtype=np.float32)
    changed: Array = (images - mean) * factor + mean
    return changed


def _hue(images: Array, delta: Any) -> Array:
    hsv = _hsv_of(_three(images))
    hsv[..., 0] = np.mod(hsv[..., 0] + delta, 1)
    return _rgb_of(hsv)


def _saturation(images: Array, factor: Any) -> Array:
    hsv = _hsv_of(_three(images))
    hsv[..., 1] = np.clip(hsv[..., 1] * factor, 0, 1)
    return _rgb_of(hsv)


def _adjusting(change: Callable[[Array, Any], Array]) -> Callable[[KernelNode], Kernel]:
    def kernel(_node: KernelNode) -> Kernel:
        def call(images: Array, amount: Any) -> Array:
            if images.size == 0:
                return images.copy()
            changed = change(images.astype(np.float32, copy=False), np.float32(amount))
            return changed.astype(images.dtype, copy=False)

        return Kernel(call)

    return kernel


def _adjusted_shape(ctx: ShapeContext) -> TensorShape:
    return at_least_rank(ctx.input(0), 3)


for _name, _amount, _adjust in (
    ("AdjustContrastv2", "contrast_factor", _contrast),
    ("AdjustHue", "delta", _hue),
    ("AdjustSaturation", "scale", _saturation),
):
    register(
        _name,
        inputs=["images: T", f"{_amount}: float32"],
        outputs=["output: T"],
        attrs=["T: type = float32"],
        shape=limited(_adjusted_shape, _HALVES),
        kernel=_adjusting(_adjust),
    )


def _adjusted(
    images: Any, name: str | None, default: str, change: Callable[[Tensor, str], Tensor],
    saturate: bool = False,
) -> Tensor:  # fmt: skip
    """Pixels as floats, changed, in the type they had."""
    with name_scope(name, default, [images]) as scope:
        images = convert_to_tensor(images, name="image")
        kind = images.dtype.base_dtype
        floats = images if kind in _HALVES else convert_image_dtype(images, dt.float32)
        return convert_image_dtype(change(floats, scope), kind, saturate=saturate)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Pixels with `delta` added, where 0 to 1 is the whole range.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.adjust_brightness([[[0.25]]], 0.5)).tolist()
    [[[0.75]]]
    """
    return _adjusted(
        image, None, "adjust_brightness",
        lambda floats, scope: elementwise.add(floats, cast(delta, floats.dtype), name=scope), True,
    )  # fmt: skip


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Pixels that differ from the mean of their image and channel by so many times as much.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.adjust_contrast([[[0.25], [0.75]]], 2.0)).tolist()
    [[[0.0], [1.0]]]
    """
    return _adjusted(
        images, None, "adjust_contrast",
        lambda floats, scope: output_of("AdjustContrastv2", floats, contrast_factor, name=scope),
        True,
    )  # fmt: skip


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Colours turned by `delta` of the whole circle.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.adjust_hue([[[0.5, 0.25, 0.25]]], 0.5)).tolist()
    [[[0.25, 0.5, 0.5]]]
    """
    return _adjusted(
        image, name, "adjust_hue", lambda floats, _: output_of("AdjustHue", floats, delta)
    )


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Colours of so many times the saturation.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.adjust_saturation([[[0.5, 0.25, 0.25]]], 0.0)).tolist()
    [[[0.5, 0.5, 0.5]]]
    """
    return _adjusted(
        image, name, "adjust_saturation",
        lambda floats, _: output_of("AdjustSaturation", floats, saturation_factor),
    )  # fmt: skip


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """`gain` times each pixel to the power of `gamma`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.adjust_gamma([[[0.5]]], 2.0)).tolist()
    [[[0.25]]]
    """

    def change(floats: Tensor, _scope: str) -> Tensor:
        exponent, allowed = gamma, gamma >= 0
        message = "Gamma should be a non-negative real number."
        if isinstance(allowed, Tensor):
            exponent = with_dependencies([Assert(allowed, [message])], gamma)
        elif not allowed:
            raise ValueError(message)
        result: Tensor = gain * floats**exponent
        return result

    return _adjusted(image, None, "adjust_gamma", change, True)


# -- by chance ---------------------------------------------------------------------------------


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_brightness` by a random delta of at most that.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.random_brightness(tf.zeros([8, 8, 3]), 0.2).shape)
    (8, 8, 3)
    """
    return adjust_brightness(image, _around_zero(max_delta, seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_hue` by a random delta of at most that.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.random_hue(tf.zeros([8, 8, 3]), 0.2).shape)
    (8, 8, 3)
    """
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    return adjust_hue(image, _around_zero(max_delta, seed))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_contrast` by a random factor between the two.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.random_contrast(tf.zeros([8, 8, 3]), 0.2, 1.8).shape)
    (8, 8, 3)
    """
    return adjust_contrast(image, _between(lower, upper, seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_saturation` by a random factor between the two.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.random_saturation(tf.zeros([8, 8, 3]), 0.5, 1.5).shape)
    (8, 8, 3)
    """
    return adjust_saturation(image, _between(lower, upper, seed))


def _around_zero(most: float, seed: int | None) -> Tensor:
    if most < 0:
        raise ValueError("max_delta must be non-negative.")
    return random_uniform([], -most, most, seed=seed)


def _between(lower: float, upper: float, seed: int | None) -> Tensor:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return random_uniform([], lower, upper, seed=seed)


# -- types and greys ---------------------------------------------------------------------------


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """A tensor as another type; what is beyond that type's range is its smallest or largest.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.saturate_cast([-3.0, 7.0, 300.0], tf.uint8)).tolist()
    [0, 7, 255]
    """
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert_to_tensor(value, name="value")
        target, given = as_dtype(dtype).base_dtype, value.dtype.base_dtype
        if given.min < target.min:
            value = elementwise.maximum(value, _edge(target.min, given))
        if given.max > target.max:
            value = elementwise.minimum(value, _edge(target.max, given))
        return cast(value, target, name=scope)


def _edge(limit: Any, kind: DType) -> Tensor:
    """The limit in that type; rounded towards zero, as beyond it nothing may come out."""
    edge: Any = kind.numpy.type(limit)
    if kind.is_floating and abs(int(edge)) > abs(int(limit)):
        edge = np.nextafter(edge, kind.numpy.type(0))
    return constant(edge, kind)


def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Tensor:
    """Pixels as another type, scaled to its range.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     whole = tf.image.convert_image_dtype([0.0, 0.5, 1.0], tf.uint8)
    ...     session.run(whole).tolist()
    [0, 127, 255]
    """
    image = convert_to_tensor(image, name="image")
    kind, given = as_dtype(dtype).base_dtype, image.dtype.base_dtype
    for what, it in (("dtype", kind), ("image dtype", given)):
        if not it.is_floating and not it.is_integer:
            raise AttributeError(f"{what} must be either floating point or integer, not {it.name}")
    if kind is given:
        return identity(image, name=name)
    into = saturate_cast if saturate else cast
    with name_scope(name, "convert_image", [image]) as scope:
        if given.is_integer and kind.is_integer and given.max > kind.max:
            scale = (int(given.max) + 1) // (int(kind.max) + 1)
            return into(floordiv(image, scale), kind, name=scope)
        if given.is_integer and kind.is_integer:
            scale = (int(kind.max) + 1) // (int(given.max) + 1)
            return elementwise.multiply(into(image, kind), scale, name=scope)
        if given.is_integer:
            return elementwise.multiply(cast(image, kind), 1.0 / given.max, name=scope)
        if kind.is_floating:
            return cast(image, kind, name=scope)
        return into(elementwise.multiply(image, kind.max + 0.5), kind, name=scope)


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """One channel, of which green is the most and blue the least.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.rgb_to_grayscale(tf.zeros([2, 4, 5, 3])).shape)
    (2, 4, 5, 1)
    """
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        floats = convert_image_dtype(images, dt.float32)
        grey = expand_dims(tensordot(floats, [0.2989, 0.587, 0.114], [[-1], [-1]]), -1)
        return convert_image_dtype(grey, images.dtype.base_dtype, name=scope)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Three channels that are all the given one.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.image.grayscale_to_rgb(tf.zeros([4, 5, 1])).shape)
    (4, 5, 3)
    """
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        axes = images.shape.axes
        if axes is not None and (not axes or axes[-1] not in (1, None)):
            raise ValueError(f"Last dimension of a grayscale image should be size 1: {axes}")
        before = expand_dims(rank(images) - 1, 0)
        ones = output_of("Fill", before, constant(1, dt.int32))
        result = tile(images, concat([ones, constant([3], dt.int32)], 0), name=scope)
        if axes is not None:
            result.set_shape([*axes[:-1], 3])
        return result


def per_image_standardization(image: Any) -> Tensor:
    """Each image brought to mean 0 and variance 1 (at least 1 / the number of its pixels).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.image.per_image_standardization([[[1.0], [3.0]]])).tolist()
    [[[-1.0], [1.0]]]
    """
    with name_scope(None, "per_image_standardization", [image]) as scope:
        image = cast(image_of(image), dt.float32)
        pixels = reduce_prod(shape(image)[-3:])
        mean = reduce_mean(image, axis=[-1, -2, -3], keepdims=True)
        centred = image - mean
        variance = reduce_mean(unary.square(centred), axis=[-1, -2, -3], keepdims=True)
        least = unary.rsqrt(cast(pixels, dt.float32))
        return divide(centred, elementwise.maximum(unary.sqrt(variance), least), name=scope)


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """How much neighbouring pixels differ in all, of an image or each of a batch.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     image = tf.constant([[[1.0], [3.0]], [[1.0], [0.0]]])
    ...     print(session.run(tf.image.total_variation(image)))
    6.0
    """
    with name_scope(name, "total_variation"):
        images = convert_to_tensor(images)
        if images.shape.rank == 3:
            down, along = images[1:] - images[:-1], images[:, 1:] - images[:, :-1]
            axes = None
        elif images.shape.rank == 4:
            down, along = images[:, 1:] - images[:, :-1], images[:, :, 1:] - images[:, :, :-1]
            axes = [1, 2, 3]
        else:
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        total: Tensor = reduce_sum(unary.abs(down), axis=axes) + reduce_sum(
            unary.abs(along), axis=axes
        )
        return total
