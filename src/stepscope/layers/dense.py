"""Layers: dense, dropout and flatten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.layer_base import (
    Layer,
    channels_first,
    defined,
    function_form,
    smart_cond,
)
from stepscope.ops.arrays import conversion, shaping
from stepscope.ops.math.matmul import matmul, tensordot
from stepscope.ops.nn import layer_parts

Activation = Callable[[Tensor], Tensor]


class KernelLayer(Layer):
    """activation(inputs and a kernel, plus a bias): what layers of such variables have in common.

    `kernel` and `bias` are what their variables are made with: initializer, regularizer and
    constraint.
    """

    def __init__(
        self,
        outputs: int,
        activation: Activation | None,
        use_bias: bool,
        kernel: tuple[Any, Any, Any],
        bias: tuple[Any, Any, Any],
        trainable: bool,
        name: str | None,
        **more: Any,
    ) -> None:
        super().__init__(trainable, name, **more)
        self._outputs = outputs
        self.activation, self.use_bias = activation, use_bias
        self._kernel = kernel
        self._bias = (bias[0] or zeros_initializer(), *bias[1:])
        self._bias_order = "NHWC"

    def add_kernel(self, shape: list[int]) -> None:
        """Make the variable that inputs are multiplied by."""
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
                "bias", [self._outputs], self.dtype, start, regularizer, constraint=constraint
            )

    def finished(self, outputs: Tensor) -> Tensor:
        """What was multiplied, with the bias and through the activation."""
        if self.bias is not None:
            outputs = layer_parts.bias_add(outputs, self.bias, data_format=self._bias_order)
        return outputs if self.activation is None else self.activation(outputs)


class Dense(KernelLayer):
    """activation(inputs times the kernel, plus the bias), on the last axis.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.layers.dense(tf.zeros([2, 3]), 8).shape)
    (2, 8)
    """

    least_rank = 2

    def __init__(
        self,
        units: int,
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
        self.units = int(units)
        super().__init__(
            self.units, activation, use_bias,
            (kernel_initializer, kernel_regularizer, kernel_constraint),
            (bias_initializer, bias_regularizer, bias_constraint),
            trainable, name, activity_regularizer=activity_regularizer, **more,
        )  # fmt: skip

    def build(self, input_shape: TensorShape) -> None:
        self.add_kernel([defined(input_shape, -1, "Dense"), self.units])
        self.add_bias()

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        return TensorShape([*TensorShape(input_shape).as_list()[:-1], self.units])

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        rank = inputs.shape.rank
        if rank is None or rank == 2:
            outputs = matmul(inputs, self.kernel)
        else:
            outputs = tensordot(inputs, self.kernel, [[rank - 1], [0]])
            outputs.set_shape((*inputs.shape.as_list()[:-1], self.units))
        return self.finished(outputs)


class Dropout(Layer):
    """In training a random share of the elements is zero and the others scaled up."""

    def __init__(
        self,
        rate: Any = 0.5,
        noise_shape: Any = None,
        seed: int | None = None,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name=name, **more)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs: Tensor, training: Any = False, **_more: Any) -> Any:
        return smart_cond(
            training,
            lambda: layer_parts.dropout(
                inputs, noise_shape=self.noise_shape, seed=self.seed, rate=self.rate
            ),
            lambda: conversion.identity(inputs),
        )


class Flatten(Layer):
    """All axes but the first as one."""

    least_rank = 1

    def __init__(
        self, data_format: str = "channels_last", name: str | None = None, **more: Any
    ) -> None:
        super().__init__(name=name, **more)
        self._channels_first = channels_first(data_format)

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        rank = inputs.shape.rank
        if self._channels_first and rank is not None and rank > 1:
            inputs = shaping.transpose(inputs, [0, *range(2, rank), 1])
        shape = inputs.shape
        if rank == 1:
            return shaping.expand_dims(inputs, 1)
        width = shape[1:].num_elements() if rank is not None else None
        if width is None and rank is not None and shape.axes and shape.axes[0] is not None:
            wanted = convert_to_tensor([shape.axes[0], -1])
        elif width is None:
            wanted = convert_to_tensor([shaping.shape(inputs)[0], -1])
        else:
            wanted = convert_to_tensor([-1, width])
        result = shaping.reshape(inputs, wanted)
        if rank is not None and shape.axes:
            result.set_shape((shape.axes[0], width))
        return result


# -- functions ---------------------------------------------------------------------------------


dense = function_form(Dense)


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """With `training` (a bool or a tensor), zero a random share of the elements."""
    arguments = {"rate": rate, "noise_shape": noise_shape, "seed": seed}
    result: Tensor = Dropout(**arguments, name=name)(inputs, training=training)
    return result


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """All axes but the first as one."""
    result: Tensor = Flatten(data_format, name)(inputs)
    return result
