"""Layers for images: convolutions and pools."""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.dense import Activation
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.layer_base import Layer, applied, channels_first, defined, pair
from stepscope.ops.nn import convolution, layer_parts, pooling


def wire_order(first: bool) -> str:
    """The order of axes as ops have it."""
    return "NCHW" if first else "NHWC"


def four(numbers: tuple[int, int], first: bool) -> list[int]:
    """Height and width among all axes of images."""
    return [1, 1, *numbers] if first else [1, *numbers, 1]


class Conv2D(Layer):
    """activation(images filtered by the kernel, plus the bias)."""

    exact_rank = 4

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = (1, 1),
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
        self.kernel_size = pair(kernel_size, "kernel_size")
        self.strides = pair(strides, "strides")
        self.dilation_rate = pair(dilation_rate, "dilation_rate")
        self.padding = padding_of(padding)
        self._first = channels_first(data_format)
        self.activation, self.use_bias = activation, use_bias
        self._kernel = (kernel_initializer, kernel_regularizer, kernel_constraint)
        self._bias = (bias_initializer or zeros_initializer(), bias_regularizer, bias_constraint)

    def build(self, input_shape: TensorShape) -> None:
        depth = defined(input_shape, 1 if self._first else -1, "Conv2D")
        self.add_kernel([*self.kernel_size, depth, self.filters])
        self.add_bias()

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs = convolution.conv2d(
            inputs, self.kernel, four(self.strides, self._first), self.padding,
            data_format=wire_order(self._first), name="Conv2D",
            dilations=four(self.dilation_rate, self._first),
        )  # fmt: skip
        return self.finished(outputs)

    # -- what its forms have in common -----------------------------------------------------------

    def add_kernel(self, shape: list[int]) -> None:
        """Make the variable that filters."""
        start, regularizer, constraint = self._kernel
        self.kernel = self.add_weight(
            "kernel", shape, self.dtype, start, regularizer, constraint=constraint
        )

    def add_bias(self) -> None:
        """Make the variable that is added, unless the layer has none."""
        self.bias = None
        if self.use_bias:
            start, regularizer, constraint = self._bias
            self.bias = self.add_weight(
                "bias", [self.filters], self.dtype, start, regularizer, constraint=constraint
            )

    def finished(self, outputs: Tensor) -> Tensor:
        """What was filtered, with the bias and through the activation."""
        if self.bias is not None:
            outputs = layer_parts.bias_add(outputs, self.bias, data_format=wire_order(self._first))
        return outputs if self.activation is None else self.activation(outputs)


class _Pool(Layer):
    exact_rank = 4
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
        self.pool_size = pair(pool_size, "pool_size")
        self.strides = pair(strides, "strides")
        self.padding = padding_of(padding)
        self._first = channels_first(data_format)

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs: Tensor = type(self).pool(
            inputs, four(self.pool_size, self._first), four(self.strides, self._first),
            self.padding, data_format=wire_order(self._first),
        )  # fmt: skip
        return outputs


class MaxPooling2D(_Pool):
    """The largest of each window."""

    pool = staticmethod(pooling.max_pool)


class AveragePooling2D(_Pool):
    """The mean of each window."""

    pool = staticmethod(pooling.avg_pool)


def padding_of(padding: str) -> str:
    """The padding as ops have it; ValueError if it is none."""
    wanted = padding.upper()
    if wanted not in ("SAME", "VALID"):
        raise ValueError(f'`padding` must be "valid" or "same". Received: {padding!r}')
    return wanted


# -- functions ---------------------------------------------------------------------------------


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
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
    """activation(images filtered by a new kernel, plus a new bias)."""
    result: Tensor = applied(Conv2D, locals())
    return result


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The largest of each window."""
    result: Tensor = MaxPooling2D(pool_size, strides, padding, data_format, name)(inputs)
    return result


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean of each window."""
    result: Tensor = AveragePooling2D(pool_size, strides, padding, data_format, name)(inputs)
    return result
