"""`tf.contrib`: the layers that programs took from it, `learn` and `tfprof`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.contrib import layers, learn, tfprof

__all__ = ["layers", "learn", "tfprof"]

__getattr__ = absent(__name__)
