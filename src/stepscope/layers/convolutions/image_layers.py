"""Layers for images: convolutions and pools."""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Tensor
from stepscope.layers.convolutions.windows import Convolution, WindowPool
from stepscope.layers.layer_base import function_form
from stepscope.ops.nn import convolution, pooling


class Conv2D(Convolution):
    """activation(images filtered by the kernel, plus the bias).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.conv2d(tf.zeros([2, 8, 8, 3]), 16, 3).shape)
    (2, 6, 6, 16)
    """

    exact_rank = 4

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        return self.finished(self.filtered(convolution.conv2d, inputs, "Conv2D"))


class MaxPooling2D(WindowPool):
    """The largest of each window.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.max_pooling2d(tf.zeros([2, 8, 8, 3]), 2, 2).shape)
    (2, 4, 4, 3)
    """

    exact_rank = 4
    pool = staticmethod(pooling.max_pool)


class AveragePooling2D(WindowPool):
    """The mean of each window.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.average_pooling2d(tf.zeros([2, 8, 8, 3]), [8, 8], 1).shape)
    (2, 1, 1, 3)
    """

    exact_rank = 4
    pool = staticmethod(pooling.avg_pool)


conv2d = function_form(Conv2D)
max_pooling2d = function_form(MaxPooling2D, scoped=False)
average_pooling2d = function_form(AveragePooling2D, scoped=False)
