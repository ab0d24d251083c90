"""Initializers: objects that make a variable's initial value from its shape and dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stepscope.graph.build import constant_op
from stepscope.graph.dtypes import DType, as_dtype, float32
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.constants import ones, zeros
from stepscope.ops.arrays.diagonals import matrix_diag_part
from stepscope.ops.arrays.shaping import reshape
from stepscope.ops.linalg.factors import qr
from stepscope.ops.linalg.matrices import matrix_transpose
from stepscope.ops.math.random import random_normal, random_uniform, truncated_normal
from stepscope.ops.math.unary import sign


class Initializer:
    """Calling it with a shape (and a dtype) makes the initial value in the default graph."""

    def __init__(self, dtype: Any = float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        del partition_info
        axes = TensorShape(shape).known
        if axes is None:
            raise ValueError(f"An initializer needs a full shape, not {TensorShape(shape)}.")
        return self._make(list(axes), self.dtype if dtype is None else as_dtype(dtype).base_dtype)

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        raise NotImplementedError


class Zeros(Initializer):
    """All zeros (False, or empty strings)."""

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        return zeros(shape, dtype)


class Ones(Initializer):
    """All ones (or True)."""

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        return ones(shape, dtype)


class Constant(Initializer):
    """One value for all elements, or the values in order, the last one repeated."""

    def __init__(self, value: Any = 0, dtype: Any = float32, verify_shape: bool = False) -> None:
        super().__init__(dtype)
        del verify_shape
        self.value = value

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        return constant_op(self.value, dtype, shape)


class RandomUniform(Initializer):
    """Evenly distributed values in [minval, maxval)."""

    def __init__(
        self, minval: Any = 0.0, maxval: Any = None, seed: int | None = None, dtype: Any = float32
    ) -> None:
        super().__init__(dtype)
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        return random_uniform(shape, self.minval, self.maxval, dtype, self.seed)


class RandomNormal(Initializer):
    """Normally distributed values."""

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = float32
    ) -> None:
        super().__init__(dtype)
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        return random_normal(shape, self.mean, self.stddev, dtype, self.seed)


class TruncatedNormal(RandomNormal):
    """Normally distributed values, none further than two standard deviations from the mean."""

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        return truncated_normal(shape, self.mean, self.stddev, dtype, self.seed)


_STDDEV_OF_TRUNCATED = 0.87962566103423978
"""The standard deviation of a standard normal distribution cut off at two of its own."""


class VarianceScaling(Initializer):
    """Random values whose spread follows from how many inputs and outputs the variable joins.

    `mode` is "fan_in", "fan_out" or "fan_avg"; `distribution` "uniform", "truncated_normal"
    (also "normal") or "untruncated_normal".
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(dtype)
        kinds = ("normal", "uniform", "truncated_normal", "untruncated_normal")
        if scale <= 0:
            raise ValueError(f"Argument `scale` must be a positive float. Received: {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}; use fan_in, fan_out or fan_avg.")
        if distribution not in kinds:
            raise ValueError(
                f"Invalid `distribution` argument: {distribution}; use one of {', '.join(kinds)}."
            )
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        fan_in, fan_out = fans(shape)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
        scale = self.scale / max(1.0, count[self.mode])
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * scale)
            return random_uniform(shape, -limit, limit, dtype, self.seed)
        if self.distribution == "untruncated_normal":
            return random_normal(shape, 0.0, math.sqrt(scale), dtype, self.seed)
        stddev = math.sqrt(scale) / _STDDEV_OF_TRUNCATED
        return truncated_normal(shape, 0.0, stddev, dtype, self.seed)


class GlorotUniform(VarianceScaling):
    """Evenly distributed, scaled by inputs and outputs: what `get_variable` uses by default."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """Normally distributed, scaled by inputs and outputs."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


class Orthogonal(Initializer):
    """A matrix whose rows or columns, whichever are fewer, are at right angles and of length 1.

    All axes but the last are taken as one.
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(dtype)
        self.gain, self.seed = gain, seed

    def _make(self, shape: list[int], dtype: DType) -> Tensor:
        if len(shape) < 2:
            raise ValueError(
                f"The tensor to initialize, of shape {shape}, must be at least two-dimensional."
            )
        rows, columns = math.prod(shape[:-1]), shape[-1]
        size = (max(rows, columns), min(rows, columns))
        q, r = qr(random_normal(size, dtype=dtype, seed=self.seed))
        # So the matrix is evenly distributed among all that are orthogonal.
        matrix = q * sign(matrix_diag_part(r))
        if rows < columns:
            matrix = matrix_transpose(matrix)
        return self.gain * reshape(matrix, shape)


def he_normal(seed: int | None = None) -> VarianceScaling:
    """Normally distributed, scaled by the inputs: for layers of rectifiers."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Evenly distributed, scaled by the inputs: for layers of rectifiers."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Normally distributed, scaled by the inputs."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Evenly distributed, scaled by the inputs."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs and outputs a variable of that shape joins; the last two axes are them."""
    if not shape:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    receptive = math.prod(shape[:-2])
    return receptive * shape[-2], receptive * shape[-1]


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_uniform_initializer = RandomUniform
random_normal_initializer = RandomNormal
truncated_normal_initializer = TruncatedNormal
variance_scaling_initializer = VarianceScaling
glorot_uniform_initializer = GlorotUniform
glorot_normal_initializer = GlorotNormal
orthogonal_initializer = Orthogonal
