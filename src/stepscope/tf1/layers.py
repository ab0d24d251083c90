"""`tf.layers`: layers as functions and as classes."""

from stepscope.layers.dense import Dense, Dropout, Flatten, dense, dropout, flatten
from stepscope.layers.image_layers import (
    AveragePooling2D,
    Conv2D,
    MaxPooling2D,
    average_pooling2d,
    conv2d,
    max_pooling2d,
)
from stepscope.layers.layer_base import Layer
from stepscope.layers.normalization import BatchNormalization, batch_normalization
from stepscope.tf1._absent import absent

__all__ = [
    "AveragePooling2D", "BatchNormalization", "Conv2D", "Dense", "Dropout", "Flatten", "Layer",
    "MaxPooling2D", "average_pooling2d", "batch_normalization", "conv2d", "dense", "dropout",
    "flatten", "max_pooling2d",
]  # fmt: skip

__getattr__ = absent(__name__)
