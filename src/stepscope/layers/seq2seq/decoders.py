"""Encoders and decoders that are unrolled in the graph: `tf.contrib.legacy_seq2seq`.

Inputs are lists, a tensor (batch, width) or (batch) of ids a step. A loop function makes the input
of a step of what the step before gave out: so a trained decoder goes on by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import float32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.layers.rnn import static_rnn
from stepscope.layers.rnn_wrappers import EmbeddingWrapper, OutputProjectionWrapper
from stepscope.layers.seq2seq.sequence_losses import sequence_loss, sequence_loss_by_example
from stepscope.layers.text.embeddings import embedding_lookup
from stepscope.layers.variable_scope import get_variable, get_variable_scope, variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays.conversion import stop_gradient
from stepscope.ops.flow.conditionals import cond
from stepscope.ops.math.scans import argmax
from stepscope.ops.nn.layer_parts import xw_plus_b

LoopFunction = Callable[[Any, int], Any]
Decoded = tuple[list[Any], Any]
"""The outputs of all steps, and the last state."""


def rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    loop_function: LoopFunction | None = None,
    scope: Any = None,
) -> Decoded:
    """A cell applied to one input after the other, from a given state on.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(4)
    ...     outputs, state = tf.contrib.legacy_seq2seq.rnn_decoder(
    ...         [tf.zeros([2, 3])] * 5, cell.zero_state(2, tf.float32), cell
    ...     )
    ...     print(len(outputs), outputs[0].shape)
    5 (2, 4)
    """
    with variable_scope(scope or "rnn_decoder"):
        state, outputs = initial_state, list[Any]()
        for number, given in enumerate(decoder_inputs):
            value = given
            if loop_function is not None and outputs:
                with variable_scope("loop_function", reuse=True):
                    value = loop_function(outputs[-1], number)
            if number:
                get_variable_scope().reuse_variables()
            output, state = cell(value, state)
            outputs.append(output)
    return outputs, state


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    dtype: Any = float32,
    scope: Any = None,
) -> Decoded:
    """An encoder, and a decoder with weights of its own that begins with the encoder's last state.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     steps = [tf.zeros([2, 3])] * 5
    ...     outputs, state = tf.contrib.legacy_seq2seq.basic_rnn_seq2seq(
    ...         steps, steps, tf.nn.rnn_cell.GRUCell(4)
    ...     )
    ...     for variable in tf.trainable_variables()[::4]:
    ...         print(variable.op.name)
    basic_rnn_seq2seq/rnn/gru_cell/gates/kernel
    basic_rnn_seq2seq/rnn_decoder/gru_cell/gates/kernel
    """
    with variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    loop_function: LoopFunction | None = None,
    dtype: Any = float32,
    scope: Any = None,
) -> Decoded:
    """As `basic_rnn_seq2seq`, with the same weights in encoder and decoder.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     steps = [tf.zeros([2, 3])] * 5
    ...     outputs, state = tf.contrib.legacy_seq2seq.tied_rnn_seq2seq(
    ...         steps, steps, tf.nn.rnn_cell.GRUCell(4)
    ...     )
    ...     len(tf.trainable_variables())
    4
    """
    with variable_scope("combined_tied_rnn_seq2seq"):
        inner = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=inner)
        get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope=inner)


def best_embedded(embedding: Any, output_projection: Any, learning: bool) -> LoopFunction:
    """A loop function: the embedding of the likeliest symbol of the step before."""

    def loop_function(previous: Any, _number: int) -> Any:
        if output_projection is not None:
            previous = xw_plus_b(previous, output_projection[0], output_projection[1])
        embedded = embedding_lookup(embedding, argmax(previous, 1))
        return embedded if learning else stop_gradient(embedded)

    return loop_function


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> Decoded:
    """`rnn_decoder` on ids, whose rows of a new table are the inputs.

    With `feed_previous` only the first id counts, and then the likeliest symbol of each output.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(9)
    ...     outputs, state = tf.contrib.legacy_seq2seq.embedding_rnn_decoder(
    ...         [tf.zeros([2], tf.int32)] * 5, cell.zero_state(2, tf.float32), cell, 9, 3
    ...     )
    ...     print(outputs[0].shape)
    (2, 9)
    """
    with variable_scope(scope or "embedding_rnn_decoder"):
        if output_projection is not None:
            _check_projection(output_projection, num_symbols)
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        loop = (
            best_embedded(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        inputs = [embedding_lookup(embedding, ids) for ids in decoder_inputs]
        return rnn_decoder(inputs, initial_state, cell, loop)


def _check_projection(projection: Any, symbols: int) -> None:
    weights, biases = (convert_to_tensor(part) for part in projection)
    if not weights.shape.is_compatible_with([None, symbols]):
        raise ValueError(f"The output projection must be to {symbols} symbols: {weights.shape}")
    if not biases.shape.is_compatible_with([symbols]):
        raise ValueError(f"The biases of the output projection must be {symbols}: {biases.shape}")


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """`basic_rnn_seq2seq` on ids: outputs are logits, or to be projected by `output_projection`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     ids = [tf.zeros([2], tf.int32)] * 5
    ...     outputs, state = tf.contrib.legacy_seq2seq.embedding_rnn_seq2seq(
    ...         ids, ids, tf.nn.rnn_cell.GRUCell(4), 7, 9, 3
    ...     )
    ...     print(outputs[0].shape)
    (2, 9)
    """
    with variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as entered:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=entered.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(feeding: bool) -> Decoded:
            return embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols, embedding_size,
                output_projection, feeding, update_embedding_for_previous=False,
            )  # fmt: skip

        return either_way(feed_previous, decode, state)


def either_way(feeding: Any, decode: Callable[[bool], Decoded], state: Any) -> Decoded:
    """The decoder with or without its own outputs as inputs; a tensor decides it in each run."""
    if not isinstance(feeding, Tensor):
        return decode(bool(feeding))

    def flat(way: bool) -> list[Any]:
        with variable_scope(get_variable_scope(), reuse=None if way else True):
            outputs, last = decode(way)
        return [*outputs, *structures.leaves(last)]

    found = cond(feeding, lambda: flat(True), lambda: flat(False))
    count = len(found) - len(structures.leaves(state))
    return list(found[:count]), structures.packed(state, found[count:])


def model_with_buckets(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Sequence[Any], Sequence[Any]], Decoded],
    softmax_loss_function: Any = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[Any], list[Any]]:
    """A model for each (input, output) length, of one set of weights: (all outputs, all losses).

    >>> import stepscope.tf1 as tf
    >>> seq2seq = tf.contrib.legacy_seq2seq
    >>> with tf.Graph().as_default():
    ...     ids, ones = [tf.zeros([2], tf.int32)] * 5, [tf.ones([2])] * 5
    ...     cell = tf.nn.rnn_cell.GRUCell(4)
    ...     outputs, losses = seq2seq.model_with_buckets(
    ...         ids, ids, ids, ones, [(2, 3), (5, 5)],
    ...         lambda x, y: seq2seq.embedding_rnn_seq2seq(x, y, cell, 7, 9, 3),
    ...     )
    ...     print([len(found) for found in outputs], len(losses))
    [3, 5] 2
    """
    longest = max(buckets, key=lambda bucket: bucket[1])
    for what, given, needed in (
        ("encoder_inputs", encoder_inputs, max(length for length, _ in buckets)),
        ("targets", targets, longest[1]), ("weights", weights, longest[1]),
    ):  # fmt: skip
        if len(given) < needed:
            raise ValueError(
                f"Length of {what} ({len(given)}) must be at least that of the longest bucket, "
                f"{needed}."
            )
    outputs, losses = [], []
    cost = sequence_loss_by_example if per_example_loss else sequence_loss
    with name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets]):
        for number, (before, after) in enumerate(buckets):
            with variable_scope(get_variable_scope(), reuse=True if number else None):
                found, _ = seq2seq(encoder_inputs[:before], decoder_inputs[:after])
            outputs.append(found)
            losses.append(
                cost(
                    found,
                    targets[:after],
                    weights[:after],
                    softmax_loss_function=softmax_loss_function,
                )
            )
    return outputs, losses
