"""`tf.linalg`."""

from stepscope.ops.arrays.diagonals import eye
from stepscope.ops.math.matmul import matmul, tensordot
from stepscope.ops.nn.layer_parts import l2_normalize
from stepscope.tf1._absent import absent

__all__ = [
    "eye", "l2_normalize", "matmul", "tensordot",
]  # fmt: skip

__getattr__ = absent(__name__)
