"""Cells that look at a memory: `tf.contrib.seq2seq.AttentionWrapper` and its mechanisms.

A mechanism holds the memory, [batch, time, width], and says how well each time fits a query. The
wrapped cell reads its inputs beside what was attended to before; what is attended to then is the
mean of the memory by these shares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import as_dtype, float32, int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.layers.dense import Dense
from stepscope.layers.initializers import constant_initializer, ones_initializer, zeros_initializer
from stepscope.layers.rnn import check_cell
from stepscope.layers.rnn_cells import RNNCell, batch_size_of, zero_state
from stepscope.layers.variable_scope import get_variable, variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays.constants import ones_like, zeros
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.arrays.joining import concat
from stepscope.ops.arrays.masks import sequence_mask
from stepscope.ops.arrays.shaping import expand_dims, squeeze
from stepscope.ops.flow.tensor_array import TensorArray
from stepscope.ops.math.comparison import where
from stepscope.ops.math.matmul import matmul
from stepscope.ops.math.reductions import reduce_sum
from stepscope.ops.math.unary import rsqrt, square, tanh
from stepscope.ops.nn.activations import softmax


class AttentionMechanism:
    """A memory, its keys, and the shares of its times for a query; subclasses have `score`.

    Times beyond `memory_sequence_length` are zeros and get no share.
    """

    def __init__(
        self,
        memory: Any,
        memory_sequence_length: Any,
        probability_fn: Callable[[Tensor], Tensor] | None,
        score_mask_value: float | None,
        memory_layer: Dense,
        name: str,
    ) -> None:
        self._probability = probability_fn or softmax
        with name_scope(name, f"{type(self).__name__}Init", [memory]):
            self.values = convert_to_tensor(memory, name="memory")
            if self.values.shape.rank is None or self.values.shape.as_list()[-1] is None:
                raise ValueError(
                    f"Expected memory {self.values.name} to have fully defined inner dims, but saw "
                    f"shape: {self.values.shape}"
                )
            self._inside: Tensor | None = None
            if memory_sequence_length is not None:
                lengths = convert_to_tensor(memory_sequence_length)
                self._inside = sequence_mask(lengths, batch_size_of(self.values, 1))
                mask = expand_dims(cast(self._inside, self.values.dtype), 2)
                self.values = self.values * mask
            self._mask_value = -math.inf if score_mask_value is None else score_mask_value
            self.keys = memory_layer(self.values)
        self.batch_size = batch_size_of(self.keys)
        self.alignments_size = batch_size_of(self.keys, 1)

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def state_size(self) -> Any:
        return self.alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """No share for any time."""
        size = self.alignments_size
        if isinstance(size, int):
            made: Tensor = zero_state(size, batch_size, dtype)
            return made
        made = zeros(convert_to_tensor([batch_size, size]), dtype)
        made.set_shape([batch_size if isinstance(batch_size, int) else None, None])
        return made

    initial_state = initial_alignments

    def __call__(self, query: Tensor, state: Any) -> tuple[Tensor, Any]:
        del state
        score = self.score(query)
        if self._inside is not None:
            score = where(self._inside, score, self._mask_value * ones_like(score))
        alignments = self._probability(score)
        return alignments, alignments

    def score(self, query: Tensor) -> Tensor:
        """How well each time fits: [batch, time]."""
        raise NotImplementedError


class LuongAttention(AttentionMechanism):
    """How well a time fits is the product of its key and the query (Luong, 2015).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     attention = tf.contrib.seq2seq.LuongAttention(4, tf.zeros([2, 7, 6]), [7, 5])
    ...     print(attention(tf.zeros([2, 4]), None)[0].shape)
    (2, 7)
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "LuongAttention",
    ) -> None:
        layer = Dense(num_units, use_bias=False, name="memory_layer", dtype=dtype or float32)
        super().__init__(
            memory, memory_sequence_length, probability_fn, score_mask_value, layer, name
        )
        self._scale = scale

    def score(self, query: Tensor) -> Tensor:
        with variable_scope(None, "luong_attention", [query]):
            wide, own = query.shape.as_list()[-1], self.keys.shape.as_list()[-1]
            if wide != own:
                raise ValueError(
                    "Incompatible or unknown inner dimensions between query and keys.  Query "
                    f"({query.name}) has units: {wide}.  Keys ({self.keys.name}) have units: {own}."
                    f"  Perhaps you need to set num_units to the query's dimension ({wide})?"
                )
            score = squeeze(matmul(expand_dims(query, 1), self.keys, transpose_b=True), [1])
            if self._scale:
                dtype = query.dtype.base_dtype
                score = get_variable("attention_g", [], dtype, ones_initializer()) * score
            return score


class BahdanauAttention(AttentionMechanism):
    """How well a time fits is learned: the sum of v * tanh(key + query) (Bahdanau, 2014).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     attention = tf.contrib.seq2seq.BahdanauAttention(4, tf.zeros([2, 7, 6]))
    ...     print(attention(tf.zeros([2, 3]), None)[0].shape)
    (2, 7)
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "BahdanauAttention",
    ) -> None:
        kind = dtype or float32
        layer = Dense(num_units, use_bias=False, name="memory_layer", dtype=kind)
        super().__init__(
            memory, memory_sequence_length, probability_fn, score_mask_value, layer, name
        )
        self.query_layer = Dense(num_units, use_bias=False, name="query_layer", dtype=kind)
        self._units, self._normalize = num_units, normalize

    def score(self, query: Tensor) -> Tensor:
        with variable_scope(None, "bahdanau_attention", [query]):
            asked = expand_dims(self.query_layer(query), 1)
            dtype = query.dtype.base_dtype
            fitting = get_variable("attention_v", [self._units], dtype)
            if not self._normalize:
                return reduce_sum(fitting * tanh(self.keys + asked), [2])
            start = constant_initializer(math.sqrt(1.0 / self._units))
            long = get_variable("attention_g", [], dtype, start)
            offset = get_variable("attention_b", [self._units], dtype, zeros_initializer())
            normed = long * fitting * rsqrt(reduce_sum(square(fitting)))
            return reduce_sum(normed * tanh(self.keys + asked + offset), [2])


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`; of several mechanisms the last three are tuples."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **overrides: Any) -> Self:
        """This state with other parts, for a decoder that begins with the encoder's last state.

        >>> AttentionWrapperState(*"abcdef").clone(cell_state="x").cell_state
        'x'
        """
        return self._replace(**overrides)


class AttentionWrapper(RNNCell):
    """A cell that attends to a memory, or to several.

    >>> import stepscope.tf1 as tf
    >>> seq2seq = tf.contrib.seq2seq
    >>> with tf.Graph().as_default():
    ...     memory = tf.zeros([2, 7, 6])
    ...     cell = seq2seq.AttentionWrapper(
    ...         tf.nn.rnn_cell.GRUCell(4), seq2seq.LuongAttention(4, memory), 5
    ...     )
    ...     output, state = cell(tf.zeros([2, 3]), cell.zero_state(2, tf.float32))
    ...     print(output.shape, state.alignments.shape)
    (2, 5) (2, 7)
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_cell(cell)
        self._many = isinstance(attention_mechanism, (list, tuple))
        self._mechanisms: list[AttentionMechanism] = (
            list(attention_mechanism) if self._many else [attention_mechanism]
        )
        for mechanism in self._mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise TypeError(
                    "attention_mechanism must be an AttentionMechanism or a list of them, not "
                    f"{type(mechanism).__name__}"
                )
        self._layers = self._made_layers(attention_layer_size)
        widths = [
            int(mechanism.values.shape.as_list()[-1] or 0) if layer is None else layer.units
            for mechanism, layer in zip(self._mechanisms, self._layers, strict=True)
        ]
        self._attention_size = sum(widths)
        self._cell, self._initial_cell_state = cell, initial_cell_state
        self._join = cell_input_fn or (lambda inputs, seen: concat([inputs, seen], -1))
        self._output_attention, self._history = output_attention, alignment_history

    def _made_layers(self, sizes: Any) -> list[Dense | None]:
        if sizes is None:
            return [None] * len(self._mechanisms)
        given = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
        if len(given) != len(self._mechanisms):
            raise ValueError(
                "If provided, attention_layer_size must contain exactly one integer per "
                f"attention_mechanism, saw: {len(given)} vs {len(self._mechanisms)}"
            )
        return [
            Dense(size, use_bias=False, name="attention_layer", dtype=mechanism.dtype)
            for size, mechanism in zip(given, self._mechanisms, strict=True)
        ]

    def _of_mechanisms(self, parts: Sequence[Any]) -> Any:
        return tuple(parts) if self._many else parts[0]

    @property
    def output_size(self) -> Any:
        return self._attention_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        sizes = self._of_mechanisms([m.alignments_size for m in self._mechanisms])
        return AttentionWrapperState(
            self._cell.state_size, self._attention_size, (), sizes,
            self._of_mechanisms([()] * len(self._mechanisms)), sizes,
        )  # fmt: skip

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """Nothing attended to yet; the wrapped cell's state is zero, or the one it was given."""
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            own = self._initial_cell_state
            if own is None:
                own = self._cell.zero_state(batch_size, dtype)
            shares = [m.initial_alignments(batch_size, dtype) for m in self._mechanisms]
            states = [m.initial_state(batch_size, dtype) for m in self._mechanisms]
            histories = [
                TensorArray(as_dtype(dtype), 0, dynamic_size=True, element_shape=share.shape)
                if self._history
                else ()
                for share in shares
            ]
            return AttentionWrapperState(
                cell_state=structures.mapped(lambda s: identity(s, "checked_cell_state"), own),
                attention=zero_state(self._attention_size, batch_size, dtype),
                time=zeros([], int32),
                alignments=self._of_mechanisms(shares),
                alignment_history=self._of_mechanisms(histories),
                attention_state=self._of_mechanisms(states),
            )

    def call(
        self, inputs: Any, state: Any = None, **_more: Any
    ) -> tuple[Any, AttentionWrapperState]:
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                "Expected state to be instance of AttentionWrapperState. Received type "
                f"{type(state)} instead."
            )
        output, own = self._cell(self._join(inputs, state.attention), state.cell_state)
        before, histories = (
            list(part) if self._many else [part]
            for part in (state.attention_state, state.alignment_history)
        )
        seen, shares, after = [], [], []
        for mechanism, layer, earlier in zip(self._mechanisms, self._layers, before, strict=True):
            alignments, following = mechanism(output, earlier)
            context = squeeze(matmul(expand_dims(alignments, 1), mechanism.values), [1])
            seen.append(context if layer is None else layer(concat([output, context], 1)))
            shares.append(alignments)
            after.append(following)
        if self._history:
            histories = [
                history.write(state.time, share)
                for history, share in zip(histories, shares, strict=True)
            ]
        attention = seen[0] if len(seen) == 1 else concat(seen, 1)
        following_state = AttentionWrapperState(
            own, attention, state.time + 1, self._of_mechanisms(shares),
            self._of_mechanisms(histories), self._of_mechanisms(after),
        )  # fmt: skip
        return (attention if self._output_attention else output), following_state
