"""`tf.contrib`: the layers that programs took from it, `learn`, `rnn` and `tfprof`."""

from importlib import import_module

from stepscope.tf1 import paths
from stepscope.tf1._absent import absent
from stepscope.tf1.contrib import layers, learn, rnn

paths.install()
tfprof = import_module(f"{__name__}.tfprof")

__all__ = ["layers", "learn", "rnn", "tfprof"]

__getattr__ = absent(__name__)
