"""Layers for images: convolutions and pools."""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Tensor
from stepscope.layers.convolutions.windows import Convolution, Pool, on_all_axes, wire_order
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
        outputs = convolution.conv2d(
            inputs, self.kernel, on_all_axes(self.strides, self._first), self.padding,
            data_format=self._wire_order, name="Conv2D",
            dilations=on_all_axes(self.dilation_rate, self._first),
        )  # fmt: skip
        return self.finished(outputs)


class _ImagePool(Pool):
    exact_rank = 4
    pool: Any = None

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs: Tensor = type(self).pool(
            inputs, on_all_axes(self.pool_size, self._first),
            on_all_axes(self.strides, self._first), self.padding,
            data_format=wire_order(4, self._first),
        )  # fmt: skip
        return outputs


class MaxPooling2D(_ImagePool):
    """The largest of each window.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.max_pooling2d(tf.zeros([2, 8, 8, 3]), 2, 2).shape)
    (2, 4, 4, 3)
    """

    pool = staticmethod(pooling.max_pool)


class AveragePooling2D(_ImagePool):
    """The mean of each window.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.average_pooling2d(tf.zeros([2, 8, 8, 3]), [8, 8], 1).shape)
    (2, 1, 1, 3)
    """

    pool = staticmethod(pooling.avg_pool)


conv2d = function_form(Conv2D)
max_pooling2d = function_form(MaxPooling2D, scoped=False)
average_pooling2d = function_form(AveragePooling2D, scoped=False)
