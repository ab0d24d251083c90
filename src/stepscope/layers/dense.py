"""Layers: dense, dropout and flatten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.layer_base import Layer, applied, channels_first, defined, smart_cond
from stepscope.ops.arrays import conversion, shaping
from stepscope.ops.math.matmul import matmul, tensordot
from stepscope.ops.nn import layer_parts

Activation = Callable[[Tensor], Tensor]


class Dense(Layer):
    """activation(inputs times the kernel, plus the bias), on the last axis."""

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
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **more)
        self.units = int(units)
        self.activation = activation
        self.use_bias = use_bias
        self._kernel = (kernel_initializer, kernel_regularizer, kernel_constraint)
        self._bias = (bias_initializer or zeros_initializer(), bias_regularizer, bias_constraint)

    def build(self, input_shape: TensorShape) -> None:
        width = defined(input_shape, -1, "Dense")
        start, regularizer, constraint = self._kernel
        self.kernel = self.add_weight(
            "kernel", [width, self.units], self.dtype, start, regularizer, constraint=constraint
        )
        self.bias = None
        if self.use_bias:
            start, regularizer, constraint = self._bias
            self.bias = self.add_weight(
                "bias", [self.units], self.dtype, start, regularizer, constraint=constraint
            )

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        rank = inputs.shape.rank
        if rank is None or rank == 2:
            outputs = matmul(inputs, self.kernel)
        else:
            outputs = tensordot(inputs, self.kernel, [[rank - 1], [0]])
            outputs.set_shape((*inputs.shape.as_list()[:-1], self.units))
        if self.bias is not None:
            outputs = layer_parts.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)


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


def dense(
    inputs: Any,
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
    reuse: Any = None,
) -> Tensor:
    """activation(inputs times a new kernel, plus a new bias), on the last axis."""
    result: Tensor = applied(Dense, locals())
    return result


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
