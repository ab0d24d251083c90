"""`tensorflow.examples.tutorials.mnist`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.examples.tutorials.mnist import input_data

__all__ = ["input_data"]

__getattr__ = absent(__name__)
