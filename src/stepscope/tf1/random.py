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
from stepscope.ops.nn.candidate_sampling import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from stepscope.tf1._absent import absent

__all__ = [
    "all_candidate_sampler", "categorical", "fixed_unigram_candidate_sampler", "get_seed",
    "learned_unigram_candidate_sampler", "log_uniform_candidate_sampler", "multinomial",
    "normal", "set_random_seed", "shuffle", "truncated_normal", "uniform",
    "uniform_candidate_sampler",
]  # fmt: skip

__getattr__ = absent(__name__)
