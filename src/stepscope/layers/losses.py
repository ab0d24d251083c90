"""Losses: one number from predictions and labels, weighted, and collected in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.graph import GraphKeys, control_dependencies, name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays import constants, conversion, shaping
from stepscope.ops.flow.ordering import no_op
from stepscope.ops.math import comparison, division, elementwise, reductions, unary
from stepscope.ops.nn import activations, cross_entropy


class Reduction:
    """How the weighted elements become a loss."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        return (
            cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )  # fmt: skip

    @classmethod
    def validate(cls, key: str) -> None:
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}. Key should be one of {cls.all()}.")


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """The weighted elements, reduced; by default their sum by the number of weights that count."""
    Reduction.validate(reduction)
    with (
        name_scope(scope, "weighted_loss", (losses, weights)),
        control_dependencies(_check_weights(weights, losses)),
    ):
        losses = convert_to_tensor(losses)
        kind = losses.dtype
        elements = conversion.cast(losses, dt.float32)
        factors = conversion.cast(weights, dt.float32)
        weighted = elementwise.multiply(elements, factors)
        loss = _reduced(weighted, elements, factors, reduction)
        loss = conversion.cast(loss, kind)
        add_loss(loss, loss_collection)
        return loss


def _reduced(weighted: Tensor, elements: Tensor, factors: Any, reduction: str) -> Tensor:
    if reduction == Reduction.NONE:
        return weighted
    total = reductions.reduce_sum(weighted)
    if reduction == Reduction.MEAN:
        count = reductions.reduce_sum(constants.ones_like(elements) * factors)
    elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        count = _present(elements, factors)
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        with name_scope(None, "num_elements", [elements]) as scope:
            count = conversion.cast(shaping.size(elements, name=scope), elements.dtype)
    else:
        return total
    return division.div_no_nan(reductions.reduce_sum(total), count, name="value")


def _present(elements: Tensor, factors: Tensor) -> Tensor:
    """How many elements have a weight that is not zero."""
    with name_scope(None, "num_present", (elements, factors)) as scope:
        factors = conversion.cast(factors, dt.float32)
        present = comparison.where(
            comparison.equal(factors, 0.0),
            constants.zeros_like(factors),
            constants.ones_like(factors),
        )
        with name_scope(None, "broadcast_weights", (present, elements)) as inner:
            own, theirs = present.shape, elements.shape
            same = own.is_fully_defined() and theirs.is_fully_defined() and own == theirs
            if not same:
                with control_dependencies(_check_weights(present, elements)):
                    present = elementwise.multiply(
                        present, constants.ones_like(elements), name=inner
                    )
        return reductions.reduce_sum(present, name=scope)


def _check_weights(weights: Any, values: Any) -> list[Any]:
    """Refuse weights that do not fit; they have the rank of the values, or none.

    Lengths that are not known yet are left to the product.
    """
    with name_scope(None, "assert_broadcastable", (weights, values)):
        with name_scope(None, "weights", [weights]) as inner:
            weights = convert_to_tensor(weights, name=inner)
            shaping.shape(weights, name="shape")
            shaping.rank(weights, name="rank")
        with name_scope(None, "values", [values]) as inner:
            values = convert_to_tensor(values, name=inner)
            shaping.shape(values, name="shape")
            shaping.rank(values, name="rank")
        own, theirs = weights.shape, values.shape
        if own.rank is None or theirs.rank is None:
            return []
        if own.rank == 0:
            return [no_op(name="static_scalar_check_success")]
        pairs = list(zip(own.axes or (), theirs.axes or (), strict=False))
        fits = all(a in (None, 1, b) or b is None for a, b in pairs)
        if own.rank != theirs.rank or not fits:
            raise ValueError(
                f"weights can not be broadcast to values. values.rank={theirs.rank}. "
                f"weights.rank={own.rank}. values.shape={theirs} ({values.name}). "
                f"weights.shape={own} ({weights.name})."
            )
        known = own.is_fully_defined() and theirs.is_fully_defined()
        return [no_op(name="static_dims_check_success")] if known else []


# -- what is collected -------------------------------------------------------------------------


def add_loss(loss: Tensor, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Count a loss among the graph's."""
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Tensor]:
    """The losses collected so far."""
    return get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """What regularizers made of variables."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Tensor:
    """The sum of them; 0 if there are none."""
    losses = get_regularization_losses(scope)
    return elementwise.add_n(losses, name=name) if losses else constants.constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """The sum of all losses collected so far."""
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = losses + get_regularization_losses(scope)
    if not losses:
        raise ValueError("get_total_loss: no loss was added to the graph.")
    return elementwise.add_n(losses, name=name)


# -- losses of predictions and labels ----------------------------------------------------------


def _both(
    name: str, labels: Any, predictions: Any, weights: Any, scope: str | None, default: str
) -> Any:
    for what, value in (("labels", labels), ("predictions", predictions)):
        if value is None:
            raise ValueError(f"Argument `{what}` of {name} must not be None.")
    if weights is None:
        raise ValueError(f"`weights` of {name} cannot be None")
    return name_scope(scope, default, (predictions, labels, weights))


def _elementwise(
    name: str,
    default: str,
    formula: Callable[[Any, Any], Any],
    labels: Any,
    predictions: Any,
    weights: Any,
    scope: str | None,
    loss_collection: str | None,
    reduction: str,
) -> Tensor:
    with _both(name, labels, predictions, weights, scope, default) as inner:
        predictions = conversion.cast(predictions, dt.float32)
        labels = conversion.cast(labels, dt.float32)
        if not predictions.shape.is_compatible_with(labels.shape):
            raise ValueError(
                f"Shapes {predictions.shape} and {labels.shape} are incompatible: the predictions "
                f"({predictions.name}) and labels ({labels.name}) of {name} must have one shape."
            )
        losses = formula(labels, predictions)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def absolute_difference(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """|predictions - labels|."""
    return _elementwise(
        "absolute_difference", "absolute_difference",
        lambda y, p: unary.abs(elementwise.subtract(p, y)),
        labels, predictions, weights, scope, loss_collection, reduction,
    )  # fmt: skip


def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """(predictions - labels) squared."""
    return _elementwise(
        "mean_squared_error", "mean_squared_error",
        lambda y, p: elementwise.squared_difference(p, y),
        labels, predictions, weights, scope, loss_collection, reduction,
    )  # fmt: skip


def log_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7,
    scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Minus the logarithm of the probability given to the label, between 0 and 1."""

    def formula(y: Any, p: Any) -> Any:
        seen = -elementwise.multiply(y, unary.log(p + epsilon))
        return seen - elementwise.multiply((1 - y), unary.log(1 - p + epsilon))

    return _elementwise(
        "log_loss", "log_loss", formula, labels, predictions, weights, scope, loss_collection,
        reduction,
    )  # fmt: skip


def huber_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0,
    scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Half the squared error up to `delta`, linear beyond."""

    def formula(y: Any, p: Any) -> Any:
        size = unary.abs(elementwise.subtract(p, y))
        curved = elementwise.minimum(size, delta)
        straight = elementwise.subtract(size, curved)
        half = convert_to_tensor(0.5, curved.dtype)
        squares = elementwise.multiply(half, elementwise.multiply(curved, curved))
        return elementwise.add(squares, elementwise.multiply(delta, straight))

    return _elementwise(
        "huber_loss", "huber_loss", formula, labels, predictions, weights, scope, loss_collection,
        reduction,
    )  # fmt: skip


def hinge_loss(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """max(1 - y * logits, 0) for labels of 0 and 1, which y has as -1 and 1."""
    with _both("hinge_loss", labels, logits, weights, scope, "hinge_loss") as inner:
        logits = conversion.cast(logits, dt.float32)
        labels = conversion.cast(labels, dt.float32)
        logits.shape.assert_is_compatible_with(labels.shape)
        ones = constants.ones_like(labels)
        signs = elementwise.subtract(2 * labels, ones)
        losses = activations.relu(elementwise.subtract(ones, elementwise.multiply(signs, logits)))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


# -- losses of logits --------------------------------------------------------------------------


def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0,
    scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """The cross-entropy of sigmoid(logits); smoothing moves labels towards 0.5."""
    default = "sigmoid_cross_entropy_loss"
    both = (multi_class_labels, logits)
    with _both("sigmoid_cross_entropy", *both, weights, scope, default) as inner:
        logits = convert_to_tensor(logits)
        labels: Any = conversion.cast(multi_class_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = cross_entropy.sigmoid_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0,
    scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """The cross-entropy of softmax(logits); smoothing moves labels towards 1 / classes."""
    default = "softmax_cross_entropy_loss"
    with _both("softmax_cross_entropy", onehot_labels, logits, weights, scope, default) as inner:
        logits = convert_to_tensor(logits)
        labels: Any = conversion.cast(onehot_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            classes = conversion.cast(shaping.shape(labels)[-1], logits.dtype)
            everywhere: Any = label_smoothing / classes
            labels = labels * (1.0 - label_smoothing) + everywhere
        labels = conversion.stop_gradient(labels, name="labels_stop_gradient")
        losses = cross_entropy.softmax_cross_entropy_with_logits_v2(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """The cross-entropy of softmax(logits) and class numbers."""
    default = "sparse_softmax_cross_entropy_loss"
    with _both("sparse_softmax_cross_entropy", labels, logits, weights, scope, default) as inner:
        with name_scope(None, "remove_squeezable_dimensions", [labels, logits]):
            logits = convert_to_tensor(logits)
            labels = convert_to_tensor(labels)
            if labels.shape.rank is not None and labels.shape.rank == logits.shape.rank:
                labels = shaping.squeeze(labels, [-1])
        weights = convert_to_tensor(weights)
        rank = labels.shape.rank
        if rank is not None and weights.shape.rank == rank + 1:
            weights = shaping.squeeze(weights, [-1])
        losses = cross_entropy.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)
