"""`tensorflow.core.framework.tensor_pb2`."""

from stepscope._messages import TensorProto
from stepscope.tf1._absent import absent

__all__ = ["TensorProto"]

__getattr__ = absent(__name__)
