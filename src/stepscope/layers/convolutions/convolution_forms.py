"""Layers for images that are convolutions of another form: transposed, and separable."""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.convolutions.image_layers import Conv2D
from stepscope.layers.convolutions.windows import on_all_axes
from stepscope.layers.dense import Activation
from stepscope.layers.layer_base import function_form
from stepscope.ops.arrays.joining import stack
from stepscope.ops.arrays.shaping import shape
from stepscope.ops.nn import convolution
from stepscope.ops.nn.depthwise import separable_conv2d as separable


class Conv2DTranspose(Conv2D):
    """activation(a convolution the other way round, plus the bias): images grow by the strides.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.conv2d_transpose(tf.zeros([2, 4, 4, 3]), 8, 5, 2, "same").shape)
    (2, 8, 8, 8)
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
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
        super().__init__(
            filters, kernel_size, strides, padding, data_format, 1, activation, use_bias,
            kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **more,
        )  # fmt: skip

    def build(self, input_shape: TensorShape) -> None:
        self.add_kernel([*self.kernel_size, self.filters, self.depth_of(input_shape)])
        self.add_bias()

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        first = 2 if self._first else 1
        axes = inputs.shape.as_list()
        there = shape(inputs)
        count = there[0] if axes[0] is None else axes[0]
        lengths = [
            self._grown(there[first + n] if axes[first + n] is None else axes[first + n], n)
            for n in range(2)
        ]
        wanted = [count, self.filters, *lengths] if self._first else [count, *lengths, self.filters]
        outputs = convolution.conv2d_transpose(
            inputs, self.kernel, stack(wanted), on_all_axes(self.strides, self._first),
            self.padding, data_format=self._wire_order,
        )  # fmt: skip
        outputs.set_shape([None if isinstance(n, Tensor) else n for n in wanted])
        return self.finished(outputs)

    def _grown(self, length: Any, axis: int) -> Any:
        """How long an axis is in the output."""
        step = self.strides[axis]
        beyond = max(self.kernel_size[axis] - step, 0) if self.padding == "VALID" else 0
        return length * step + beyond


class SeparableConv2D(Conv2D):
    """A convolution of each channel by itself, then one of single pixels over all channels.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.separable_conv2d(tf.zeros([2, 8, 8, 3]), 16, 3).shape)
    (2, 6, 6, 16)
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Activation | None = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = None,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, None, bias_initializer, None, bias_regularizer, activity_regularizer, None,
            bias_constraint, trainable, name, **more,
        )  # fmt: skip
        self.depth_multiplier = int(depth_multiplier)
        self._depthwise = (depthwise_initializer, depthwise_regularizer, depthwise_constraint)
        self._pointwise = (pointwise_initializer, pointwise_regularizer, pointwise_constraint)

    def build(self, input_shape: TensorShape) -> None:
        depth, each = self.depth_of(input_shape), self.depth_multiplier
        start, regularizer, constraint = self._depthwise
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", [*self.kernel_size, depth, each], self.dtype, start, regularizer,
            constraint=constraint,
        )  # fmt: skip
        start, regularizer, constraint = self._pointwise
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel", [1, 1, depth * each, self.filters], self.dtype, start, regularizer,
            constraint=constraint,
        )  # fmt: skip
        self.add_bias()

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs = separable(
            inputs, self.depthwise_kernel, self.pointwise_kernel,
            on_all_axes(self.strides, self._first), self.padding, self.dilation_rate,
            data_format=self._wire_order,
        )  # fmt: skip
        return self.finished(outputs)


conv2d_transpose = function_form(Conv2DTranspose)
separable_conv2d = function_form(SeparableConv2D)
