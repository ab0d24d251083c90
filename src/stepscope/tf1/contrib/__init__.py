"""`tf.contrib`: the layers that programs took from it, `learn`, `rnn` and `tfprof`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.contrib import layers, learn, rnn, tfprof

__all__ = ["layers", "learn", "rnn", "tfprof"]

__getattr__ = absent(__name__)
