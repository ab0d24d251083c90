"""Convolutions and pools as layers, whatever the number of axes their windows have.

Inputs are (batch, one axis or several, channels), or with `channels_first` the channels second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.dense import Activation, KernelLayer
from stepscope.layers.layer_base import Layer, channels_first, defined, window_numbers

_WIRE_ORDERS = {3: ("NWC", "NCW"), 4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}


def wire_order(rank: int, first: bool) -> str:
    """The order of axes as ops have it."""
    return _WIRE_ORDERS[rank][first]


def on_all_axes(numbers: tuple[int, ...], first: bool) -> list[int]:
    """What windows have on their own axes, with 1 for batch and channels."""
    return [1, 1, *numbers] if first else [1, *numbers, 1]


def padding_of(padding: str) -> str:
    """The padding as ops have it; ValueError if it is none."""
    wanted = padding.upper()
    if wanted not in ("SAME", "VALID"):
        raise ValueError(f'`padding` must be "valid" or "same". Received: {padding!r}')
    return wanted


class Convolution(KernelLayer):
    """activation(inputs filtered by the kernel, plus the bias); `call` filters."""

    exact_rank: ClassVar[int]

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
        self.filters, axes = int(filters), self.exact_rank - 2
        super().__init__(
            self.filters, activation, use_bias,
            (kernel_initializer, kernel_regularizer, kernel_constraint),
            (bias_initializer, bias_regularizer, bias_constraint),
            trainable, name, activity_regularizer=activity_regularizer, **more,
        )  # fmt: skip
        self.kernel_size = window_numbers(kernel_size, axes, "kernel_size")
        self.strides = window_numbers(strides, axes, "strides")
        self.dilation_rate = window_numbers(dilation_rate, axes, "dilation_rate")
        self.padding = padding_of(padding)
        self._first = channels_first(data_format)
        self._wire_order = wire_order(self.exact_rank, self._first)
        self._bias_order = wire_order(4, self._first)

    def depth_of(self, input_shape: TensorShape) -> int:
        """How many channels the inputs have."""
        return defined(input_shape, 1 if self._first else -1, type(self).__name__)

    def build(self, input_shape: TensorShape) -> None:
        self.add_kernel([*self.kernel_size, self.depth_of(input_shape), self.filters])
        self.add_bias()

    def filtered(self, op: Callable[..., Tensor], inputs: Tensor, name: str) -> Tensor:
        """The inputs through the kernel, by an op that takes strides of all axes."""
        return op(
            inputs, self.kernel, on_all_axes(self.strides, self._first), self.padding,
            data_format=self._wire_order, name=name,
            dilations=on_all_axes(self.dilation_rate, self._first),
        )  # fmt: skip


class Pool(Layer):
    """One value for each window; `call` says which."""

    exact_rank: ClassVar[int]

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
        self.pool_size = window_numbers(pool_size, self.exact_rank - 2, "pool_size")
        self.strides = window_numbers(strides, self.exact_rank - 2, "strides")
        self.padding = padding_of(padding)
        self._first = channels_first(data_format)


class WindowPool(Pool):
    """A pool by an op that takes windows over all axes."""

    pool: Any = None

    def call(self, inputs: Tensor, **_more: Any) -> Tensor:
        outputs: Tensor = type(self).pool(
            inputs, on_all_axes(self.pool_size, self._first),
            on_all_axes(self.strides, self._first), self.padding,
            data_format=wire_order(self.exact_rank, self._first),
        )  # fmt: skip
        return outputs
