"""Layers against what TensorFlow 2.15 made of the same programs, and on the TensorFlow of today."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from layer_programs import FEEDS, PROGRAMS, RECORDED, outcome

import stepscope.tf1 as tf1

EXPECTED = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    return {name: outcome(tf1, name) for name in PROGRAMS}


def compared(nodes: list[list[str]]) -> dict[str, str]:
    """Nodes by name, without those whose place changed over TensorFlow's versions.

    Constants, what makes initial values, how a flattened shape is put together, and what 2.15
    computes, outside of any layer, of a scope's regularizer and never uses.
    """
    own = ("Const", "Placeholder")
    return {
        name: op
        for name, op in nodes
        if op not in own
        and "/" in name
        and "/Initializer/" not in name
        and "flatten" not in name.lower()
    }


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_are_tensorflows(found: Any, program: str) -> None:
    ours, theirs = found[program], EXPECTED[program]
    for what in ("outputs", "variables", "trained", "losses", "updates"):
        assert ours[what] == theirs[what], what
    assert compared(ours["nodes"]) == compared(theirs["nodes"])


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_gradients_and_updates_are_tensorflows(found: Any, program: str) -> None:
    ours, theirs = found[program]["runs"], EXPECTED[program]["runs"]
    assert len(ours) == len(theirs)
    for run, expected in zip(ours, theirs, strict=True):
        for what, values, wanted in zip(
            ("values", "gradients", "losses", "updated"), run, expected, strict=True
        ):
            assert len(values) == len(wanted), what
            for ours_value, theirs_value in zip(values, wanted, strict=True):
                np.testing.assert_allclose(
                    ours_value, theirs_value, rtol=2e-4, atol=2e-4, err_msg=what
                )


@pytest.mark.tensorflow
@pytest.mark.parametrize("program", ["dense_options", "normalized_by_flag", "convolutions"])
def test_exported_layers_run_on_tensorflow(tf: Any, found: Any, program: str) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        PROGRAMS[program](tf1)
        starts = {v.initializer.name: v.shape.as_list() for v in tf1.global_variables()}
    theirs = tf.Graph()
    with theirs.as_default(), tf.Session() as session:
        message = tf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
        tf.import_graph_def(message, name="")
        for number, (name, shape) in enumerate(starts.items()):
            value = np.sin(np.arange(int(np.prod(shape))) + number).reshape(shape)
            value = np.abs(value) if "variance" in name else value
            operation = theirs.get_operation_by_name(name)
            session.run(operation, {operation.inputs[1]: value})
        names = {n.name for n in message.node}
        feeds = {n: v for n, v in FEEDS.items() if n[:-2] in names}
        outputs = [name for name, _shape in found[program]["outputs"]]
        for phase, run in zip((True, False), found[program]["runs"], strict=False):
            given = {**feeds, "flag:0": phase} if "flag" in names else feeds
            for ours, theirs_value in zip(run[0], session.run(outputs, given), strict=True):
                np.testing.assert_allclose(ours, theirs_value, rtol=2e-4, atol=2e-4)


def test_dropout_zeroes_a_share_and_keeps_the_mean() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        flag = tf1.placeholder(tf1.bool, [])
        dropped = tf1.layers.dropout(tf1.ones([200, 100]), 0.25, seed=3, training=flag)
        on, off = (session.run(dropped, {flag: phase}) for phase in (True, False))
    assert off.tolist() == np.ones((200, 100)).tolist()
    assert set(np.unique(on)) == {0.0, np.float32(1 / 0.75)}
    assert 0.24 < (on == 0).mean() < 0.26


def test_a_layer_of_ones_own() -> None:
    class Scaled(tf1.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.factor = self.add_variable("factor", [input_shape[-1]], initializer=tens)

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

    tens = tf1.constant_initializer(10.0)
    with tf1.Graph().as_default(), tf1.Session() as session:
        layer = Scaled()
        y = layer(tf1.constant([[1.0, 2.0]]))
        assert [v.name for v in layer.variables] == ["scaled/factor:0"]
        assert layer.count_params() == 2
        session.run(tf1.global_variables_initializer())
        assert session.run(y).tolist() == [[10, 20]]


def test_what_a_layer_cannot_take_is_said_with_both_sides() -> None:
    with tf1.Graph().as_default():
        with pytest.raises(ValueError, match=r"dense .*min_ndim=2, found ndim=1.*test_layers\.py"):
            tf1.layers.dense(tf1.constant([1.0]), 2)
        with pytest.raises(ValueError, match=r"last dimension of the inputs to `Dense`.*None"):
            tf1.layers.dense(tf1.placeholder(tf1.float32, [3, None]), 2)
        with pytest.raises(ValueError, match="expected ndim=4, found ndim=2"):
            tf1.layers.conv2d(tf1.zeros([2, 2]), 1, 1)
        with pytest.raises(ValueError, match=r"fused=True .*rank 4.*\(2, 3\)"):
            tf1.layers.batch_normalization(tf1.zeros([2, 3]), fused=True)
        with pytest.raises(TypeError, match="Dense takes no argument 'size'"):
            tf1.layers.Dense(2, size=3)
