"""Cells around other cells: dropout, residual connections, a device of their own.

A wrapper has no variables and no scope: those of the cell in it are named as without it. The
projections and the embedding of `tf.contrib.rnn` are cells with a scope of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.graph import device, name_scope
from stepscope.graph.operation import Tensor
from stepscope.layers.initializers import random_uniform_initializer, zeros_initializer
from stepscope.layers.rnn_cells import LSTMStateTuple, RNNCell
from stepscope.layers.text.embeddings import embedding_lookup
from stepscope.layers.variable_scope import get_variable, get_variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays.shaping import reshape
from stepscope.ops.math.division import div
from stepscope.ops.math.matmul import matmul
from stepscope.ops.math.random import random_uniform
from stepscope.ops.math.unary import floor
from stepscope.ops.nn.layer_parts import bias_add, dropout

__all__ = [
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "InputProjectionWrapper",
    "OutputProjectionWrapper",
    "ResidualWrapper",
]


class _Wrapper(RNNCell):
    """A cell that has another one do the work."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        if not callable(cell) or not hasattr(cell, "state_size"):
            raise TypeError(f"The parameter cell is not an RNNCell: {cell!r}")
        self._cell = cell

    @property
    def wrapped_cell(self) -> Any:
        return self._cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    @property
    def trainable_variables(self) -> list[Any]:
        return list(self._cell.trainable_variables)

    @property
    def non_trainable_variables(self) -> list[Any]:
        return list(self._cell.non_trainable_variables)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None, *args: Any, **more: Any) -> Any:
        return self._wrapped(inputs, state, scope, *args, **more)

    def _wrapped(self, inputs: Any, state: Any, scope: Any, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


class DropoutWrapper(_Wrapper):
    """Drops a share of the inputs, the state and the outputs of a cell.

    With `variational_recurrent` the same elements are dropped in every step.
    """

    def __init__(
        self, cell: Any, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0, variational_recurrent: bool = False, input_size: Any = None,
        dtype: Any = None, seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(cell)
        self._keep = {
            "input": _probability("input_keep_prob", input_keep_prob),
            "state": _probability("state_keep_prob", state_keep_prob),
            "output": _probability("output_keep_prob", output_keep_prob),
        }
        self._seed = seed
        self._filter = dropout_state_filter_visitor or _all_but_memory
        self._noise: dict[str, list[Tensor]] | None = None
        if variational_recurrent:
            self._noise = self._fixed_noise(input_size, dtype)

    def _fixed_noise(self, input_size: Any, dtype: Any) -> dict[str, list[Tensor]]:
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        found: dict[str, list[Tensor]] = {}
        sizes = {"input": input_size, "state": self.state_size, "output": self.output_size}
        for what, size in sizes.items():
            if not _drops(self._keep[what]):
                continue
            if size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, "
                    "input_size must be provided"
                )
            found[what] = [
                self._noise_of(width, dtype, what, number)
                for number, width in enumerate(structures.leaves(size))
            ]
        return found

    def _noise_of(self, width: Any, dtype: Any, what: str, number: int) -> Tensor:
        lengths = [width] if isinstance(width, int) else list(width)
        return random_uniform([1, *lengths], dtype=dtype, seed=self._seed_of(what, number))

    def _seed_of(self, what: str, number: int) -> int | None:
        if self._seed is None:
            return None
        # Other numbers for each place, the same ones in each run.
        place = ("input", "state", "output").index(what)
        return (self._seed * 1009 + 31 * number + place) & 0x7FFFFFFF

    def _wrapped(self, inputs: Any, state: Any, scope: Any, *args: Any, **more: Any) -> Any:
        inputs = self._dropped("input", inputs)
        output, after = self._cell(inputs, state, scope, *args, **more)
        if _drops(self._keep["state"]):
            after = self._dropped("state", after, self._filter(after))
        return self._dropped("output", output), after

    def _dropped(self, what: str, values: Any, chosen: Any = True) -> Any:
        keep = self._keep[what]
        if not _drops(keep):
            return values
        flat = structures.leaves(values)
        drops = [chosen] * len(flat) if isinstance(chosen, bool) else structures.leaves(chosen)
        noises: list[Tensor | None] = [None] * len(flat)
        if self._noise is not None:
            noises = list(self._noise[what])
        made = []
        for number, (value, drop, noise) in enumerate(zip(flat, drops, noises, strict=True)):
            if not drop:
                made.append(value)
            elif noise is None:
                made.append(dropout(value, keep, seed=self._seed_of(what, number)))
            else:
                mask = floor(convert_to_tensor(keep, noise.dtype) + noise)
                dropped = div(value, convert_to_tensor(keep, noise.dtype)) * mask
                dropped.set_shape(value.shape)
                made.append(dropped)
        return structures.packed(values, made)


def _probability(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"Parameter {name} must be between 0 and 1: {value}")
    return float(value)


def _drops(keep: Any) -> bool:
    return isinstance(keep, Tensor) or keep < 1.0


def _all_but_memory(state: Any) -> Any:
    """What of a state is dropped: of an LSTM's not what it remembers."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(False, True)
    if isinstance(state, (list, tuple)):
        return type(state)([_all_but_memory(part) for part in state])
    return True


class ResidualWrapper(_Wrapper):
    """The output of a cell plus its input (or what `residual_fn(input, output)` gives)."""

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._residual = residual_fn or _plus

    def _wrapped(self, inputs: Any, state: Any, scope: Any, *args: Any, **more: Any) -> Any:
        outputs, after = self._cell(inputs, state, scope, *args, **more)
        return self._residual(inputs, outputs), after


def _plus(inputs: Any, outputs: Any) -> Any:
    structures.check_same(inputs, outputs, "ResidualWrapper adds inputs to outputs")
    pairs = zip(structures.leaves(inputs), structures.leaves(outputs), strict=True)
    made = []
    for given, out in pairs:
        if not given.shape.is_compatible_with(out.shape):
            raise ValueError(
                f"ResidualWrapper adds inputs to outputs: their shapes are {given.shape} and "
                f"{out.shape}. Give the cell as many units as its inputs have."
            )
        made.append(given + out)
    return structures.packed(outputs, made)


class DeviceWrapper(_Wrapper):
    """A cell on a device of its own."""

    def __init__(self, cell: Any, device: Any) -> None:
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with get_default_graph().device(self._device):
            return super().zero_state(batch_size, dtype)

    def _wrapped(self, inputs: Any, state: Any, scope: Any, *args: Any, **more: Any) -> Any:
        with get_default_graph().device(self._device):
            return self._cell(inputs, state, scope, *args, **more)


class _Projecting(RNNCell):
    """A cell around another one, with variables of its own beside that one's."""

    def __init__(self, cell: Any, reuse: bool | None = None) -> None:
        super().__init__(_reuse=reuse)
        if not callable(cell) or not hasattr(cell, "state_size"):
            raise TypeError(f"The parameter cell is not an RNNCell: {cell!r}")
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)

    def _projected(self, values: Any, size: int) -> Any:
        dtype = values.dtype.base_dtype
        kernel = get_variable("kernel", [values.shape.as_list()[1], size], dtype)
        bias = get_variable("bias", [size], dtype, initializer=zeros_initializer(dtype=dtype))
        return bias_add(matmul(values, kernel), bias)


class InputProjectionWrapper(_Projecting):
    """A cell whose inputs are projected to `num_proj` before it gets them.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     cell = tf.contrib.rnn.InputProjectionWrapper(tf.nn.rnn_cell.BasicRNNCell(4), 8)
    ...     output, state = cell(tf.zeros([2, 3]), tf.zeros([2, 4]))
    ...     print([v.shape.as_list() for v in tf.trainable_variables()])
    [[3, 8], [8], [12, 4], [4]]
    """

    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None,
        reuse: bool | None = None,
    ) -> None:  # fmt: skip
        del input_size
        super().__init__(cell, reuse)
        self._width, self._activation = num_proj, activation

    def call(self, inputs: Any, state: Any, **_more: Any) -> Any:  # type: ignore[override]
        projected = self._projected(inputs, self._width)
        return self._cell(projected if self._activation is None else self._activation(projected),
                          state)  # fmt: skip


class OutputProjectionWrapper(_Projecting):
    """A cell whose outputs are projected to `output_size`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     cell = tf.contrib.rnn.OutputProjectionWrapper(tf.nn.rnn_cell.BasicRNNCell(4), 8)
    ...     output, state = cell(tf.zeros([2, 3]), tf.zeros([2, 4]))
    ...     print(output.shape, tf.trainable_variables()[-1].op.name)
    (2, 8) output_projection_wrapper/bias
    """

    def __init__(
        self, cell: Any, output_size: int, activation: Any = None, reuse: bool | None = None
    ) -> None:
        super().__init__(cell, reuse)
        self._width, self._activation = output_size, activation

    @property
    def output_size(self) -> Any:
        return self._width

    def call(self, inputs: Any, state: Any, **_more: Any) -> Any:  # type: ignore[override]
        output, after = self._cell(inputs, state)
        projected = self._projected(output, self._width)
        return (projected if self._activation is None else self._activation(projected)), after


class EmbeddingWrapper(_Projecting):
    """A cell whose inputs are ids: it gets their rows of a new table.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     cell = tf.contrib.rnn.EmbeddingWrapper(tf.nn.rnn_cell.BasicRNNCell(4), 9, 5)
    ...     output, state = cell(tf.constant([3, 8]), tf.zeros([2, 4]))
    ...     print(tf.trainable_variables()[0].op.name, output.shape)
    embedding_wrapper/embedding (2, 4)
    """

    def __init__(
        self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None,
        reuse: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, "
                f"{embedding_size}."
            )
        self._size = [embedding_classes, embedding_size]
        self._start = initializer

    def call(self, inputs: Any, state: Any, **_more: Any) -> Any:  # type: ignore[override]
        with device("/cpu:0"):
            start = self._start or get_variable_scope().initializer
            if start is None:
                start = random_uniform_initializer(-math.sqrt(3), math.sqrt(3))
            dtype = structures.leaves(state)[0].dtype.base_dtype
            table = get_variable("embedding", self._size, dtype, initializer=start)
            embedded = embedding_lookup(table, reshape(inputs, [-1]))
        return self._cell(embedded, state)
