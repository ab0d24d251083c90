"""Batch normalisation as a layer, with the moving averages it keeps for inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.graph import dtypes as dt
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.initializers import ones_initializer, zeros_initializer
from stepscope.layers.layer_base import (
    Layer,
    applied,
    defined,
    known_truth,
    smart_cond,
    variables_dtype,
)
from stepscope.ops.arrays import conversion, shaping
from stepscope.ops.arrays.constants import constant
from stepscope.ops.nn import layer_parts
from stepscope.ops.nn.fused_batch_norm import fused_batch_norm
from stepscope.ops.state.variable import assign_sub


class BatchNormalization(Layer):
    """Each channel brought to mean 0 and variance 1 (then scaled and shifted).

    In training mean and variance are the batch's, and the moving averages change with the ops in
    `tf.GraphKeys.UPDATE_OPS`, which the program runs; otherwise they are the moving averages.
    Images with channels first or last are normalised by one node unless `fused` is False.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: Any = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        moving_mean_initializer: Any = None,
        moving_variance_initializer: Any = None,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(trainable, name, **more)
        del renorm_clipping, renorm_momentum
        for what, value in (
            ("renorm", renorm), ("virtual_batch_size", virtual_batch_size),
            ("adjustment", adjustment),
        ):  # fmt: skip
            if value:
                raise NotImplementedError(f"BatchNormalization: {what} is not supported.")
        axes = list(axis) if isinstance(axis, (list, tuple)) else [axis]
        if len(axes) != 1:
            raise NotImplementedError("BatchNormalization: one axis alone can be normalised.")
        self.axis = int(axes[0])
        self.momentum, self.epsilon, self.fused = momentum, epsilon, fused
        self.center, self.scale = center, scale
        zeros, ones = zeros_initializer(), ones_initializer()
        self._beta = (beta_initializer or zeros, beta_regularizer, beta_constraint)
        self._gamma = (gamma_initializer or ones, gamma_regularizer, gamma_constraint)
        self._starts = (moving_mean_initializer or zeros, moving_variance_initializer or ones)

    def build(self, input_shape: TensorShape) -> None:
        rank = input_shape.rank
        if rank is None:
            raise ValueError("Input has undefined rank.")
        axis = self.axis + rank if self.axis < 0 else self.axis
        if not 0 <= axis < rank:
            raise ValueError(f"Invalid axis {self.axis} of inputs of shape {input_shape}.")
        self.axis = axis
        can_fuse = rank == 4 and axis in (1, 3)
        if self.fused and not can_fuse:
            raise ValueError(
                "Batch normalization with fused=True takes images of rank 4 with channels first or "
                f"last. Received: shape {input_shape}, axis {axis}."
            )
        self.fused = can_fuse if self.fused is None else self.fused
        assert self.dtype is not None
        kind = variables_dtype(self.dtype)
        channels = [defined(input_shape, axis, "BatchNormalization")]
        self.gamma = self.beta = None
        if self.scale:
            start, regularizer, constraint = self._gamma
            self.gamma = self.add_weight(
                "gamma", channels, kind, start, regularizer, constraint=constraint
            )
        if self.center:
            start, regularizer, constraint = self._beta
            self.beta = self.add_weight(
                "beta", channels, kind, start, regularizer, constraint=constraint
            )
        mean, variance = self._starts
        self.moving_mean = self.add_weight("moving_mean", channels, kind, mean, trainable=False)
        self.moving_variance = self.add_weight(
            "moving_variance", channels, kind, variance, trainable=False
        )

    def call(self, inputs: Tensor, training: Any = False, **_more: Any) -> Tensor:
        if not self.trainable:
            training = False
        return self._fused(inputs, training) if self.fused else self._composed(inputs, training)

    def _fused(self, inputs: Tensor, training: Any) -> Tensor:
        channels = inputs.shape[self.axis : self.axis + 1].as_list()
        beta = constant(0.0, dt.float32, channels) if self.beta is None else self.beta
        gamma = constant(1.0, dt.float32, channels) if self.gamma is None else self.gamma
        wire = "NHWC" if self.axis == 3 else "NCHW"

        def normalise(is_training: bool) -> Sequence[Tensor]:
            return fused_batch_norm(
                inputs, gamma, beta, self.moving_mean, self.moving_variance, self.epsilon, wire,
                is_training,
            )  # fmt: skip

        output: Tensor
        output, mean, variance = smart_cond(
            training, lambda: normalise(True), lambda: normalise(False)
        )
        known = known_truth(training)
        if known is not False:
            momentum = self.momentum
            if known is None:
                momentum = smart_cond(training, lambda: constant(momentum), lambda: constant(1.0))
            else:
                momentum = convert_to_tensor(momentum)
            self.add_update(_towards(self.moving_mean, mean, momentum))
            self.add_update(_towards(self.moving_variance, variance, momentum))
        return output

    def _composed(self, inputs: Tensor, training: Any) -> Tensor:
        kind = inputs.dtype.base_dtype
        values = conversion.cast(inputs, dt.float32) if kind is dt.float16 else inputs
        rank = inputs.shape.rank
        assert rank is not None
        others = [n for n in range(rank) if n != self.axis]

        def wide(vector: Any) -> Any:
            if vector is None or self.axis == rank - 1:
                return vector
            return shaping.reshape(vector, [-1 if n == self.axis else 1 for n in range(rank)])

        scale, offset = wide(self.gamma), wide(self.beta)
        mean: Any = self.moving_mean
        variance: Any = self.moving_variance
        if known_truth(training) is not False:
            found = layer_parts.moments(values, others)
            mean, variance = (
                _one_of(training, new, old)
                for new, old in zip(found, (mean, variance), strict=True)
            )
            for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                self.add_update(self._update(training, moving, new))
        result = layer_parts.batch_normalization(
            values, wide(mean), wide(variance), offset, scale, self.epsilon
        )
        if kind is dt.float16:
            result = conversion.cast(result, kind)
        result.set_shape(inputs.shape)
        return result

    def _update(self, training: Any, moving: Any, new: Any) -> Any:
        """The moving average after another batch; unchanged where this is no training."""
        return smart_cond(
            training,
            lambda: _towards(moving, new, self.momentum),
            lambda: convert_to_tensor(moving),
        )


def _one_of(training: Any, new: Any, moving: Any) -> Any:
    """What normalises: the batch's value in training, else the moving average."""
    return smart_cond(training, lambda: new, lambda: convert_to_tensor(moving))


def _towards(variable: Any, value: Any, momentum: Any) -> Any:
    """The variable moved towards the value, by 1 - momentum of the way."""
    with name_scope("AssignMovingAvg") as scope:
        decay = convert_to_tensor(1.0 - momentum, name="decay")
        kind = variable.dtype.base_dtype
        decay = conversion.cast(decay, kind)
        step = (variable - conversion.cast(value, kind)) * decay
        return assign_sub(variable, step, name=scope)


def batch_normalization(
    inputs: Any,
    axis: Any = -1,
    momentum: Any = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    moving_mean_initializer: Any = None,
    moving_variance_initializer: Any = None,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> Tensor:
    """Each channel brought to mean 0 and variance 1, by a new `BatchNormalization` layer.

    `training` is a bool or a tensor. In training, run the ops of `tf.GraphKeys.UPDATE_OPS` too.
    """
    arguments = locals()
    result: Tensor = applied(BatchNormalization, arguments, training=arguments.pop("training"))
    return result
