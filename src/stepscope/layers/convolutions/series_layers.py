"""Layers for series (batch, length, channels): convolutions and pools along one axis."""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.convolutions.image_layers import padding_of
from stepscope.layers.dense import Activation
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.layer_base import Layer, applied, channels_first, defined
from stepscope.ops.arrays.shaping import expand_dims, squeeze
from stepscope.ops.nn import convolution, layer_parts, pooling


class Conv1D(Layer):
    """activation(series filtered by the kernel, plus the bias)."""

    exact_rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **more)
        self.filters = int(filters)
        self.kernel_size = _one(kernel_size, "kernel_size")
        self.strides = _one(strides, "strides")
        self.dilation_rate = _one(dilation_rate, "dilation_rate")
        self.padding = padding_of(padding)
        self._first = channels_first(data_format)
        self.activation, self.use_bias = activation, use_bias
        self._kernel = (kernel_initializer, kernel_regularizer, kernel_constraint)
        self._bias = (bias_initializer or zeros_initializer(), bias_regularizer, bias_constraint)

    def build(self, input_shape: TensorShape) -> None:
        depth = defined(input_shape, 1 if self._first else -1, "Conv1D")
        start, regularizer, constraint = self._kernel
        self.kernel = self.add_weight(
            "kernel", [self.kernel_size, depth, self.filters], self.dtype, start, regularizer,
            constraint=constraint,
        )  # fmt: skip
        self.bias = None
        if self.use_bias:
            start, regularizer, constraint = self._bias
            self.bias = self.add_weight(
                "bias", [self.filters], self.dtype, start, regularizer, constraint=constraint
            )

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs = convolution.conv1d(
            inputs, self.kernel, self.strides, self.padding, name="conv1d",
            data_format="NCW" if self._first else "NWC", dilations=self.dilation_rate,
        )  # fmt: skip
        if self.bias is not None:
            wire = "NCHW" if self._first else "NHWC"
            outputs = layer_parts.bias_add(outputs, self.bias, data_format=wire)
        return outputs if self.activation is None else self.activation(outputs)


class _SeriesPool(Layer):
    exact_rank = 3
    pool: Any = None

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name=name, **more)
        self.pool_size = _one(pool_size, "pool_size")
        self.strides = _one(strides, "strides")
        self.padding = padding_of(padding)
        self._first = channels_first(data_format)

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        axis = 3 if self._first else 2
        size, step = ([1, 1, n, 1] if self._first else [1, n, 1, 1] for n in self._windows())
        outputs: Tensor = type(self).pool(
            expand_dims(inputs, axis), size, step, self.padding,
            data_format="NCHW" if self._first else "NHWC",
        )  # fmt: skip
        return squeeze(outputs, [axis])

    def _windows(self) -> tuple[int, int]:
        return self.pool_size, self.strides


class MaxPooling1D(_SeriesPool):
    """The largest of each window of a series."""

    pool = staticmethod(pooling.max_pool)


class AveragePooling1D(_SeriesPool):
    """The mean of each window of a series."""

    pool = staticmethod(pooling.avg_pool)


def _one(value: Any, what: str) -> int:
    given = [value] if isinstance(value, int) else list(value)
    if len(given) != 1 or not isinstance(given[0], int):
        raise ValueError(f"The `{what}` argument must be one integer. Received: {value!r}")
    return given[0]


# -- functions ---------------------------------------------------------------------------------


def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """activation(series filtered by a new kernel, plus a new bias).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.conv1d(tf.zeros([2, 9, 3]), 8, 3).shape)
    (2, 7, 8)
    """
    result: Tensor = applied(Conv1D, locals())
    return result


def max_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The largest of each window of a series.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.max_pooling1d(tf.zeros([2, 9, 3]), 2, 2).shape)
    (2, 4, 3)
    """
    result: Tensor = MaxPooling1D(pool_size, strides, padding, data_format, name)(inputs)
    return result


def average_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a series.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.average_pooling1d(tf.zeros([2, 9, 3]), 3, 3, "same").shape)
    (2, 3, 3)
    """
    result: Tensor = AveragePooling1D(pool_size, strides, padding, data_format, name)(inputs)
    return result
