"""`tf.contrib`: the layers that programs took from it."""

from stepscope.tf1._absent import absent
from stepscope.tf1.contrib import layers

__all__ = ["layers"]

__getattr__ = absent(__name__)
