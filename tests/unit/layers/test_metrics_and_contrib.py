"""`tf.metrics` against TensorFlow, and the layers of `tf.contrib`, which is gone there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1

BATCHES = ([1.0, 2.0, 6.0], [3.0], [0.0, 1.0])
LABELS = ([1, 2, 3, 4], [0, 0, 5, 5])


def averaged(tf: Any, metric: str, weights: Any) -> list[Any]:
    """What the update gives for each batch, and the value after the last."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        if metric == "mean":
            value, update = tf.metrics.mean(x, weights)
            fed = [{x: batch} for batch in BATCHES]
        else:
            y = tf.placeholder(tf.int64, [None], name="y")
            value, update = tf.metrics.accuracy(y, x, weights)
            fed = [{x: np.minimum(labels, 3), y: labels} for labels in LABELS]
        names = [v.name for v in tf.local_variables()]
        session.run(tf.local_variables_initializer())
        return [names, value.name, *[session.run(update, f) for f in fed], session.run(value)]


@pytest.mark.tensorflow
@pytest.mark.parametrize("weights", [None, 0.5])
@pytest.mark.parametrize("metric", ["mean", "accuracy"])
def test_running_values_are_tensorflows(tf: Any, metric: str, weights: Any) -> None:
    assert averaged(tf1, metric, weights) == averaged(tf, metric, weights)


def test_labels_and_predictions_must_have_one_shape() -> None:
    with tf1.Graph().as_default(), pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        tf1.metrics.accuracy(tf1.zeros([2]), tf1.zeros([3]))


def test_fully_connected_layers_of_contrib() -> None:
    layers = tf1.contrib.layers
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        x = tf1.constant([[1.0, -2.0]])
        first = layers.fully_connected(
            x, 3, weights_initializer=tf1.ones_initializer(),
            weights_regularizer=layers.l2_regularizer(0.5),
        )  # fmt: skip
        second = layers.fully_connected(
            first - 1, 2, activation_fn=None, scope="head",
            biases_initializer=tf1.constant_initializer(4.0),
        )  # fmt: skip
        again = layers.fully_connected(first, 2, scope="head", reuse=True)
        session.run(tf1.global_variables_initializer())
        assert session.run(first).tolist() == [[0, 0, 0]]
        head = session.run("head/weights:0")
        np.testing.assert_allclose(session.run(second)[0], 4 - head.sum(0), rtol=1e-6)
        assert session.run(again).tolist() == [[4, 4]]
        assert session.run(tf1.losses.get_regularization_loss()) == 0.5 * 3
    with graph.as_default():
        assert [v.name for v in tf1.trainable_variables()] == [
            "fully_connected/weights:0", "fully_connected/biases:0", "head/weights:0",
            "head/biases:0",
        ]  # fmt: skip
        assert tf1.model_variables() == tf1.global_variables()
    assert (first.name, second.name) == ("fully_connected/Relu:0", "head/BiasAdd:0")


def test_convolutions_of_contrib() -> None:
    layers = tf1.contrib.layers
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.ones([1, 4, 4, 2])
        y = layers.conv2d(x, 3, [3, 3], stride=2, weights_initializer=tf1.ones_initializer())
        session.run(tf1.global_variables_initializer())
        assert [v.name for v in tf1.trainable_variables()] == ["Conv/weights:0", "Conv/biases:0"]
        assert session.run(y)[0, :, :, 0].tolist() == [[18, 12], [12, 8]]
        assert layers.flatten(y).shape.as_list() == [1, 12]


def test_regularizers() -> None:
    layers = tf1.contrib.layers
    with tf1.Graph().as_default(), tf1.Session() as session:
        w = tf1.constant([3.0, -4.0])
        assert session.run(layers.l2_regularizer(0.1)(w)) == pytest.approx(1.25)
        assert session.run(layers.l1_regularizer(0.1)(w)) == pytest.approx(0.7)
        assert layers.l1_regularizer(0.0)(w) is None
        with pytest.raises(ValueError, match="-1"):
            layers.l2_regularizer(-1.0)


def test_variables_come_from_the_innermost_getter_first() -> None:
    seen = []

    def noting(tag: str) -> Any:
        def getter(getter: Any, name: str, **more: Any) -> Any:
            seen.append((tag, name))
            return getter(name, **more)

        return getter

    with tf1.Graph().as_default():
        with (
            tf1.variable_scope("a", custom_getter=noting("outer")),
            tf1.variable_scope("b", custom_getter=noting("inner")),
        ):
            v = tf1.get_variable("v", [2])
        local = tf1.get_local_variable("count", [], initializer=tf1.zeros_initializer())
        assert v.name == "a/b/v:0"
        assert tf1.local_variables() == [local]
        assert local not in tf1.trainable_variables()
    assert seen == [("inner", "a/b/v"), ("outer", "a/b/v")]
