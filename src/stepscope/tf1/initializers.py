"""`tf.initializers`."""

from stepscope.layers.initializers import constant_initializer as constant
from stepscope.layers.initializers import glorot_normal_initializer as glorot_normal
from stepscope.layers.initializers import glorot_uniform_initializer as glorot_uniform
from stepscope.layers.initializers import he_normal, he_uniform, lecun_normal, lecun_uniform
from stepscope.layers.initializers import ones_initializer as ones
from stepscope.layers.initializers import random_normal_initializer as random_normal
from stepscope.layers.initializers import random_uniform_initializer as random_uniform
from stepscope.layers.initializers import truncated_normal_initializer as truncated_normal
from stepscope.layers.initializers import variance_scaling_initializer as variance_scaling
from stepscope.layers.initializers import zeros_initializer as zeros
from stepscope.ops.state.variable_collections import (
    global_variables_initializer as global_variables,
)
from stepscope.ops.state.variable_collections import local_variables_initializer as local_variables
from stepscope.ops.state.variable_collections import variables_initializer as variables
from stepscope.tf1._absent import absent

__all__ = [
    "constant",
    "global_variables",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "local_variables",
    "ones",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "variables",
    "variance_scaling",
    "zeros",
]  # fmt: skip

__getattr__ = absent(__name__)
