"""Decoders that look at all states of the encoder: `tf.contrib.legacy_seq2seq`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import float32
from stepscope.graph.operation import Tensor
from stepscope.layers.initializers import zeros_initializer
from stepscope.layers.rnn import static_rnn
from stepscope.layers.rnn_wrappers import EmbeddingWrapper, OutputProjectionWrapper
from stepscope.layers.seq2seq.decoders import Decoded, LoopFunction, best_embedded, either_way
from stepscope.layers.text.embeddings import embedding_lookup
from stepscope.layers.variable_scope import get_variable, get_variable_scope, variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays.constants import zeros
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.joining import concat, stack
from stepscope.ops.arrays.shaping import reshape, shape
from stepscope.ops.math.matmul import matmul
from stepscope.ops.math.reductions import reduce_sum
from stepscope.ops.math.unary import tanh
from stepscope.ops.nn.activations import softmax
from stepscope.ops.nn.convolution import conv2d
from stepscope.ops.nn.layer_parts import bias_add


def linear(values: Sequence[Any], size: int) -> Tensor:
    """The values side by side, times new weights, plus new biases, in the scope they are in."""
    width = sum(value.shape.as_list()[1] for value in values)
    dtype = values[0].dtype.base_dtype
    weights = get_variable("kernel", [width, size], dtype)
    biases = get_variable("bias", [size], dtype, initializer=zeros_initializer(dtype=dtype))
    joined = values[0] if len(values) == 1 else concat(list(values), 1)
    return bias_add(matmul(joined, weights), biases)


class _Attention:
    """Weighted means of the encoder's states, by how well each fits a query; one for each head."""

    def __init__(self, states: Tensor, heads: int, dtype: Any) -> None:
        _, length, size = states.shape.as_list()
        assert size is not None
        self._length = shape(states)[1] if length is None else length
        self.size, self._dtype = size, dtype
        self._hidden = reshape(states, stack([-1, self._length, 1, size]))
        self._parts = []
        for head in range(heads):
            weights = get_variable(f"AttnW_{head}", [1, 1, size, size], dtype)
            features = conv2d(self._hidden, weights, [1, 1, 1, 1], "SAME")
            self._parts.append((features, get_variable(f"AttnV_{head}", [size], dtype)))

    def start(self, batch: Any) -> list[Tensor]:
        """What is attended to before there is a query: nothing."""
        made = [zeros(stack([batch, self.size]), self._dtype) for _ in self._parts]
        for tensor in made:
            tensor.set_shape([None, self.size])
        return made

    def __call__(self, query: Any) -> list[Tensor]:
        found = []
        parts = [cast(part, self._dtype) for part in structures.leaves(query)]
        for head, (features, fitting) in enumerate(self._parts):
            with variable_scope(f"Attention_{head}"):
                asked = reshape(linear(parts, self.size), [-1, 1, 1, self.size])
                scores = reduce_sum(fitting * tanh(features + asked), [2, 3])
                shares = cast(softmax(cast(scores, float32)), self._dtype)
                wide = reshape(shares, stack([-1, self._length, 1, 1]))
                found.append(reshape(reduce_sum(wide * self._hidden, [1, 2]), [-1, self.size]))
        return found


def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: LoopFunction | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`rnn_decoder` with attention: each step also gets a mean of states (batch, time, width).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(4)
    ...     outputs, state = tf.contrib.legacy_seq2seq.attention_decoder(
    ...         [tf.zeros([2, 3])] * 5, cell.zero_state(2, tf.float32), tf.zeros([2, 7, 6]), cell
    ...     )
    ...     print(len(outputs), outputs[0].shape)
    5 (2, 4)
    """
    attention_states = convert_to_tensor(attention_states)
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if attention_states.shape[2].value is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    width = cell.output_size if output_size is None else output_size
    with variable_scope(scope or "attention_decoder", dtype=dtype) as entered:
        attend = _Attention(attention_states, num_heads, entered.dtype)
        state, outputs = initial_state, list[Any]()
        seen = attend.start(shape(decoder_inputs[0])[0])
        if initial_state_attention:
            seen = attend(initial_state)
        for number, given in enumerate(decoder_inputs):
            if number:
                get_variable_scope().reuse_variables()
            value = given
            if loop_function is not None and outputs:
                with variable_scope("loop_function", reuse=True):
                    value = loop_function(outputs[-1], number)
            value = convert_to_tensor(value)
            size = value.shape.as_list()[1]
            if size is None:
                raise ValueError(f"Could not infer input size from input: {value.name}")
            output, state = cell(linear([value, *seen], size), state)
            again = True if number == 0 and initial_state_attention else None
            with variable_scope(get_variable_scope(), reuse=again):
                seen = attend(state)
            with variable_scope("AttnOutputProjection"):
                outputs.append(linear([output, *seen], width))
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`attention_decoder` on ids, whose rows of a new table are the inputs.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(9)
    ...     outputs, state = tf.contrib.legacy_seq2seq.embedding_attention_decoder(
    ...         [tf.zeros([2], tf.int32)] * 5, cell.zero_state(2, tf.float32),
    ...         tf.zeros([2, 7, 6]), cell, 9, 3, feed_previous=True,
    ...     )
    ...     print(outputs[0].shape)
    (2, 9)
    """
    width = cell.output_size if output_size is None else output_size
    with variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        loop = (
            best_embedded(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        inputs = [embedding_lookup(embedding, ids) for ids in decoder_inputs]
        return attention_decoder(
            inputs, initial_state, attention_states, cell, width, num_heads, loop,
            initial_state_attention=initial_state_attention,
        )  # fmt: skip


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """An encoder of ids, and a decoder of ids that looks at all of the encoder's outputs.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     ids = [tf.zeros([2], tf.int32)] * 5
    ...     outputs, state = tf.contrib.legacy_seq2seq.embedding_attention_seq2seq(
    ...         ids, ids, tf.nn.rnn_cell.BasicLSTMCell(4), 7, 9, 3
    ...     )
    ...     print(outputs[0].shape)
    (2, 9)
    """
    with variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as entered:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        encoded, state = static_rnn(encoder, encoder_inputs, dtype=entered.dtype)
        states = concat([reshape(one, [-1, 1, cell.output_size]) for one in encoded], 1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols

        def decode(feeding: bool) -> Decoded:
            return embedding_attention_decoder(
                decoder_inputs, state, states, cell, num_decoder_symbols, embedding_size,
                num_heads, output_size, output_projection, feeding,
                update_embedding_for_previous=False,
                initial_state_attention=initial_state_attention,
            )  # fmt: skip

        return either_way(feed_previous, decode, state)
