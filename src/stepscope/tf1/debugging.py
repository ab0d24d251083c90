"""`tf.debugging`."""

from stepscope.ops.arrays.conversion import check_numerics
from stepscope.ops.flow.ordering import Assert
from stepscope.ops.math.unary import (
    is_finite,
    is_inf,
    is_nan,
)
from stepscope.tf1._absent import absent

__all__ = [
    "Assert", "check_numerics", "is_finite", "is_inf", "is_nan",
]  # fmt: skip

__getattr__ = absent(__name__)
