"""Layers for volumes (batch, depth, height, width, channels): convolutions and pools."""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Tensor
from stepscope.layers.convolutions.windows import Convolution, WindowPool
from stepscope.layers.layer_base import function_form
from stepscope.ops.nn import pooling, volumes


class Conv3D(Convolution):
    """activation(volumes filtered by the kernel, plus the bias).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.conv3d(tf.zeros([2, 8, 8, 8, 1]), 16, 3, 2).shape)
    (2, 3, 3, 3, 16)
    """

    exact_rank = 5

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        return self.finished(self.filtered(volumes.conv3d, inputs, "Conv3D"))


class MaxPooling3D(WindowPool):
    """The largest of each window of a volume.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.max_pooling3d(tf.zeros([2, 8, 8, 8, 1]), 2, 2).shape)
    (2, 4, 4, 4, 1)
    """

    exact_rank = 5
    pool = staticmethod(pooling.max_pool3d)


class AveragePooling3D(WindowPool):
    """The mean of each window of a volume.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.average_pooling3d(tf.zeros([2, 8, 8, 8, 1]), 8, 1).shape)
    (2, 1, 1, 1, 1)
    """

    exact_rank = 5
    pool = staticmethod(pooling.avg_pool3d)


conv3d = function_form(Conv3D)
max_pooling3d = function_form(MaxPooling3D, scoped=False)
average_pooling3d = function_form(AveragePooling3D, scoped=False)
