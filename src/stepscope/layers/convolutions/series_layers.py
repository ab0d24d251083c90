"""Layers for series (batch, length, channels): convolutions and pools along one axis."""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Tensor
from stepscope.layers.convolutions.windows import Convolution, Pool, on_all_axes, wire_order
from stepscope.layers.layer_base import function_form
from stepscope.ops.arrays.shaping import expand_dims, squeeze
from stepscope.ops.nn import convolution, pooling


class Conv1D(Convolution):
    """activation(series filtered by the kernel, plus the bias).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.conv1d(tf.zeros([2, 9, 3]), 8, 3).shape)
    (2, 7, 8)
    """

    exact_rank = 3

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs = convolution.conv1d(
            inputs, self.kernel, self.strides[0], self.padding, name="conv1d",
            data_format=self._wire_order, dilations=self.dilation_rate[0],
        )  # fmt: skip
        return self.finished(outputs)


class _SeriesPool(Pool):
    exact_rank = 3
    pool: Any = None

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        axis = 3 if self._first else 2
        size, step = (on_all_axes((n, 1), self._first) for (n,) in (self.pool_size, self.strides))
        outputs: Tensor = type(self).pool(
            expand_dims(inputs, axis), size, step, self.padding,
            data_format=wire_order(4, self._first),
        )  # fmt: skip
        return squeeze(outputs, [axis])


class MaxPooling1D(_SeriesPool):
    """The largest of each window of a series.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.max_pooling1d(tf.zeros([2, 9, 3]), 2, 2).shape)
    (2, 4, 3)
    """

    pool = staticmethod(pooling.max_pool)


class AveragePooling1D(_SeriesPool):
    """The mean of each window of a series.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.average_pooling1d(tf.zeros([2, 9, 3]), 3, 3, "same").shape)
    (2, 3, 3)
    """

    pool = staticmethod(pooling.avg_pool)


conv1d = function_form(Conv1D)
max_pooling1d = function_form(MaxPooling1D, scoped=False)
average_pooling1d = function_form(AveragePooling1D, scoped=False)
