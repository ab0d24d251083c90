"""`tf.metrics`: values over many runs."""

from stepscope.layers.metrics import (
    accuracy,
    mean,
    mean_absolute_error,
    mean_squared_error,
    root_mean_squared_error,
)
from stepscope.tf1._absent import absent

__all__ = [
    "accuracy", "mean", "mean_absolute_error", "mean_squared_error", "root_mean_squared_error",
]  # fmt: skip

__getattr__ = absent(__name__)
