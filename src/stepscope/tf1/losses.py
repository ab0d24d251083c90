"""`tf.losses`: losses of predictions and labels, collected in the graph."""

from stepscope.layers.losses import (
    Reduction,
    absolute_difference,
    add_loss,
    compute_weighted_loss,
    get_losses,
    get_regularization_loss,
    get_regularization_losses,
    get_total_loss,
    hinge_loss,
    huber_loss,
    log_loss,
    mean_squared_error,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from stepscope.tf1._absent import absent

__all__ = [
    "Reduction", "absolute_difference", "add_loss", "compute_weighted_loss", "get_losses",
    "get_regularization_loss", "get_regularization_losses", "get_total_loss", "hinge_loss",
    "huber_loss", "log_loss", "mean_squared_error", "sigmoid_cross_entropy",
    "softmax_cross_entropy", "sparse_softmax_cross_entropy",
]  # fmt: skip

__getattr__ = absent(__name__)
