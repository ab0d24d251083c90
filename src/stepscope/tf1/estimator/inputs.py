"""`tf.estimator.inputs`: arrays as the input of an Estimator."""

from stepscope.programs.estimator import numpy_input_fn
from stepscope.tf1._absent import absent

__all__ = ["numpy_input_fn"]

__getattr__ = absent(
    __name__, {"pandas_input_fn": "pass the columns' arrays: numpy_input_fn(dict(frame), ...)"}
)
