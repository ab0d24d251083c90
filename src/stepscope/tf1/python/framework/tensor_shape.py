"""`tensorflow.python.framework.tensor_shape`."""

from stepscope.graph import Dimension, TensorShape
from stepscope.tf1._absent import absent

__all__ = ["Dimension", "TensorShape"]

__getattr__ = absent(__name__)
