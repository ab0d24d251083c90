"""`tf.contrib`: the layers that programs took from it, `learn`, `rnn` and `tfprof`."""

from importlib import import_module

from stepscope.tf1 import paths
from stepscope.tf1._absent import absent
from stepscope.tf1.contrib import learn

paths.install()
layers, rnn, tfprof = (import_module(f"{__name__}.{name}") for name in ("layers", "rnn", "tfprof"))

__all__ = ["layers", "learn", "rnn", "tfprof"]

__getattr__ = absent(__name__)
