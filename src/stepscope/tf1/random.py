"""`tf.random`."""

from stepscope.ops.math.random import (
    categorical,
    get_seed,
    multinomial,
    set_random_seed,
    truncated_normal,
)
from stepscope.ops.math.random import (
    random_normal as normal,
)
from stepscope.ops.math.random import (
    random_shuffle as shuffle,
)
from stepscope.ops.math.random import (
    random_uniform as uniform,
)
from stepscope.tf1._absent import absent

__all__ = [
    "categorical", "get_seed", "multinomial", "normal", "set_random_seed", "shuffle",
    "truncated_normal", "uniform",
]  # fmt: skip

__getattr__ = absent(__name__)
