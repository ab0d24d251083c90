"""`tf.contrib.layers`."""

from stepscope.layers.contrib_layers import (
    conv2d,
    fully_connected,
    l1_regularizer,
    l2_regularizer,
    xavier_initializer,
)
from stepscope.layers.contrib_layers import conv2d as convolution2d
from stepscope.layers.contrib_layers import xavier_initializer as xavier_initializer_conv2d
from stepscope.layers.dense import flatten
from stepscope.tf1._absent import absent

__all__ = [
    "conv2d", "convolution2d", "flatten", "fully_connected", "l1_regularizer", "l2_regularizer",
    "xavier_initializer", "xavier_initializer_conv2d",
]  # fmt: skip

__getattr__ = absent(__name__)
