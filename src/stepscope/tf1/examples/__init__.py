"""`tensorflow.examples`."""

from stepscope.tf1._absent import absent
from stepscope.tf1.examples import tutorials

__all__ = ["tutorials"]

__getattr__ = absent(__name__)
