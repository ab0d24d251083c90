"""The cells of `tf.nn.rnn_cell`: one step of a recurrent network.

A cell is a layer that is called with an input and a state, and gives an output and the next state.
Names, shapes and the order of gates are those of TensorFlow 1.15, so that checkpoints fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import DType, int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.clipping import clip_by_value
from stepscope.layers.initializers import constant_initializer, zeros_initializer
from stepscope.layers.layer_base import Layer, defined
from stepscope.layers.variable_scope import get_variable_scope, variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays.constants import zeros
from stepscope.ops.arrays.joining import concat, split
from stepscope.ops.math.matmul import matmul
from stepscope.ops.math.unary import tanh
from stepscope.ops.nn.activations import sigmoid
from stepscope.ops.nn.layer_parts import bias_add

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
]

Activation = Callable[[Tensor], Tensor]


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: `c`, what it remembers, and `h`, what it gave out."""

    c: Any
    h: Any

    @property
    def dtype(self) -> DType:
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype  # type: ignore[no-any-return]


class RNNCell(Layer):
    """What cells have in common. Subclasses have `state_size`, `output_size` and `call`."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None, *args: Any, **more: Any) -> Any:
        around = get_variable_scope() if scope is None else scope
        with variable_scope(around) as entered:
            return super().__call__(
                inputs, state, *args, scope=None if scope is None else entered, **more
            )

    @property
    def state_size(self) -> Any:
        """The width of the state, or a structure of widths."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """The width of the output."""
        raise NotImplementedError("Abstract method")

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros."""
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return zero_state(self.state_size, batch_size, dtype)

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        """A state of zeros for these inputs, or for this batch size and type."""
        if inputs is not None:
            tensor = convert_to_tensor(inputs)
            axes = tensor.shape.axes
            known = axes[0] if axes else None
            batch_size = known if known is not None else batch_size_of(tensor)
            dtype = tensor.dtype
        if batch_size is None or dtype is None:
            raise ValueError("get_initial_state needs inputs, or batch_size and dtype.")
        return self.zero_state(batch_size, dtype)


def batch_size_of(tensor: Tensor, axis: int = 0) -> Any:
    """The length of an axis: a number where it is known, else a tensor."""
    from stepscope.ops.arrays.shaping import shape

    axes = tensor.shape.axes
    known = axes[axis] if axes is not None and len(axes) > axis else None
    return known if known is not None else shape(tensor)[axis]


def zero_state(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros for a structure of widths (or shapes), for each of a batch."""

    def one(size: Any) -> Tensor:
        axes = TensorShape([size] if isinstance(size, int) else size).as_list()
        whole: Any = [batch_size, *axes]
        if not isinstance(batch_size, int):
            whole = concat([[batch_size], convert_to_tensor(axes, int32)], 0)
        made = zeros(whole, dtype)
        made.set_shape([batch_size if isinstance(batch_size, int) else None, *axes])
        return made

    sizes = [state_size] if _is_size(state_size) else None
    if sizes is not None:
        return one(state_size)
    return structures.mapped(one, state_size)


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, TensorShape))


class _Gates(RNNCell):
    """A cell of `units` with an activation."""

    exact_rank = 2

    def __init__(
        self, num_units: int, activation: Any = None, reuse: bool | None = None,
        name: str | None = None, dtype: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(name=name, dtype=dtype, _reuse=reuse, **more)
        self._num_units = int(num_units)
        self._activation: Activation = _activation(activation)

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def _wide(self, input_shape: TensorShape) -> int:
        return defined(input_shape, -1, type(self).__name__)


def _activation(given: Any) -> Activation:
    if given is None:
        return tanh
    if isinstance(given, str):
        from stepscope.ops.math import unary
        from stepscope.ops.nn import activations

        for module in (activations, unary):
            found = getattr(module, given, None)
            if callable(found):
                return found  # type: ignore[no-any-return]
        raise ValueError(f"Unknown activation {given!r}: pass a function, such as tf.nn.relu.")
    if not callable(given):
        raise TypeError(f"An activation is a function of a tensor, not {given!r}.")
    return given  # type: ignore[no-any-return]


def _dense(inputs: Sequence[Tensor], kernel: Any, bias: Any) -> Tensor:
    return bias_add(matmul(concat(inputs, 1), kernel), bias)


class BasicRNNCell(_Gates):
    """The simplest cell: activation(inputs and state times a kernel, plus a bias)."""

    def build(self, input_shape: TensorShape) -> None:
        units = self._num_units
        self._kernel = self.add_weight("kernel", [self._wide(input_shape) + units, units])
        self._bias = self.add_weight("bias", [units], initializer=zeros_initializer())

    def call(self, inputs: Any, state: Any = None, **_more: Any) -> tuple[Tensor, Tensor]:
        output = self._activation(_dense([inputs, state], self._kernel, self._bias))
        return output, output


class GRUCell(_Gates):
    """A gated recurrent unit (Cho et al., 2014)."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: bool | None = None,
        kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None,
        dtype: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_units, activation, reuse, name, dtype, **more)
        self._starts = kernel_initializer, bias_initializer

    def build(self, input_shape: TensorShape) -> None:
        units, width = self._num_units, self._wide(input_shape) + self._num_units
        kernel, bias = self._starts
        ones = constant_initializer(1.0, dtype=self.dtype)
        zero = zeros_initializer(dtype=self.dtype) if bias is None else bias
        self._gate_kernel = self.add_weight("gates/kernel", [width, 2 * units], initializer=kernel)
        self._gate_bias = self.add_weight(
            "gates/bias", [2 * units], initializer=ones if bias is None else bias
        )
        self._candidate_kernel = self.add_weight(
            "candidate/kernel", [width, units], initializer=kernel
        )
        self._candidate_bias = self.add_weight("candidate/bias", [units], initializer=zero)

    def call(self, inputs: Any, state: Any = None, **_more: Any) -> tuple[Tensor, Tensor]:
        gates = sigmoid(_dense([inputs, state], self._gate_kernel, self._gate_bias))
        reset, update = split(gates, 2, 1)
        candidate = self._activation(
            _dense([inputs, reset * state], self._candidate_kernel, self._candidate_bias)
        )
        output = update * state + (1 - update) * candidate
        return output, output


class _LSTM(_Gates):
    """A cell with a state of two parts."""

    def __init__(
        self, num_units: int, forget_bias: float, state_is_tuple: bool, activation: Any,
        reuse: bool | None, name: str | None, dtype: Any, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_units, activation, reuse, name, dtype, **more)
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        width = self.output_size
        if self._state_is_tuple:
            return LSTMStateTuple(self._num_units, width)
        return self._num_units + width

    def _parts(self, state: Any) -> tuple[Tensor, Tensor]:
        if self._state_is_tuple:
            c, h = state
        elif self.output_size == self._num_units:
            c, h = split(state, 2, 1)
        else:
            c, h = split(state, [self._num_units, self.output_size], 1)
        return c, h

    def _packed(self, c: Tensor, h: Tensor) -> Any:
        return LSTMStateTuple(c, h) if self._state_is_tuple else concat([c, h], 1)


class BasicLSTMCell(_LSTM):
    """A long short-term memory (Zaremba et al., 2014): no peepholes, no projection."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True,
        activation: Any = None, reuse: bool | None = None, name: str | None = None,
        dtype: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            num_units, forget_bias, state_is_tuple, activation, reuse, name, dtype, **more
        )

    def build(self, input_shape: TensorShape) -> None:
        units = self._num_units
        self._kernel = self.add_weight("kernel", [self._wide(input_shape) + units, 4 * units])
        self._bias = self.add_weight(
            "bias", [4 * units], initializer=zeros_initializer(dtype=self.dtype)
        )

    def call(self, inputs: Any, state: Any = None, **_more: Any) -> tuple[Tensor, Any]:
        c, h = self._parts(state)
        gates = _dense([inputs, h], self._kernel, self._bias)
        given, new, forget, out = split(gates, 4, 1)
        keep = sigmoid(forget + self._forget_bias)
        c = c * keep + sigmoid(given) * self._activation(new)
        h = self._activation(c) * sigmoid(out)
        return h, self._packed(c, h)


class LSTMCell(_LSTM):
    """A long short-term memory with peepholes, a projection and clipping where asked for."""

    def __init__(
        self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None,
        initializer: Any = None, num_proj: int | None = None, proj_clip: float | None = None,
        num_unit_shards: int | None = None, num_proj_shards: int | None = None,
        forget_bias: float = 1.0, state_is_tuple: bool = True, activation: Any = None,
        reuse: bool | None = None, name: str | None = None, dtype: Any = None, **more: Any,
    ) -> None:  # fmt: skip
        if num_unit_shards not in (None, 1) or num_proj_shards not in (None, 1):
            raise NotImplementedError(
                "LSTMCell(num_unit_shards, num_proj_shards): variables are not cut into pieces on "
                "the embedded engine. Leave them out."
            )
        super().__init__(
            num_units, forget_bias, state_is_tuple, activation, reuse, name, dtype, **more
        )
        self._use_peepholes = use_peepholes
        self._cell_clip, self._proj_clip = cell_clip, proj_clip
        self._initializer = initializer
        self._num_proj = num_proj

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, input_shape: TensorShape) -> None:
        units, start = self._num_units, self._initializer
        width = self._wide(input_shape) + self.output_size
        self._kernel = self.add_weight("kernel", [width, 4 * units], initializer=start)
        self._bias = self.add_weight(
            "bias", [4 * units], initializer=zeros_initializer(dtype=self.dtype)
        )
        if self._use_peepholes:
            self._w_f_diag = self.add_weight("w_f_diag", [units], initializer=start)
            self._w_i_diag = self.add_weight("w_i_diag", [units], initializer=start)
            self._w_o_diag = self.add_weight("w_o_diag", [units], initializer=start)
        if self._num_proj is not None:
            self._proj_kernel = self.add_weight(
                "projection/kernel", [units, self._num_proj], initializer=start
            )

    def call(self, inputs: Any, state: Any = None, **_more: Any) -> tuple[Tensor, Any]:
        c, h = self._parts(state)
        gates = _dense([inputs, h], self._kernel, self._bias)
        given, new, forget, out = split(gates, 4, 1)
        forget = forget + self._forget_bias
        if self._use_peepholes:
            forget = forget + self._w_f_diag * c
            given = given + self._w_i_diag * c
        c = sigmoid(forget) * c + sigmoid(given) * self._activation(new)
        if self._cell_clip is not None:
            c = clip_by_value(c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            out = out + self._w_o_diag * c
        h = sigmoid(out) * self._activation(c)
        if self._num_proj is not None:
            h = matmul(h, self._proj_kernel)
            if self._proj_clip is not None:
                h = clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, self._packed(c, h)


class MultiRNNCell(RNNCell):
    """Cells on top of each other: the output of one is the input of the next."""

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not isinstance(cells, (list, tuple)):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(not _is_size(cell.state_size) for cell in cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set."
            )

    @property
    def cells(self) -> list[Any]:
        return list(self._cells)

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    @property
    def trainable_variables(self) -> list[Any]:
        return [v for cell in self._cells for v in cell.trainable_variables]

    @property
    def non_trainable_variables(self) -> list[Any]:
        return [v for cell in self._cells for v in cell.non_trainable_variables]

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            if not self._state_is_tuple:
                return super().zero_state(batch_size, dtype)
            return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: Any, state: Any = None, **_more: Any) -> tuple[Tensor, Any]:
        if self._state_is_tuple:
            structures.check_same(
                self.state_size, structures.mapped(lambda _: 0, state), "The state of MultiRNNCell"
            )
            parts = list(state)
        else:
            parts = split(state, [cell.state_size for cell in self._cells], 1)
        after = []
        for number, (cell, part) in enumerate(zip(self._cells, parts, strict=True)):
            with variable_scope(f"cell_{number}"):
                inputs, part = cell(inputs, part)
                after.append(part)
        return inputs, tuple(after) if self._state_is_tuple else concat(after, 1)
