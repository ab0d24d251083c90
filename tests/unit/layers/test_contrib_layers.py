"""`tf.contrib.layers` and `slim`, which no TensorFlow 2 has: names of variables, values, scopes."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope.tf1 as tf
from stepscope.tf1.contrib import slim

IMAGES = np.random.default_rng(1).normal(2.0, 3.0, size=(6, 8, 8, 3)).astype(np.float32)


def started() -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def test_a_network_in_argument_scopes() -> None:
    with tf.Graph().as_default():
        with (
            slim.arg_scope(
                [slim.conv2d, slim.fully_connected],
                weights_regularizer=slim.l2_regularizer(0.01),
                normalizer_fn=slim.batch_norm,
            ),
            slim.arg_scope([slim.batch_norm, slim.dropout], is_training=True),
        ):
            net = slim.repeat(tf.constant(IMAGES), 2, slim.conv2d, 4, [3, 3], scope="conv1")
            net = slim.max_pool2d(net, [2, 2], scope="pool1")
            net = slim.dropout(slim.flatten(net), 0.8, scope="drop")
            logits = slim.fully_connected(
                net, 2, activation_fn=None, normalizer_fn=None, scope="logits"
            )
        names = [v.op.name for v in tf.global_variables()]
        assert names == [
            "conv1/conv1_1/weights", "conv1/conv1_1/BatchNorm/beta",
            "conv1/conv1_1/BatchNorm/moving_mean", "conv1/conv1_1/BatchNorm/moving_variance",
            "conv1/conv1_2/weights", "conv1/conv1_2/BatchNorm/beta",
            "conv1/conv1_2/BatchNorm/moving_mean", "conv1/conv1_2/BatchNorm/moving_variance",
            "logits/weights", "logits/biases",
        ]  # fmt: skip
        assert set(tf.model_variables()) == set(tf.global_variables())
        assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 3
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 4
        assert started().run(logits).shape == (6, 2)


def test_batch_norm_takes_the_batch_in_training_and_averages_afterwards() -> None:
    with tf.Graph().as_default():
        training = tf.placeholder_with_default(True, [])
        normed = tf.contrib.layers.batch_norm(
            IMAGES, decay=0.5, is_training=training, updates_collections=None, scope="bn"
        )
        assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
        session = started()
        found = session.run(normed)
        np.testing.assert_allclose(found.mean((0, 1, 2)), 0, atol=1e-5)
        np.testing.assert_allclose(found.std((0, 1, 2)), 1, atol=1e-3)
        (mean,) = [v for v in tf.global_variables() if v.op.name == "bn/moving_mean"]
        np.testing.assert_allclose(session.run(mean), IMAGES.mean((0, 1, 2)) / 2, rtol=1e-4)
        plain = session.run(normed, {training: False})
        assert abs(plain.mean()) > 0.1


def test_updates_go_where_they_are_wanted() -> None:
    with tf.Graph().as_default():
        slim.batch_norm(IMAGES, updates_collections="mine")
        slim.batch_norm(IMAGES, is_training=False)
        assert len(tf.get_collection("mine")) == 2
        assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
        with pytest.raises(NotImplementedError, match="batch_weights"):
            slim.batch_norm(IMAGES, batch_weights=[1.0])


def test_pools_and_stacks() -> None:
    with tf.Graph().as_default():
        images = tf.constant(IMAGES)
        largest, mean = slim.max_pool2d(images, 2), slim.avg_pool2d(images, [8, 8], stride=1)
        stacked = slim.stack(slim.flatten(mean), slim.fully_connected, [5, 4], scope="fc")
        session = started()
        pairs = IMAGES.reshape(6, 4, 2, 4, 2, 3)
        np.testing.assert_array_equal(session.run(largest), pairs.max((2, 4)))
        np.testing.assert_allclose(
            session.run(mean)[:, 0, 0], IMAGES.mean((1, 2)), rtol=1e-5, atol=1e-6
        )
        assert stacked.shape.as_list() == [6, 4]
        assert tf.trainable_variables()[0].op.name == "fc/fc_1/weights"


def test_scopes_nest_and_can_be_used_again() -> None:
    @slim.add_arg_scope
    def told(first, second=0, third=0):
        return first, second, third

    with slim.arg_scope([told], second=1) as outer:
        with slim.arg_scope([told], third=2):
            assert told(0) == (0, 1, 2)
            assert told(0, 5) == (0, 5, 2)
            assert told(0, third=7) == (0, 1, 7)
        assert told(0) == (0, 1, 0)
    assert told(0) == (0, 0, 0)
    with slim.arg_scope(outer):
        assert slim.arg_scoped_arguments(told) == {"second": 1}
    with pytest.raises(ValueError, match="kwargs must be empty"), slim.arg_scope(outer, third=1):
        pass
    with pytest.raises(ValueError, match="not decorated"), slim.arg_scope([print], end=""):
        pass
    with pytest.raises(TypeError, match="list/tuple"), slim.arg_scope(told, second=1):
        pass


def test_forms_of_convolutions_by_the_names_of_contrib() -> None:
    with tf.Graph().as_default():
        images = tf.constant(IMAGES)
        net = slim.separable_conv2d(images, None, [3, 3], depth_multiplier=2, stride=2, scope="dw")
        assert net.shape.as_list() == [6, 4, 4, 6]
        net = slim.separable_conv2d(net, 5, 3, normalizer_fn=slim.batch_norm, scope="both")
        net = slim.conv2d_transpose(
            net, 2, 3, stride=2, scope="up", variables_collections={"weights": ["mine"]},
            weights_regularizer=slim.l2_regularizer(0.1),
        )  # fmt: skip
        assert net.shape.as_list() == [6, 8, 8, 2]
        assert [v.op.name for v in tf.trainable_variables()] == [
            "dw/depthwise_weights", "dw/biases", "both/depthwise_weights",
            "both/pointwise_weights", "both/BatchNorm/beta", "up/weights", "up/biases",
        ]  # fmt: skip
        assert [v.op.name for v in tf.get_collection("mine")] == ["up/weights"]
        assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1
        assert np.isfinite(started().run(net)).all()


def test_layer_norm_is_by_row() -> None:
    with tf.Graph().as_default():
        normed = tf.contrib.layers.layer_norm(IMAGES)
        last = tf.contrib.layers.layer_norm(IMAGES, scale=False, begin_norm_axis=3)
        assert [(v.op.name, v.shape.as_list()) for v in tf.global_variables()] == [
            ("LayerNorm/beta", [3]), ("LayerNorm/gamma", [3]), ("LayerNorm_1/beta", [3]),
        ]  # fmt: skip
        found, by_pixel = started().run([normed, last])
    wide = IMAGES.reshape(6, -1)
    expected = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    np.testing.assert_allclose(found.reshape(6, -1), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_pixel.mean(-1), 0, atol=1e-5)
