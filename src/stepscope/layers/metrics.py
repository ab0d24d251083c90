"""Metrics over many runs: a running value, and the op that takes another batch into it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import GraphKeys, add_to_collection, control_dependencies
from stepscope.graph.operation import Tensor
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.variable_scope import get_local_variable, variable_scope
from stepscope.ops.arrays import conversion, shaping
from stepscope.ops.math import comparison, division, elementwise, reductions, unary
from stepscope.ops.state.variable import assign_add

Metric = tuple[Tensor, Tensor]
"""The value so far, and the op that takes in a batch and gives the value with it."""


def metric_variable(name: str, shape: Any, dtype: Any = dt.float32) -> Any:
    """A sum of what was taken in, 0 once local variables are initialized."""
    return get_local_variable(
        name, shape, dtype, zeros_initializer(), collections=[GraphKeys.METRIC_VARIABLES]
    )


def collected(found: Metric, values: Iterable[str] | None, updates: Iterable[str] | None) -> Metric:
    """The metric, whose value and update are in these collections from now on."""
    for keys, tensor in zip((values, updates), found, strict=True):
        for key in keys or ():
            add_to_collection(key, tensor)
    return found


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Metric:
    """The mean of all values so far, and the op that takes these in and gives it.

    The sums are local variables: `tf.local_variables_initializer()` starts them.
    """
    with variable_scope(name, "mean", (values, weights)):
        values = conversion.cast(convert_to_tensor(values), dt.float32)
        total, count = metric_variable("total", []), metric_variable("count", [])
        if weights is None:
            number = conversion.cast(shaping.size(values), dt.float32)
        else:
            weights = conversion.cast(convert_to_tensor(weights), dt.float32)
            wide = weights * (values * 0 + 1)
            values = elementwise.multiply(values, weights)
            number = reductions.reduce_sum(wide)
        new_total = assign_add(total, reductions.reduce_sum(values))
        with control_dependencies([values]):
            new_count = assign_add(count, number)
        result = division.div_no_nan(total, count, name="value")
        update = division.div_no_nan(new_total, new_count, name="update_op")
    return collected((result, update), metrics_collections, updates_collections)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Metric:
    """How often predictions and labels were equal so far, and the op that takes these in."""
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    if not predictions.shape.is_compatible_with(labels.shape):
        raise ValueError(
            f"accuracy: the predictions ({predictions.name}) have shape {predictions.shape}, the "
            f"labels ({labels.name}) {labels.shape}."
        )
    if labels.dtype.base_dtype is not predictions.dtype.base_dtype:
        predictions = conversion.cast(predictions, labels.dtype.base_dtype)
    correct = conversion.cast(comparison.equal(predictions, labels), dt.float32)
    return mean(correct, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Metric:
    """The mean square of the differences so far, and the op that takes these in."""
    error = unary.square(_difference(labels, predictions))
    name = name or "mean_squared_error"
    return mean(error, weights, metrics_collections, updates_collections, name)


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Metric:
    """The mean size of the differences so far, and the op that takes these in."""
    error = unary.abs(_difference(labels, predictions))
    name = name or "mean_absolute_error"
    return mean(error, weights, metrics_collections, updates_collections, name)


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Iterable[str] | None = None,
    updates_collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Metric:
    """The root of the mean square of the differences so far, and the op that takes these in."""
    name = name or "root_mean_squared_error"
    value, update = mean_squared_error(labels, predictions, weights, name=name)
    roots = (unary.sqrt(value), unary.sqrt(update))
    return collected(roots, metrics_collections, updates_collections)


def _difference(labels: Any, predictions: Any) -> Tensor:
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    return elementwise.subtract(
        conversion.cast(predictions, dt.float32), conversion.cast(labels, dt.float32)
    )
