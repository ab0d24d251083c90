"""`tensorflow.examples.tutorials`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.examples.tutorials import mnist

__all__ = ["mnist"]

__getattr__ = absent(__name__)
