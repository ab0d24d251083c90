"""`tf.metrics`: values over many runs."""

from stepscope.ops.metrics import accuracy, mean
from stepscope.tf1._absent import absent

__all__ = ["accuracy", "mean"]

__getattr__ = absent(__name__)
