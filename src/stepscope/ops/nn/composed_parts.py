"""Parts of networks that are made of other ops, with no op type of their own."""

from __future__ import annotations

from typing import Any

from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.joining import concat
from stepscope.ops.math import comparison, elementwise, reductions, unary
from stepscope.ops.nn.activations import relu, sigmoid
from stepscope.ops.nn.convolution import conv2d
from stepscope.ops.signatures import one_name

__all__ = [
    "accumulate_n", "atrous_conv2d", "crelu", "scalar_mul", "swish",
    "weighted_cross_entropy_with_logits", "zero_fraction",
]  # fmt: skip


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The share of elements that are zero.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.nn.zero_fraction([0.0, 3.0, 0.0, 1.0])))
    0.5
    """
    with name_scope(name, "zero_fraction", [value]):
        value = convert_to_tensor(value, name="value")
        return reductions.reduce_mean(cast(comparison.equal(value, 0), dt.float32), name="fraction")


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """What is positive of a tensor, and beside it what is negative, both as positive numbers.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.nn.crelu([[1.0, -2.0]])).tolist()
    [[1.0, 0.0, 0.0, 2.0]]
    """
    with name_scope(name, "CRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        return relu(concat([features, unary.negative(features)], axis), name=scope)


def swish(features: Any, beta: Any = 1.0) -> Tensor:
    """X times sigmoid(beta x).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.nn.swish(tf.constant([0.0, 1.0]))).round(4))
    [0.     0.7311]
    """
    features = convert_to_tensor(features, name="features")
    beta = convert_to_tensor(beta, features.dtype, name="beta")
    with name_scope(None, "swish", [features, beta]):
        return elementwise.multiply(features, sigmoid(elementwise.multiply(beta, features)))


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None,
    targets: Any = None,
) -> Tensor:  # fmt: skip
    """`sigmoid_cross_entropy_with_logits` in which what is true counts `pos_weight` times.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     loss = tf.nn.weighted_cross_entropy_with_logits(
    ...         labels=[1.0, 0.0], logits=tf.zeros([2]), pos_weight=3.0
    ...     )
    ...     print(session.run(loss).round(3))
    [2.079 0.693]
    """
    given = one_name("labels", labels, "targets", targets)
    with name_scope(name, "logistic_loss", [logits, given]) as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(given, x.dtype.base_dtype, "labels")
        if not z.shape.is_compatible_with(x.shape):
            raise ValueError(
                f"`logits` and `labels` must have the same shape, received ({x.shape} vs "
                f"{z.shape})."
            )
        weight = 1 + (pos_weight - 1) * z
        beyond = unary.log1p(unary.exp(-unary.abs(x))) + relu(-x)
        return elementwise.add((1 - z) * x, weight * beyond, name=scope)


def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """`conv2d` by a filter with `rate - 1` pixels left out between any two it looks at.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     images, filters = tf.zeros([1, 9, 9, 3]), tf.zeros([3, 3, 3, 8])
    ...     print(tf.nn.atrous_conv2d(images, filters, 2, "VALID").shape)
    (1, 5, 5, 8)
    """
    return conv2d(value, filters, [1, 1, 1, 1], padding, dilations=[1, rate, rate, 1], name=name)


def accumulate_n(
    inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Tensor:
    """`add_n`, by another name.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.accumulate_n([[1, 2], [3, 4]])).tolist()
    [4, 6]
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError(f"accumulate_n needs a list of tensors, not {inputs!r}.")
    tensors = [convert_to_tensor(one, tensor_dtype) for one in inputs]
    result = elementwise.add_n(tensors, name=name)
    if shape is not None:
        result.set_shape(shape)
    return result


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Tensor:
    """A tensor times a number.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.scalar_mul(3.0, tf.constant([1.0, 2.0]))).tolist()
    [3.0, 6.0]
    """
    x = convert_to_tensor(x)
    factor = convert_to_tensor(scalar, x.dtype.base_dtype, name="scalar")
    if factor.shape.rank not in (0, None):
        raise ValueError("The input scalar must be a 0-D value.")
    return elementwise.multiply(factor, x, name=name)
