"""Transposed and separable convolutions, and normalised rows, as `tf.contrib.layers` has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import float16
from stepscope.graph.operation import Tensor
from stepscope.layers.arg_scopes import add_arg_scope
from stepscope.layers.contrib.contrib_layers import (
    LayerOptions,
    collected,
    contrib_getter,
    contrib_layer,
    made_initializer,
    order_of,
)
from stepscope.layers.convolutions.convolution_forms import Conv2DTranspose, SeparableConv2D
from stepscope.layers.convolutions.windows import on_all_axes
from stepscope.layers.dense import Activation
from stepscope.layers.initializers import ones_initializer, zeros_initializer
from stepscope.layers.layer_base import Layer
from stepscope.layers.variable_scope import get_variable, variable_scope
from stepscope.ops.nn import layer_parts
from stepscope.ops.nn.depthwise import depthwise_conv2d


@contrib_layer("Conv2d_transpose")
def conv2d_transpose(
    options: LayerOptions,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
) -> Callable[..., Layer]:
    """activation_fn(images filtered the other way round by new weights, plus new biases).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.conv2d_transpose(tf.zeros([2, 4, 4, 3]), 8, 5, 2).shape)
    (2, 8, 8, 8)
    """
    return partial(
        Conv2DTranspose, num_outputs, kernel_size, stride, padding, order_of(data_format),
        **options.variables(),
    )  # fmt: skip


@contrib_layer("SeparableConv2d")
def separable_conv2d(
    options: LayerOptions,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    *,
    pointwise_initializer: Any = None,
) -> Callable[..., Layer]:
    """A convolution of each channel; then, unless `num_outputs` is None, one over all channels.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     net = tf.contrib.layers.separable_conv2d(tf.zeros([2, 4, 4, 3]), None, 3, 2)
    ...     print(net.shape, [v.op.name for v in tf.trainable_variables()])
    (2, 4, 4, 6) ['SeparableConv2d/depthwise_weights', 'SeparableConv2d/biases']
    """
    start = options.weights_start
    given: dict[str, Any] = {
        "strides": stride, "padding": padding, "data_format": order_of(data_format),
        "dilation_rate": rate, "depth_multiplier": depth_multiplier, "use_bias": options.biased,
        "depthwise_initializer": start, "depthwise_regularizer": options.weights_regularizer,
        "bias_initializer": options.biases_start, "bias_regularizer": options.biases_regularizer,
        "trainable": options.trainable,
    }  # fmt: skip
    if num_outputs is None:
        return partial(_Depthwise, 0, kernel_size, **given)
    return partial(
        SeparableConv2D, num_outputs, kernel_size,
        pointwise_initializer=made_initializer(pointwise_initializer) or start,
        pointwise_regularizer=options.weights_regularizer, **given,
    )  # fmt: skip


class _Depthwise(SeparableConv2D):
    """The first half of a separable convolution: as many outputs as channels, times a number."""

    def build(self, input_shape: Any) -> None:
        depth = input_shape.as_list()[1 if self._first else -1]
        self._outputs = self.filters = depth * self.depth_multiplier
        start, regularizer, _ = self._depthwise
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", [*self.kernel_size, depth, self.depth_multiplier], self.dtype,
            start, regularizer,
        )  # fmt: skip
        self.add_bias()

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs = depthwise_conv2d(
            inputs, self.depthwise_kernel, on_all_axes(self.strides, self._first), self.padding,
            self.dilation_rate, data_format=self._wire_order,
        )  # fmt: skip
        return self.finished(outputs)


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Activation | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Tensor:
    """Each row of the batch brought to mean 0 and variance 1, then scaled and shifted.

    Normalised are all axes from `begin_norm_axis` on; `gamma` and `beta` have the axes from
    `begin_params_axis` on.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     normed = tf.contrib.layers.layer_norm(tf.constant([[1.0, 3.0], [0.0, 8.0]]))
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(normed).round(3).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    with variable_scope(
        scope,
        "LayerNorm",
        [inputs],
        reuse=reuse,
        custom_getter=contrib_getter(variables_collections),
    ):
        inputs = convert_to_tensor(inputs)
        rank = inputs.shape.rank
        if rank is None:
            raise ValueError("Inputs have undefined rank.")
        first = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if first >= rank or begin_params_axis >= rank:
            raise ValueError(
                f"begin_norm_axis ({begin_norm_axis}) and begin_params_axis ({begin_params_axis}) "
                f"must be below the rank of the inputs, {rank}."
            )
        size = inputs.shape[begin_params_axis:]
        if not size.is_fully_defined():
            raise ValueError(f"Inputs {inputs.name}: shape not fully defined: {inputs.shape}")
        kind = inputs.dtype.base_dtype
        beta, gamma = (
            get_variable(name, size.as_list(), kind, initializer=start(), trainable=trainable)
            if wanted
            else None
            for name, start, wanted in (
                ("beta", zeros_initializer, center), ("gamma", ones_initializer, scale)
            )
        )  # fmt: skip
        mean, variance = layer_parts.moments(inputs, list(range(first, rank)), keep_dims=True)
        outputs = layer_parts.batch_normalization(
            inputs, mean, variance, beta, gamma, 1e-3 if kind is float16 else 1e-12
        )
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collected(outputs, outputs_collections)
