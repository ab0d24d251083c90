"""`tensorflow.core.framework.tensor_shape_pb2`."""

from stepscope._messages import TensorShapeProto
from stepscope.tf1._absent import absent

__all__ = ["TensorShapeProto"]

__getattr__ = absent(__name__)
