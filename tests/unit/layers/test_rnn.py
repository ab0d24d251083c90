"""Recurrent networks against what TensorFlow 2.15 made of the same programs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from rnn_programs import PROGRAMS, RECORDED, X, outcome

import stepscope.tf1 as tf
from stepscope.ops import structures

EXPECTED = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_values_and_gradients_are_tensorflows(program: str) -> None:
    ours, theirs = outcome(tf, program), EXPECTED[program]
    for what in ("shapes", "dtypes", "variables", "trained", "biases"):
        assert ours[what] == theirs[what], what
    for what in ("values", "gradients"):
        assert len(ours[what]) == len(theirs[what])
        for found, expected in zip(ours[what], theirs[what], strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5, err_msg=what)


def test_contrib_has_the_same_cells() -> None:
    alone = {"EmbeddingWrapper", "InputProjectionWrapper", "OutputProjectionWrapper"}
    assert alone < set(tf.contrib.rnn.__all__)
    for name in set(tf.contrib.rnn.__all__) - alone:
        known = getattr(tf.nn.rnn_cell, name, None) or getattr(tf.nn, name)
        assert getattr(tf.contrib.rnn, name) is known


def test_dropout_keeps_the_mean_and_varies_per_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        cell = _Passes(200)
        wrapped = tf.nn.rnn_cell.DropoutWrapper(cell, input_keep_prob=0.75, seed=3)
        outputs, _ = tf.nn.dynamic_rnn(wrapped, tf.ones([50, 3, 200]), dtype=tf.float32)
        found = session.run(outputs)
    assert set(np.unique(found)) == {0.0, np.float32(1 / 0.75)}
    assert 0.97 < found.mean() < 1.03
    assert (found[:, 0] != found[:, 1]).any()


def test_variational_dropout_is_the_same_in_every_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        wrapped = tf.nn.rnn_cell.DropoutWrapper(
            _Passes(100), output_keep_prob=0.5, variational_recurrent=True, dtype=tf.float32
        )
        outputs, _ = tf.nn.dynamic_rnn(wrapped, tf.ones([20, 3, 100]), dtype=tf.float32)
        found = session.run(outputs)
    assert set(np.unique(found)) == {0.0, 2.0}
    assert (found == found[:1, :1]).all()


def test_dropped_states_leave_the_memory_of_an_lstm_alone() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        cell = tf.nn.rnn_cell.BasicLSTMCell(50)
        dropped = tf.nn.rnn_cell.DropoutWrapper(cell, state_keep_prob=0.5)
        _, state = dropped(tf.ones([4, 2]), dropped.zero_state(4, tf.float32))
        session.run(tf.global_variables_initializer())
        c, h = session.run(state)
    assert (c != 0).all()
    assert (h == 0).any()


class _Passes(tf.nn.rnn_cell.RNNCell):
    """Gives its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    @property
    def state_size(self) -> int:
        return 1

    @property
    def output_size(self) -> int:
        return self._width

    def call(self, inputs: Any, state: Any = None, **_more: Any) -> Any:
        return inputs, state


def test_a_cell_on_a_device_of_its_own() -> None:
    with tf.Graph().as_default() as graph:
        cell = tf.nn.rnn_cell.DeviceWrapper(tf.nn.rnn_cell.BasicRNNCell(2), "/cpu:1")
        tf.nn.static_rnn(cell, [tf.zeros([1, 2])], dtype=tf.float32)
        placed = {op.device for op in graph.get_operations() if op.type == "MatMul"}
    assert placed == {"/device:CPU:1"}


def test_a_structure_of_inputs_and_outputs() -> None:
    class Pair(tf.nn.rnn_cell.RNNCell):
        state_size = (2, 3)
        output_size = (3, 2)

        def call(self, inputs: Any, state: Any = None, **_more: Any) -> Any:
            a, b = inputs["a"] + state[0], inputs["b"] * 2.0 + state[1]
            return (b, a), (a, b)

    with tf.Graph().as_default(), tf.Session() as session:
        given = {"a": tf.ones([2, 4, 2]), "b": tf.ones([2, 4, 3])}
        outputs, state = tf.nn.dynamic_rnn(Pair(), given, dtype=tf.float32)
        found = session.run([*outputs, *structures.leaves(state)])
    assert [v.shape for v in found] == [(2, 4, 3), (2, 4, 2), (2, 2), (2, 3)]
    assert found[0][0, :, 0].tolist() == [2, 4, 6, 8]
    assert found[3].tolist() == [[8.0] * 3] * 2


def test_what_is_missing_is_said() -> None:
    cell = tf.nn.rnn_cell.BasicRNNCell
    with tf.Graph().as_default():
        x = tf.constant(X, tf.float32)
        with pytest.raises(ValueError, match="must give a dtype"):
            tf.nn.dynamic_rnn(cell(2), x)
        with pytest.raises(TypeError, match="not an RNNCell"):
            tf.nn.dynamic_rnn(3, x, dtype=tf.float32)
        with pytest.raises(ValueError, match="2 entries for a batch of 3"):
            tf.nn.dynamic_rnn(cell(2), x, sequence_length=[1, 2], dtype=tf.float32)
        with pytest.raises(ValueError, match="rank at least 2"):
            tf.nn.dynamic_rnn(cell(2), tf.zeros([3]), dtype=tf.float32)
        with pytest.raises(TypeError, match="must be a sequence"):
            tf.nn.static_rnn(cell(2), x, dtype=tf.float32)
        residual = tf.nn.rnn_cell.ResidualWrapper(cell(5))
        with pytest.raises(ValueError, match="as many units as its inputs have"):
            tf.nn.dynamic_rnn(residual, x, dtype=tf.float32)
        with pytest.raises(ValueError, match="between 0 and 1"):
            tf.nn.rnn_cell.DropoutWrapper(cell(2), input_keep_prob=2.0)
        with pytest.raises(ValueError, match="at least one cell"):
            tf.nn.rnn_cell.MultiRNNCell([])
