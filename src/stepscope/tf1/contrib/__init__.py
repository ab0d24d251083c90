"""`tf.contrib`: what programs took from it most, `slim` and `layers` above all."""

from importlib import import_module

from stepscope.tf1 import paths
from stepscope.tf1._absent import absent
from stepscope.tf1.contrib import learn

paths.install()
_TABLED = ("framework", "layers", "lookup", "rnn", "slim", "tensorboard", "tfprof")
framework, layers, lookup, rnn, slim, tensorboard, tfprof = (
    import_module(f"{__name__}.{name}") for name in _TABLED
)

__all__ = ["framework", "layers", "learn", "lookup", "rnn", "slim", "tensorboard", "tfprof"]

__getattr__ = absent(__name__)
