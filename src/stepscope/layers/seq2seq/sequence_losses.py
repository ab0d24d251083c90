"""What sequences of logits cost: one list of steps (`legacy_seq2seq`), or one tensor of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.shaping import reshape, shape
from stepscope.ops.math.comparison import not_equal
from stepscope.ops.math.elementwise import add_n
from stepscope.ops.math.reductions import reduce_sum
from stepscope.ops.nn.cross_entropy import sparse_softmax_cross_entropy_with_logits

SoftmaxLoss = Callable[..., Any]
_LITTLE = 1e-12
"""Added to sums of weights, which may be zero."""


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: SoftmaxLoss | None = None,
    name: str | None = None,
) -> Tensor:
    """For each of the batch the weighted cross-entropy of its steps: their mean, or their sum.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     steps = [tf.zeros([2, 4])] * 3
    ...     cost = tf.contrib.legacy_seq2seq.sequence_loss_by_example(
    ...         steps, [tf.constant([1, 2])] * 3, [tf.ones([2])] * 3
    ...     )
    ...     print(session.run(cost).round(4))
    [1.3863 1.3863]
    """
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(
            "Lengths of logits, weights, and targets must be the same "
            f"{len(logits)}, {len(weights)}, {len(targets)}."
        )
    with name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        costs = [
            _cross_entropy(logit, reshape(target, [-1]), softmax_loss_function) * weight
            for logit, target, weight in zip(logits, targets, weights, strict=True)
        ]
        total = add_n(costs)
        return total / (add_n(list(weights)) + _LITTLE) if average_across_timesteps else total


def _cross_entropy(logits: Any, labels: Tensor, function: SoftmaxLoss | None) -> Any:
    if function is None:
        return sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return function(labels=labels, logits=logits)


def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: SoftmaxLoss | None = None,
    name: str | None = None,
) -> Tensor:
    """The sum of `sequence_loss_by_example` over the batch, or its mean.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     cost = tf.contrib.legacy_seq2seq.sequence_loss(
    ...         [tf.zeros([2, 4])], [tf.constant([1, 2])], [tf.ones([2])]
    ...     )
    ...     print(f"{session.run(cost):.4f}")
    1.3863
    """
    with name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost = reduce_sum(
            sequence_loss_by_example(
                logits, targets, weights, average_across_timesteps, softmax_loss_function
            )
        )
        return cost / cast(shape(targets[0])[0], cost.dtype) if average_across_batch else cost


def padded_sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: SoftmaxLoss | None = None,
    name: str | None = None,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
) -> Tensor:
    """The weighted cross-entropy of logits (batch, time, classes), `tf.contrib.seq2seq`'s.

    Along batch, time or both it is averaged by the weights, or summed and divided by how many
    weights are not zero; along others it is left as it is.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     cost = tf.contrib.seq2seq.sequence_loss(
    ...         tf.zeros([2, 3, 4]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3])
    ...     )
    ...     print(f"{session.run(cost):.4f}")
    1.3863
    """
    logits, targets, weights = map(convert_to_tensor, (logits, targets, weights))
    for what, given, rank in (
        ("Logits", logits, 3),
        ("Targets", targets, 2),
        ("Weights", weights, 2),
    ):
        if given.shape.rank not in (rank, None):
            raise ValueError(f"{what} must be a {rank}-dimensional tensor, not {given.shape}.")
    averaged = [average_across_batch, average_across_timesteps]
    summed = [sum_over_batch, sum_over_timesteps]
    if any(averaged) and any(summed):
        raise ValueError(
            "The loss is averaged by weights (average_across_timesteps, average_across_batch) or "
            "by their number (sum_over_timesteps, sum_over_batch): pass False for the other two."
        )
    with name_scope(name, "sequence_loss", [logits, targets, weights]):
        classes = shape(logits)[2]
        costs = _cross_entropy(
            reshape(logits, [-1, classes]), reshape(targets, [-1]), softmax_loss_function
        )
        costs = reshape(costs * reshape(weights, [-1]), shape(logits)[:2])
        axes = [axis for axis in (0, 1) if averaged[axis] or summed[axis]]
        if not axes:
            return costs
        size = weights if any(averaged) else cast(not_equal(weights, 0), costs.dtype)
        return reduce_sum(costs, axis=axes) / (reduce_sum(size, axis=axes) + _LITTLE)
