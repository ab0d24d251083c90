"""`tf.contrib`: the layers that programs took from it, and `tf.contrib.learn`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.contrib import layers, learn

__all__ = ["layers", "learn"]

__getattr__ = absent(__name__)
