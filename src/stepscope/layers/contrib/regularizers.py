"""What variables cost: the regularizers of `tf.contrib.layers`, and their sum over a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import GraphKeys, add_to_collection, get_collection, name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays.constants import constant
from stepscope.ops.math import elementwise, reductions, unary

Regularizer = Callable[[Any], Tensor | None]


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Half the sum of squares, times `scale`; nothing where that is 0."""
    return _regularizer(scale, scope, "l2_regularizer", reductions.l2_loss)


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """The sum of magnitudes, times `scale`; nothing where that is 0."""
    return _regularizer(
        scale, scope, "l1_regularizer", lambda w: reductions.reduce_sum(unary.abs(w))
    )


def _regularizer(
    scale: float, scope: str | None, default: str, size: Callable[[Any], Tensor]
) -> Regularizer:
    if isinstance(scale, int) or scale < 0:
        raise ValueError(f"The scale of a regularizer must be a float of 0 or more: {scale!r}")

    def regularize(weights: Any) -> Tensor | None:
        if scale == 0.0:
            return None
        with name_scope(scope, default, [weights]):
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, "scale")
            return elementwise.multiply(factor, size(weights))

    return regularize


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer:
    """`l1_regularizer` and `l2_regularizer` in one.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     cost = tf.contrib.layers.l1_l2_regularizer(0.5, 2.0)
    ...     print(session.run(cost(tf.constant([1.0, -2.0]))))
    6.5
    """
    scope = scope or "l1_l2_regularizer"
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def no_regularizer(_: Any) -> None:
    """What costs nothing, in place of the regularizer of a variable scope."""


def sum_regularizer(
    regularizer_list: Iterable[Regularizer | None], scope: str | None = None
) -> Regularizer:
    """The sum of what several regularizers give; None among them are left out.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     one = tf.contrib.layers.l1_regularizer(0.5)
    ...     both = tf.contrib.layers.sum_regularizer([one, one])
    ...     print(session.run(both(tf.constant([1.0, -2.0]))))
    3.0
    """
    used = [regularizer for regularizer in regularizer_list if regularizer is not None]

    def regularize(weights: Any) -> Tensor | None:
        with name_scope(scope, "sum_regularizer", [weights]):
            found = [regularizer(weights) for regularizer in used]
            given = [cost for cost in found if cost is not None]
            return elementwise.add_n(given) if given else None

    return regularize


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> Tensor:
    """What the weights cost in all; it is among the graph's regularization losses, too.

    By default the weights are those of the collection `tf.GraphKeys.WEIGHTS`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     weights = [tf.constant([3.0]), tf.constant([1.0, 1.0])]
    ...     cost = tf.contrib.layers.apply_regularization(
    ...         tf.contrib.layers.l2_regularizer(2.0), weights
    ...     )
    ...     print(session.run(cost), len(tf.losses.get_regularization_losses()))
    11.0 1
    """
    weights = list(weights_list or get_collection(GraphKeys.WEIGHTS))
    if not weights:
        raise ValueError(
            "No weights to regularize: pass weights_list, or add them to tf.GraphKeys.WEIGHTS."
        )
    with name_scope("get_regularization_penalty", values=weights) as scope:
        found = [regularizer(weight) for weight in weights]
        costs = [constant(0.0) if cost is None else cost for cost in found]
        for cost in costs:
            if cost.shape.rank != 0:
                raise ValueError(
                    f"regularizer must return a scalar Tensor instead of a Tensor with rank "
                    f"{cost.shape.rank}."
                )
        total = elementwise.add_n(costs, name=scope)
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
        return total
