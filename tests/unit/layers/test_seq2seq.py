"""`tf.contrib.legacy_seq2seq`: names of variables as checkpoints have them, values, learning."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope.tf1 as tf

seq2seq = tf.contrib.legacy_seq2seq
RANDOM = np.random.default_rng(8)
STEPS = RANDOM.normal(size=(4, 2, 3)).astype("float32")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        tf.set_random_seed(4)
        yield


def names():
    return [v.op.name for v in tf.trainable_variables()]


def started():
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def inputs():
    return [tf.constant(step) for step in STEPS]


def ids(*steps):
    return [tf.constant(step, tf.int32) for step in steps]


def test_encoder_and_decoder_have_weights_of_their_own():
    outputs, state = seq2seq.basic_rnn_seq2seq(
        inputs(), inputs()[:2], tf.nn.rnn_cell.BasicRNNCell(3)
    )
    assert names() == [
        "basic_rnn_seq2seq/rnn/basic_rnn_cell/kernel",
        "basic_rnn_seq2seq/rnn/basic_rnn_cell/bias",
        "basic_rnn_seq2seq/rnn_decoder/basic_rnn_cell/kernel",
        "basic_rnn_seq2seq/rnn_decoder/basic_rnn_cell/bias",
    ]
    session = started()
    kernels = session.run(tf.trainable_variables()[::2])
    h = np.zeros((2, 3))
    for step in STEPS:
        h = np.tanh(np.concatenate([step, h], 1) @ kernels[0])
    expected = []
    for step in STEPS[:2]:
        h = np.tanh(np.concatenate([step, h], 1) @ kernels[1])
        expected.append(h)
    np.testing.assert_allclose(session.run(outputs), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(session.run(state), expected[-1], rtol=1e-5, atol=1e-6)


def test_tied_weights_and_a_loop():
    outputs, _ = seq2seq.tied_rnn_seq2seq(
        inputs(), inputs(), tf.nn.rnn_cell.BasicRNNCell(3), lambda previous, number: previous * 0.0
    )
    assert names() == [
        f"combined_tied_rnn_seq2seq/tied_rnn_seq2seq/basic_rnn_cell/{n}" for n in ("kernel", "bias")
    ]
    session = started()
    kernel = session.run(tf.trainable_variables()[0])
    found = session.run(outputs)
    np.testing.assert_allclose(found[1], np.tanh(found[0] @ kernel[3:]), rtol=1e-5, atol=1e-6)


def test_ids_in_and_logits_out():
    cell = tf.nn.rnn_cell.BasicRNNCell(3)
    outputs, _ = seq2seq.embedding_rnn_seq2seq(ids([1, 2], [0, 3]), ids([4, 1]) * 3, cell, 5, 6, 4)
    assert names() == [
        "embedding_rnn_seq2seq/rnn/embedding_wrapper/embedding",
        "embedding_rnn_seq2seq/rnn/embedding_wrapper/basic_rnn_cell/kernel",
        "embedding_rnn_seq2seq/rnn/embedding_wrapper/basic_rnn_cell/bias",
        "embedding_rnn_seq2seq/embedding_rnn_decoder/embedding",
        "embedding_rnn_seq2seq/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper/"
        "basic_rnn_cell/kernel",
        "embedding_rnn_seq2seq/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper/"
        "basic_rnn_cell/bias",
        "embedding_rnn_seq2seq/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper/kernel",
        "embedding_rnn_seq2seq/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper/bias",
    ]
    assert [o.shape.as_list() for o in outputs] == [[2, 6]] * 3


@pytest.mark.parametrize("build", [seq2seq.embedding_rnn_seq2seq,
                                   seq2seq.embedding_attention_seq2seq])  # fmt: skip
def test_a_tensor_decides_what_the_decoder_is_fed(build):
    """With its own outputs as inputs, only the first id counts."""
    feeding = tf.placeholder(tf.bool, [])
    later = tf.placeholder_with_default([4, 1], [2])
    outputs, state = build(
        ids([1, 2], [0, 3]), [*ids([4, 1]), later, later], tf.nn.rnn_cell.BasicLSTMCell(3), 5, 6, 4,
        feed_previous=feeding,
    )  # fmt: skip
    session = started()
    for fed, same in ((True, True), (False, False)):
        first, second = (session.run(outputs, {feeding: fed, later: at}) for at in ([4, 1], [0, 5]))
        np.testing.assert_array_equal(first[0], second[0])
        assert np.allclose(first[1], second[1]) == same
    assert session.run(state, {feeding: True}).c.shape == (2, 3)
    own = session.run(outputs, {feeding: True})
    told = session.run(outputs, {feeding: False, later: own[0].argmax(1)})
    np.testing.assert_allclose(own[1], told[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("at_once", [False, True])
def test_attention(at_once):
    """One step by hand: the weighted mean of the states, and the projections around the cell."""
    states = RANDOM.normal(size=(2, 5, 4)).astype("float32")
    cell = tf.nn.rnn_cell.BasicRNNCell(3)
    start = tf.constant(STEPS[3])
    outputs, _ = seq2seq.attention_decoder(
        inputs()[:2], start, states, cell, output_size=2, initial_state_attention=at_once
    )
    found = {v.op.name.removeprefix("attention_decoder/"): v for v in tf.trainable_variables()}
    assert set(found) == {
        "AttnW_0", "AttnV_0", "kernel", "bias", "basic_rnn_cell/kernel", "basic_rnn_cell/bias",
        "Attention_0/kernel", "Attention_0/bias", "AttnOutputProjection/kernel",
        "AttnOutputProjection/bias",
    }  # fmt: skip
    session = started()
    made = session.run(outputs)
    w = session.run(found)

    def seen(query):
        asked = query @ w["Attention_0/kernel"] + w["Attention_0/bias"]
        fits = (w["AttnV_0"] * np.tanh(states @ w["AttnW_0"][0, 0] + asked[:, None])).sum(-1)
        shares = np.exp(fits) / np.exp(fits).sum(1, keepdims=True)
        return (shares[..., None] * states).sum(1)

    state, attended = STEPS[3], seen(STEPS[3]) if at_once else np.zeros((2, 4))
    for step, expected in zip(STEPS[:2], made, strict=True):
        x = np.concatenate([step, attended], 1) @ w["kernel"] + w["bias"]
        state = np.tanh(
            np.concatenate([x, state], 1) @ w["basic_rnn_cell/kernel"] + w["basic_rnn_cell/bias"]
        )
        attended = seen(state)
        output = np.concatenate([state, attended], 1) @ w["AttnOutputProjection/kernel"]
        output = output + w["AttnOutputProjection/bias"]
        np.testing.assert_allclose(expected, output, rtol=1e-4, atol=1e-5)


def test_losses():
    logits = [tf.constant(step) for step in STEPS]
    targets, weights = ids([0, 2], [1, 1], [2, 0], [0, 0]), [tf.constant([1.0, 0.5])] * 3
    weights.append(tf.constant([0.0, 0.0]))
    by_row = seq2seq.sequence_loss_by_example(logits, targets, weights)
    whole = seq2seq.sequence_loss(logits, targets, weights)
    summed = seq2seq.sequence_loss(
        logits, targets, weights, average_across_timesteps=False, average_across_batch=False
    )
    with tf.Session() as session:
        t, w = np.array(session.run(targets)), np.array(session.run(weights))
        found = session.run([by_row, whole, summed])
    shifted = np.exp(STEPS) / np.exp(STEPS).sum(-1, keepdims=True)
    costs = -np.log(np.take_along_axis(shifted, t[..., None], -1)[..., 0]) * w
    expected = [costs.sum(0) / w.sum(0), (costs.sum(0) / w.sum(0)).mean(), costs.sum()]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    with pytest.raises(ValueError, match="must be the same 4, 3, 4"):
        seq2seq.sequence_loss(logits, targets, weights[:3])


@pytest.mark.parametrize("axes", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("by", ["weights", "number"])
def test_losses_of_padded_sequences(axes, by):
    logits = STEPS.transpose(1, 0, 2)
    targets = np.array([[0, 2, 1, 1], [2, 0, 0, 1]])
    weights = np.array([[1, 1, 1, 0.25], [1, 0.5, 0, 0.5]], "float32")
    batch, time = ("average_across_batch", "average_across_timesteps")
    chosen = {batch: 0 in axes, time: 1 in axes}
    if by == "number":
        chosen = {batch: False, time: False, "sum_over_batch": 0 in axes,
                  "sum_over_timesteps": 1 in axes}  # fmt: skip
    loss = tf.contrib.seq2seq.sequence_loss(
        tf.constant(logits), tf.constant(targets), tf.constant(weights), **chosen
    )
    with tf.Session() as session:
        found = session.run(loss)
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    costs = -np.log(np.take_along_axis(shares, targets[..., None], -1)[..., 0]) * weights
    size = weights if by == "weights" else weights > 0
    expected = costs.sum(axes) / size.sum(axes) if axes else costs
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_buckets_share_their_weights():
    cell = tf.nn.rnn_cell.GRUCell(3)
    given, ones = ids([1, 2], [0, 3], [2, 2]), [tf.ones([2])] * 3
    outputs, losses = seq2seq.model_with_buckets(
        given, given, given, ones, [(2, 2), (3, 3)],
        lambda x, y: seq2seq.embedding_attention_seq2seq(x, y, cell, 5, 6, 4),
    )  # fmt: skip
    assert [len(found) for found in outputs] == [2, 3]
    assert len(names()) == len(set(names()))
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        alone, _ = seq2seq.embedding_attention_seq2seq(
            given[:2], given[:2], tf.nn.rnn_cell.GRUCell(3), 5, 6, 4
        )
    session = started()
    np.testing.assert_allclose(session.run(outputs[0]), session.run(alone), rtol=1e-6)
    assert all(np.isfinite(session.run(losses)))


def test_a_sequence_is_learned_in_reverse():
    """The toy of many tutorials: the decoder gives the input backwards."""
    length, symbols, batch = 4, 6, 32
    rows = RANDOM.integers(1, symbols, size=(length, batch))
    encoder = [tf.placeholder(tf.int32, [None]) for _ in range(length)]
    targets = [tf.placeholder(tf.int32, [None]) for _ in range(length)]
    decoder = [tf.zeros_like(targets[0]), *targets[:-1]]
    outputs, _ = seq2seq.embedding_attention_seq2seq(
        encoder, decoder, tf.nn.rnn_cell.BasicLSTMCell(16), symbols, symbols, 8
    )
    loss = seq2seq.sequence_loss(outputs, targets, [tf.ones([batch])] * length)
    train = tf.train.AdamOptimizer(0.03).minimize(loss)
    feed = dict(zip([*encoder, *targets], [*rows, *rows[::-1]], strict=True))
    session = started()
    first = session.run(loss, feed)
    for _ in range(80):
        session.run(train, feed)
    assert session.run(loss, feed) < first / 4
