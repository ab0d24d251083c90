"""Metrics of what was predicted and what is true, over many runs: counts, shares, areas.

Each gives its value so far, and the op that takes another batch in. The counts are local
variables: `tf.local_variables_initializer()` starts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepscope.errors import UnimplementedError
from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.layers.metrics import Metric, collected, metric_variable
from stepscope.layers.variable_scope import variable_scope
from stepscope.ops.arrays.constants import constant, ones_like
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.diagonals import diag_part
from stepscope.ops.arrays.indexing import scatter_nd
from stepscope.ops.arrays.joining import stack
from stepscope.ops.arrays.shaping import expand_dims, reshape, squeeze
from stepscope.ops.math import comparison, division, elementwise, reductions
from stepscope.ops.state.variable import assign_add

_LITTLE = 1e-7
_COUNTS = ("true_positives", "false_negatives", "true_negatives", "false_positives")


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dt.int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """How often each class (row) was predicted as each (column).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.confusion_matrix([0, 1, 1], [0, 1, 0])).tolist()
    [[1, 0], [1, 1]]
    """
    with name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]):
        labels, predictions = (cast(convert_to_tensor(v), dt.int64) for v in (labels, predictions))
        labels, predictions = _same_rank(labels, predictions)
        if num_classes is None:
            most = elementwise.maximum(
                reductions.reduce_max(predictions), reductions.reduce_max(labels)
            )
            count = most + 1
        else:
            count = cast(num_classes, dt.int64)
        if weights is None:
            each = ones_like(predictions, dtype)
        else:
            each = cast(convert_to_tensor(weights), dtype)
        places = stack([labels, predictions], axis=1)
        size = None if num_classes is None or isinstance(num_classes, Tensor) else num_classes
        result = scatter_nd(places, each, stack([count, count]))
        result.set_shape([size, size])
        return result


def _same_rank(labels: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Without a last axis of 1 that only one of the two has."""
    ours, theirs = labels.shape.rank, predictions.shape.rank
    if ours is not None and theirs is not None and abs(ours - theirs) == 1:
        if ours > theirs:
            return squeeze(labels, [-1]), predictions
        return labels, squeeze(predictions, [-1])
    return labels, predictions


def _weighted(matching: Tensor, weights: Any) -> Tensor:
    """1 where it matches, times the weights."""
    values = cast(matching, dt.float32)
    if weights is None:
        return values
    return elementwise.multiply(values, cast(convert_to_tensor(weights), dt.float32))


def _count(
    what: str, wanted: tuple[bool, bool], labels: Any, predictions: Any, weights: Any,
    name: str | None,
) -> Metric:  # fmt: skip
    """How often labels and predictions are these two."""
    with variable_scope(name, what, (predictions, labels, weights)):
        truth, guess = (cast(convert_to_tensor(v), dt.bool_) for v in (labels, predictions))
        truth, guess = _same_rank(truth, guess)
        given = (comparison.equal(truth, wanted[0]), comparison.equal(guess, wanted[1]))
        matching = comparison.logical_and(*given)
        total = metric_variable("count", [])
        return convert_to_tensor(total), assign_add(
            total, reductions.reduce_sum(_weighted(matching, weights))
        )


def _counting(name_: str, wanted: tuple[bool, bool], meaning: str) -> Callable[..., Metric]:
    """The metric that counts where labels and predictions are these two."""

    def count(
        labels: Any, predictions: Any, weights: Any = None,
        metrics_collections: Iterable[str] | None = None,
        updates_collections: Iterable[str] | None = None, name: str | None = None,
    ) -> Metric:  # fmt: skip
        found = _count(name_, wanted, labels, predictions, weights, name)
        return collected(found, metrics_collections, updates_collections)

    count.__name__ = count.__qualname__ = name_
    count.__doc__ = meaning
    return count


true_positives = _counting("true_positives", (True, True), """How often both were true.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     value, update = tf.metrics.true_positives([1, 1, 0], [1, 0, 1])
    ...     session.run(tf.local_variables_initializer())
    ...     print(session.run(update))
    1.0
    """)  # fmt: skip
false_positives = _counting(
    "false_positives", (False, True), "How often what was predicted was not so."
)
false_negatives = _counting(
    "false_negatives", (True, False), "How often what was so was not predicted."
)
true_negatives = _counting("true_negatives", (False, False), "How often neither was true.")


def _share(
    what: str, other: Any, labels: Any, predictions: Any, weights: Any, name: str | None
) -> Metric:
    """True positives among them and others."""
    with variable_scope(name, what, (predictions, labels, weights)):
        right = true_positives(labels, predictions, weights)
        wrong = other(labels, predictions, weights)
        value, update = (
            division.div_no_nan(good, good + bad, name=own)
            for good, bad, own in zip(right, wrong, ("value", "update_op"), strict=True)
        )
        return value, update


def precision(
    labels: Any, predictions: Any, weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """What share of the predicted was so.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     value, update = tf.metrics.precision([1, 0, 1], [1, 1, 0])
    ...     session.run(tf.local_variables_initializer())
    ...     print(session.run(update))
    0.5
    """
    found = _share("precision", false_positives, labels, predictions, weights, name)
    return collected(found, metrics_collections, updates_collections)


def recall(
    labels: Any, predictions: Any, weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """What share of the true was predicted.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     value, update = tf.metrics.recall([1, 1, 1, 0], [1, 1, 0, 1])
    ...     session.run(tf.local_variables_initializer())
    ...     print(f"{session.run(update):.3f}")
    0.667
    """
    found = _share("recall", false_negatives, labels, predictions, weights, name)
    return collected(found, metrics_collections, updates_collections)


def auc(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None, curve: str = "ROC", name: str | None = None,
    summation_method: str = "trapezoidal", thresholds: Sequence[float] | None = None,
) -> Metric:  # fmt: skip
    """The area under the curve of hits by false alarms ("ROC"), or of precision by recall ("PR").

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     value, update = tf.metrics.auc([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9])
    ...     session.run(tf.local_variables_initializer())
    ...     print(f"{session.run(update):.3f}")
    0.750
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    if summation_method not in ("trapezoidal", "minoring", "majoring"):
        raise UnimplementedError.without_op(
            f"tf.metrics.auc: summation_method is trapezoidal, minoring or majoring, not "
            f"{summation_method!r}."
        )
    with variable_scope(name, "auc", (labels, predictions, weights)):
        steps = num_thresholds - 1
        inner = thresholds if thresholds is not None else [n / steps for n in range(1, steps)]
        counts = _by_threshold(labels, predictions, weights, [-_LITTLE, *inner, 1 + _LITTLE])
        value = _area([convert_to_tensor(total) for total, _ in counts], curve, summation_method)
        update = _area([added for _, added in counts], curve, summation_method)
        return collected((value, update), metrics_collections, updates_collections)


def _by_threshold(
    labels: Any, predictions: Any, weights: Any, thresholds: Sequence[float]
) -> list[tuple[Any, Tensor]]:
    """Variables and updates of `_COUNTS`, each by threshold."""
    truth = reshape(cast(convert_to_tensor(labels), dt.bool_), [1, -1])
    guess = reshape(cast(convert_to_tensor(predictions), dt.float32), [1, -1])
    each = None if weights is None else reshape(cast(weights, dt.float32), [1, -1])
    above = comparison.greater(guess, expand_dims(constant(list(thresholds), dt.float32), 1))
    below, untrue = comparison.logical_not(above), comparison.logical_not(truth)
    pairs = ((above, truth), (below, truth), (below, untrue), (above, untrue))
    found = []
    for name, (one, other) in zip(_COUNTS, pairs, strict=True):
        total = metric_variable(name, [len(thresholds)])
        matching = _weighted(comparison.logical_and(one, other), each)
        found.append((total, assign_add(total, reductions.reduce_sum(matching, 1))))
    return found


def _area(counts: Sequence[Any], curve: str, method: str) -> Tensor:
    """The area under a curve by the counts of `_COUNTS`."""
    hits, missed, quiet, alarms = counts
    rate = division.divide(hits + _LITTLE, hits + missed + _LITTLE)
    if curve == "ROC":
        x, y = division.divide(alarms, alarms + quiet + _LITTLE), rate
    else:
        x, y = rate, division.divide(hits + _LITTLE, hits + alarms + _LITTLE)
    first, second = y[:-1], y[1:]
    if method == "trapezoidal":
        height = (first + second) / 2.0
    else:
        height = (elementwise.minimum if method == "minoring" else elementwise.maximum)(
            first, second
        )
    return reductions.reduce_sum(elementwise.multiply(x[:-1] - x[1:], height))


def mean_iou(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The mean over classes of what is both, by what is one of predicted and true.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     value, update = tf.metrics.mean_iou([0, 1, 1], [0, 1, 0], 2)
    ...     session.run(tf.local_variables_initializer())
    ...     matrix = session.run(update)
    ...     print(session.run(value))
    0.5
    """
    with variable_scope(name, "mean_iou", (predictions, labels, weights)):
        total = metric_variable("total_confusion_matrix", [num_classes, num_classes], dt.float64)
        truth, guess = (reshape(convert_to_tensor(v), [-1]) for v in (labels, predictions))
        each = None if weights is None else reshape(convert_to_tensor(weights), [-1])
        update = assign_add(
            total, confusion_matrix(truth, guess, num_classes, dtype=dt.float64, weights=each)
        )
        matrix = cast(total, dt.float32)
        both = diag_part(matrix)
        either = reductions.reduce_sum(matrix, 0) + reductions.reduce_sum(matrix, 1) - both
        there = cast(comparison.not_equal(either, 0), dt.float32)
        ratios = division.div_no_nan(both, either)
        value = division.div_no_nan(
            reductions.reduce_sum(ratios), reductions.reduce_sum(there), name="mean_iou"
        )
        return collected((value, update), metrics_collections, updates_collections)
