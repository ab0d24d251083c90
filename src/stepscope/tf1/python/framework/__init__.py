"""The part of `tensorflow.python.framework` that programs import from."""

from stepscope.tf1._absent import absent
from stepscope.tf1.python.framework import dtypes, errors, errors_impl, ops, tensor_shape

__all__ = ["dtypes", "errors", "errors_impl", "ops", "tensor_shape"]

__getattr__ = absent(__name__)
