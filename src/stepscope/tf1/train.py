"""`tf.train`: optimizers, learning rates, the count of steps, the messages of a cluster."""

from stepscope.ops.global_steps import (
    create_global_step,
    exponential_decay,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from stepscope.ops.optimizer import Optimizer
from stepscope.ops.optimizers import (
    AdamOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from stepscope.options import ClusterDef, JobDef
from stepscope.tf1._absent import absent

__all__ = [
    "AdamOptimizer", "ClusterDef", "GradientDescentOptimizer", "JobDef", "MomentumOptimizer",
    "Optimizer", "RMSPropOptimizer", "create_global_step", "exponential_decay", "get_global_step",
    "get_or_create_global_step", "global_step",
]  # fmt: skip

__getattr__ = absent(__name__)
