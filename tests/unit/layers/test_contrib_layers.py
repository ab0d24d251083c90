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


def test_words_and_classes_as_rows() -> None:
    with tf.Graph().as_default():
        ids = [[3, 1, 3], [0, 3, 2]]
        rows = tf.contrib.layers.embed_sequence(ids, 5, 4, scope="words")
        again = tf.contrib.layers.embed_sequence(ids, unique=True, scope="words", reuse=True)
        hot = tf.contrib.layers.one_hot_encoding([2, 0], 3, on_value=5.0)
        assert [v.op.name for v in tf.global_variables()] == ["words/embeddings"]
        session = started()
        table = session.run(tf.global_variables()[0])
        np.testing.assert_array_equal(session.run(rows), table[ids])
        np.testing.assert_array_equal(session.run(again), table[ids])
        assert session.run(hot).tolist() == [[0, 0, 5], [5, 0, 0]]
        with pytest.raises(ValueError, match="Must specify vocab size"):
            tf.contrib.layers.embed_sequence(ids)


def test_regularization_of_all_weights() -> None:
    layers = tf.contrib.layers
    with tf.Graph().as_default():
        values = tf.get_variable("v", initializer=[1.0, -2.0])
        tf.add_to_collection(tf.GraphKeys.WEIGHTS, values)
        both = layers.apply_regularization(layers.l1_l2_regularizer(0.5, 2.0))
        assert tf.losses.get_regularization_losses() == [both]
        none = layers.sum_regularizer([layers.l1_regularizer(0.0), None])
        assert none(values) is None
        assert started().run(both) == 0.5 * 3 + 2.0 * 2.5
        with pytest.raises(ValueError, match="must return a scalar"):
            layers.apply_regularization(lambda w: w)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "Momentum", "RMSProp", "Adagrad", "Ftrl"])
def test_optimize_loss_takes_a_step(optimizer: str) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        x = tf.get_variable("x", initializer=[3.0, -4.0])
        loss = tf.contrib.layers.optimize_loss(
            tf.reduce_sum(x * x), step, 0.1, optimizer, clip_gradients=1.0,
            learning_rate_decay_fn=lambda rate, at: tf.train.exponential_decay(rate, at, 10, 0.5),
        )  # fmt: skip
        tags = sorted(op.name for op in tf.get_default_graph().get_operations()
                      if op.type == "ScalarSummary")  # fmt: skip
        assert tags == [
            "OptimizeLoss/global_norm/clipped_gradient_norm",
            "OptimizeLoss/global_norm/gradient_norm",
            "OptimizeLoss/learning_rate_1",
            "OptimizeLoss/loss",
        ]
        session = started()
        assert session.run(loss) == 25.0
        assert session.run(step) == 1
        after = session.run(x)
        assert (np.abs(after) < [3, 4]).all()
        if optimizer == "SGD":
            np.testing.assert_allclose(after, [3 - 0.1 * 0.6, -4 + 0.1 * 0.8], rtol=1e-5)


def test_optimize_loss_runs_updates_multiplies_and_refuses() -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        x, y = (tf.get_variable(n, initializer=1.0) for n in "xy")
        count = tf.get_variable("count", initializer=0, trainable=False)
        train = tf.contrib.layers.optimize_loss(
            x * x + y * y, step, None, lambda: tf.train.GradientDescentOptimizer(0.25),
            gradient_multipliers={"x": 2.0}, update_ops=[tf.assign_add(count, 1)], summaries=[],
            increment_global_step=False,
        )  # fmt: skip
        session = started()
        session.run(train)
        assert session.run([x, y, count, step]) == [0.0, 0.5, 1, 0]
        for arguments, message in (
            ((0.1, "Nothing"), "should be one of"), ((-0.1, "SGD"), "Invalid learning_rate"),
            ((None, "SGD"), "Learning rate is None"), ((0.1, 5), "should be a name"),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=message):
                tf.contrib.layers.optimize_loss(x * x, step, *arguments)
