"""Decoders in a loop, with and without attention, beside the same steps done by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf

SEQ = tf.contrib.seq2seq
RANDOM = np.random.default_rng(2)
STEPS = RANDOM.normal(size=(3, 5, 4)).astype("float32")
MEMORY = RANDOM.normal(size=(3, 7, 6)).astype("float32")
LENGTHS = [5, 2, 4]


def run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        tf.set_random_seed(4)
        yield made


def test_in_training_it_is_a_dynamic_rnn() -> None:
    cell = tf.nn.rnn_cell.BasicLSTMCell(6)
    wanted, last = tf.nn.dynamic_rnn(cell, STEPS, LENGTHS, dtype=tf.float32, scope="decoder")
    helper = SEQ.TrainingHelper(STEPS, LENGTHS)
    decoder = SEQ.BasicDecoder(cell, helper, cell.zero_state(3, tf.float32))
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        outputs, state, lengths = SEQ.dynamic_decode(decoder, impute_finished=True)
    assert outputs.rnn_output.shape.as_list() == [3, None, 6]
    found = run([outputs, state, lengths, wanted, last])
    np.testing.assert_allclose(found[0].rnn_output, found[3], rtol=1e-6)
    np.testing.assert_allclose(found[1], found[4], rtol=1e-6)
    assert found[2].tolist() == LENGTHS
    inside = np.arange(5) < np.array(LENGTHS)[:, None]
    wanted_ids = np.where(inside, found[3].argmax(2), 0)
    assert found[0].sample_id.tolist() == wanted_ids.tolist()
    names = [v.op.name for v in tf.trainable_variables()]
    assert names == ["decoder/basic_lstm_cell/kernel", "decoder/basic_lstm_cell/bias"]


def test_a_layer_behind_the_cell_and_time_first() -> None:
    cell = tf.nn.rnn_cell.GRUCell(6)
    helper = SEQ.TrainingHelper(STEPS.transpose(1, 0, 2), LENGTHS, time_major=True)
    layer = tf.layers.Dense(9, name="words")
    decoder = SEQ.BasicDecoder(cell, helper, cell.zero_state(3, tf.float32), layer)
    assert decoder.output_size == SEQ.BasicDecoderOutput(tf.TensorShape([9]), tf.TensorShape([]))
    outputs, _, _ = SEQ.dynamic_decode(decoder, output_time_major=True, maximum_iterations=3)
    found = run(outputs)
    assert found.rnn_output.shape == (3, 3, 9)
    assert tf.trainable_variables()[-1].op.name == "decoder/words/bias"


def test_a_greedy_decoder_reads_what_it_said() -> None:
    table = tf.get_variable("table", [8, 4], initializer=tf.random_normal_initializer(seed=1))
    cell = tf.nn.rnn_cell.BasicRNNCell(8)
    helper = SEQ.GreedyEmbeddingHelper(table, [1, 2, 3], 0)
    decoder = SEQ.BasicDecoder(cell, helper, cell.zero_state(3, tf.float32))
    outputs, _, lengths = SEQ.dynamic_decode(decoder, maximum_iterations=6)
    variables = [table, *tf.trainable_variables("decoder")]
    rows, kernel, bias, said, long = run([*variables, outputs.sample_id, lengths])
    ids, state = np.array([1, 2, 3]), np.zeros((3, 8), "float32")
    wanted, ended = [], np.full(3, 6)
    for step in range(said.shape[1]):
        state = np.tanh(np.concatenate([rows[ids], state], 1) @ kernel + bias)
        ids = state.argmax(1)
        wanted.append(ids)
        ended = np.where((ids == 0) & (ended == 6), step + 1, ended)
    assert said.tolist() == np.array(wanted).T.tolist()
    assert long.tolist() == ended.tolist()


def test_samples_are_of_the_logits() -> None:
    cell = tf.nn.rnn_cell.GRUCell(8)
    helper = SEQ.SampleEmbeddingHelper(tf.eye(8) * 2, [1, 2], 0, softmax_temperature=1e-7, seed=3)
    decoder = SEQ.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
    outputs, _, _ = SEQ.dynamic_decode(decoder, maximum_iterations=4)
    found = run(outputs)
    assert found.sample_id.tolist() == found.rnn_output.argmax(2).tolist()


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_scheduled_sampling(probability: float) -> None:
    helper = SEQ.ScheduledEmbeddingTrainingHelper(
        STEPS, LENGTHS, lambda ids: tf.one_hot(ids, 4), probability, seed=1, scheduling_seed=2
    )
    cell = tf.nn.rnn_cell.GRUCell(4)
    decoder = SEQ.BasicDecoder(cell, helper, cell.zero_state(3, tf.float32))
    outputs, _, _ = SEQ.dynamic_decode(decoder)
    chosen = run(outputs.sample_id)
    assert bool((chosen == -1).all()) is (probability == 0)
    assert bool((chosen >= 0).all()) is (probability == 1)


def test_a_helper_of_functions() -> None:
    cell = tf.nn.rnn_cell.GRUCell(4)
    helper = SEQ.CustomHelper(
        lambda: (tf.fill([2], False), tf.zeros([2, 4])),
        lambda time, outputs, state: tf.fill([2], time),
        lambda time, outputs, state, sample_ids: (sample_ids >= 2, outputs, state),
    )
    decoder = SEQ.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
    outputs, _, lengths = SEQ.dynamic_decode(decoder)
    found = run([outputs.sample_id, lengths])
    assert found[0].tolist() == [[0, 1, 2]] * 2
    assert found[1].tolist() == [3, 3]


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


@pytest.mark.parametrize("scale", [False, True])
def test_luong_attention(scale: bool) -> None:
    attention = SEQ.LuongAttention(4, MEMORY, LENGTHS, scale=scale)
    query = STEPS[:, 0]
    alignments, _ = attention(tf.constant(query), None)
    kernel, *_ = variables = tf.trainable_variables()
    found, weights = run([alignments, kernel])
    assert [v.op.name for v in variables] == [
        "memory_layer/kernel", *(["luong_attention/attention_g"] if scale else [])
    ]  # fmt: skip
    inside = np.arange(7) < np.array(LENGTHS)[:, None]
    scores = np.einsum("bu,btu->bt", query, MEMORY @ weights)
    np.testing.assert_allclose(found, softmax(np.where(inside, scores, -np.inf)), atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_bahdanau_attention(normalize: bool) -> None:
    attention = SEQ.BahdanauAttention(5, MEMORY, normalize=normalize)
    query = STEPS[:, 0]
    alignments, _ = attention(tf.constant(query), None)
    variables = tf.trainable_variables()
    names = ["memory_layer/kernel", "query_layer/kernel", "attention_v"]
    names += ["attention_g", "attention_b"] if normalize else []
    assert [v.op.name.removeprefix("bahdanau_attention/") for v in variables] == names
    found, keys, queries, fitting, *_ = run([alignments, *variables])
    if normalize:
        fitting = np.sqrt(1 / 5) * fitting / np.linalg.norm(fitting)
    scores = np.tanh(MEMORY @ keys + (query @ queries)[:, None]) @ fitting
    np.testing.assert_allclose(found, softmax(scores), atol=1e-6)


def test_a_decoder_with_attention_learns_to_copy() -> None:
    """As translation programs have it: an encoder, attention to all of its outputs, a decoder."""
    words = RANDOM.integers(1, 6, (16, 5))
    table = tf.get_variable("table", [6, 8])
    encoded, last = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(16), tf.nn.embedding_lookup(table, words), dtype=tf.float32
    )
    cell = SEQ.AttentionWrapper(
        tf.nn.rnn_cell.GRUCell(16), SEQ.BahdanauAttention(16, encoded), 16, alignment_history=True
    )
    start = cell.zero_state(16, tf.float32).clone(cell_state=last)
    shifted = np.concatenate([np.zeros((16, 1), int), words[:, :-1]], 1)
    helper = SEQ.TrainingHelper(tf.nn.embedding_lookup(table, shifted), np.full(16, 5))
    decoder = SEQ.BasicDecoder(cell, helper, start, tf.layers.Dense(6, use_bias=False))
    outputs, state, _ = SEQ.dynamic_decode(decoder, impute_finished=True)
    loss = SEQ.sequence_loss(outputs.rnn_output, tf.constant(words), tf.ones([16, 5]))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    history = state.alignment_history.stack()
    names = {v.op.name for v in tf.trainable_variables()}
    assert {
        "memory_layer/kernel", "decoder/attention_wrapper/attention_layer/kernel",
        "decoder/attention_wrapper/bahdanau_attention/attention_v",
        "decoder/attention_wrapper/gru_cell/gates/kernel", "decoder/dense/kernel",
    } <= names  # fmt: skip
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(60):
            session.run(train)
        after, shares = session.run([loss, history])
    assert after < before / 2
    assert shares.shape == (5, 16, 5)
    np.testing.assert_allclose(shares.sum(2), 1, rtol=1e-5)


def test_two_memories_without_a_layer() -> None:
    cell = SEQ.AttentionWrapper(
        tf.nn.rnn_cell.BasicLSTMCell(4),
        [SEQ.LuongAttention(4, MEMORY), SEQ.BahdanauAttention(3, MEMORY[:, :2])],
        output_attention=False,
    )
    assert (cell.output_size, cell.state_size.attention) == (4, 12)
    output, state = cell(tf.constant(STEPS[:, 0]), cell.zero_state(3, tf.float32))
    found, shares, time = run([output, state.alignments, state.time])
    assert found.shape == (3, 4)
    assert [share.shape for share in shares] == [(3, 7), (3, 2)]
    assert time == 1


def test_arguments_are_checked() -> None:
    cell = tf.nn.rnn_cell.GRUCell(4)
    with pytest.raises(TypeError, match="helper must be a Helper"):
        SEQ.BasicDecoder(cell, "helper", None)
    with pytest.raises(TypeError, match="Expected decoder to be type Decoder"):
        SEQ.dynamic_decode(cell)
    with pytest.raises(ValueError, match="sequence_length to be a vector"):
        SEQ.TrainingHelper(STEPS, 5)
    with pytest.raises(ValueError, match="end_token must be a scalar"):
        SEQ.GreedyEmbeddingHelper(tf.eye(2), [1], [0])
    with pytest.raises(ValueError, match="num_units to the query's dimension"):
        SEQ.LuongAttention(3, MEMORY)(tf.zeros([3, 4]), None)
    helper = SEQ.TrainingHelper(STEPS, LENGTHS)
    decoder = SEQ.BasicDecoder(cell, helper, tf.zeros([3, 4]), tf.layers.Flatten())
    with pytest.raises(NotImplementedError, match="compute_output_shape"):
        SEQ.dynamic_decode(decoder)
