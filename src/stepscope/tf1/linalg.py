"""`tf.linalg`."""

from stepscope.ops.diagonals import eye
from stepscope.ops.matmul import matmul, tensordot
from stepscope.ops.nn import l2_normalize
from stepscope.tf1._absent import absent

__all__ = [
    "eye", "l2_normalize", "matmul", "tensordot",
]  # fmt: skip

__getattr__ = absent(__name__)
