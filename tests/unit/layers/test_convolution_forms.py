"""Convolutions of other forms, as layers: TensorFlow's functions on the same weights."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1

RANDOM = np.random.default_rng(5)
SERIES = RANDOM.normal(size=(2, 9, 3)).astype("float32")
IMAGES = RANDOM.normal(size=(2, 6, 5, 3)).astype("float32")


def outcome(build: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What a layer gives, and its variables by name."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(3)
        output = build(tf1)
        session.run(tf1.global_variables_initializer())
        found = {v.op.name: session.run(v) for v in tf1.trainable_variables()}
        return session.run(output), found


def on_tensorflow(tf: Any, build: Any) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build())  # type: ignore[no-any-return]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, "same", 1), (2, "valid", 1),
                                                             (1, "valid", 2)])  # fmt: skip
def test_conv1d(tf: Any, stride: int, padding: str, dilation: int) -> None:
    found, variables = outcome(
        lambda e: e.layers.conv1d(
            e.constant(SERIES),
            4,
            3,
            stride,
            padding,
            dilation_rate=dilation,
            bias_initializer=e.constant_initializer(0.5),
        )
    )
    assert {name: v.shape for name, v in variables.items()} == {
        "conv1d/kernel": (3, 3, 4), "conv1d/bias": (4,),
    }  # fmt: skip
    expected = on_tensorflow(
        tf,
        lambda: tf.nn.conv1d(
            SERIES, variables["conv1d/kernel"], stride, padding.upper(), dilations=dilation
        ) + 0.5,
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("stride", "padding"), [(2, "same"), (2, "valid"), ((1, 3), "same"),
                                                 ((3, 1), "valid")])  # fmt: skip
def test_conv2d_transpose(tf: Any, stride: Any, padding: str) -> None:
    def build(engine: Any) -> Any:
        images = engine.placeholder_with_default(IMAGES, [None, None, None, 3])
        output = engine.layers.conv2d_transpose(images, 4, [3, 2], stride, padding)
        assert output.shape.as_list() == [None, None, None, 4]
        return output

    found, variables = outcome(build)
    assert {name: v.shape for name, v in variables.items()} == {
        "conv2d_transpose/kernel": (3, 2, 4, 3), "conv2d_transpose/bias": (4,),
    }  # fmt: skip
    steps = [stride] * 2 if isinstance(stride, int) else list(stride)
    expected = on_tensorflow(
        tf,
        lambda: tf.nn.conv2d_transpose(
            IMAGES, variables["conv2d_transpose/kernel"], list(found.shape), [1, *steps, 1],
            padding.upper(),
        ),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    lengths = [n * s + (max(k - s, 0) if padding == "valid" else 0)
               for n, s, k in zip((6, 5), steps, (3, 2), strict=True)]  # fmt: skip
    assert list(found.shape[1:3]) == lengths


@pytest.mark.tensorflow
@pytest.mark.parametrize(("stride", "padding", "each"), [(1, "same", 1), (2, "valid", 2)])
def test_separable_conv2d(tf: Any, stride: int, padding: str, each: int) -> None:
    found, variables = outcome(
        lambda e: e.layers.separable_conv2d(
            e.constant(IMAGES), 5, 3, stride, padding, depth_multiplier=each, name="apart"
        )
    )
    assert {name: v.shape for name, v in variables.items()} == {
        "apart/depthwise_kernel": (3, 3, 3, each),
        "apart/pointwise_kernel": (1, 1, 3 * each, 5),
        "apart/bias": (5,),
    }
    expected = on_tensorflow(
        tf,
        lambda: tf.nn.separable_conv2d(
            IMAGES, variables["apart/depthwise_kernel"], variables["apart/pointwise_kernel"],
            [1, stride, stride, 1], padding.upper(),
        ),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.tensorflow
def test_conv3d(tf: Any) -> None:
    volumes = RANDOM.normal(size=(2, 5, 6, 5, 3)).astype("float32")
    found, variables = outcome(
        lambda e: e.layers.conv3d(
            e.constant(volumes), 4, (2, 3, 3), (2, 1, 2), "same",
            bias_initializer=e.constant_initializer(0.5),
        )
    )  # fmt: skip
    assert {name: v.shape for name, v in variables.items()} == {
        "conv3d/kernel": (2, 3, 3, 3, 4), "conv3d/bias": (4,),
    }  # fmt: skip
    expected = on_tensorflow(
        tf,
        lambda: tf.nn.conv3d(volumes, variables["conv3d/kernel"], [1, 2, 1, 2, 1], "SAME") + 0.5,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["max", "average"])
def test_pools_of_series(kind: str) -> None:
    found, _ = outcome(lambda e: getattr(e.layers, f"{kind}_pooling1d")(e.constant(SERIES), 3, 3))
    windows = SERIES.reshape(2, 3, 3, 3)
    expected = windows.max(2) if kind == "max" else windows.mean(2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_layers_are_reused_and_applied() -> None:
    with tf1.Graph().as_default():
        layer = tf1.layers.Conv2DTranspose(4, 3, strides=2, padding="same")
        assert layer.apply(tf1.constant(IMAGES)).shape.as_list() == [2, 12, 10, 4]
        layer.apply(tf1.zeros([1, 3, 3, 3]))
        tf1.layers.conv1d(SERIES, 2, 3, name="one")
        tf1.layers.conv1d(SERIES, 2, 3, name="one", reuse=True)
        with pytest.raises(ValueError, match="ndim=3, found ndim=4"):
            tf1.layers.conv1d(IMAGES, 2, 3)
        with pytest.raises(ValueError, match=r"strides.*one integer"):
            tf1.layers.conv1d(SERIES, 2, 3, strides=(1, 2))
        names = [v.op.name for v in tf1.trainable_variables()]
    assert names == [
        "conv2d_transpose/kernel", "conv2d_transpose/bias", "one/kernel", "one/bias",
    ]  # fmt: skip


def test_a_generator_of_images_learns() -> None:
    """As in DCGAN programs: transposed convolutions with batch normalisation in training."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        with tf1.variable_scope("generator"):
            x = tf1.layers.dense(tf1.random_normal([8, 10], seed=2), 4 * 4 * 16)
            x = tf1.reshape(x, [-1, 4, 4, 16])
            x = tf1.layers.conv2d_transpose(x, 8, 5, strides=2, padding="same", use_bias=False)
            x = tf1.nn.leaky_relu(tf1.layers.batch_normalization(x, training=True))
            x = tf1.layers.conv2d_transpose(x, 1, 5, strides=2, padding="same", name="out")
        assert x.shape.as_list() == [8, 16, 16, 1]
        loss = tf1.reduce_mean(tf1.square(tf1.nn.tanh(x) - 0.5))
        with tf1.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            train = tf1.train.AdamOptimizer(0.01).minimize(loss)
        session.run(tf1.global_variables_initializer())
        before = session.run(loss)
        for _ in range(30):
            session.run(train)
        assert session.run(loss) < before / 3


TAIL = """
    activation use_bias kernel_initializer bias_initializer kernel_regularizer bias_regularizer
    activity_regularizer kernel_constraint bias_constraint trainable name reuse
"""
CONTRIB_TAIL = """
    activation_fn normalizer_fn normalizer_params weights_initializer weights_regularizer
    biases_initializer biases_regularizer reuse variables_collections outputs_collections
    trainable scope
"""
WINDOWS = "inputs filters kernel_size strides padding data_format"


@pytest.mark.parametrize(("place", "name", "wanted"), [
    ("layers", "dense", f"inputs units {TAIL}"),
    ("layers", "conv1d", f"{WINDOWS} dilation_rate {TAIL}"),
    ("layers", "conv2d", f"{WINDOWS} dilation_rate {TAIL}"),
    ("layers", "conv2d_transpose", f"{WINDOWS} {TAIL}"),
    ("layers", "max_pooling2d", "inputs pool_size strides padding data_format name"),
    ("contrib.layers", "fully_connected", f"inputs num_outputs {CONTRIB_TAIL}"),
    ("contrib.layers", "conv2d",
     f"inputs num_outputs kernel_size stride padding data_format rate {CONTRIB_TAIL}"),
    ("contrib.layers", "separable_conv2d",
     "inputs num_outputs kernel_size depth_multiplier stride padding data_format rate "
     + CONTRIB_TAIL.replace("weights_regularizer", "pointwise_initializer weights_regularizer")),
])  # fmt: skip
def test_function_forms_take_tensorflow_1s_arguments_in_its_order(
    place: str, name: str, wanted: str
) -> None:
    """TensorFlow 2 has these functions no more: the lists are those of its last release of 1."""
    module: Any = tf1
    for part in place.split("."):
        module = getattr(module, part)
    function = getattr(module, name)
    assert list(inspect.signature(function).parameters) == wanted.split()
    assert function.__name__ == name


def test_arguments_of_function_forms_are_checked() -> None:
    with tf1.Graph().as_default():
        with pytest.raises(TypeError, match="missing a required argument: 'filters'"):
            tf1.layers.conv2d(inputs=IMAGES)
        with pytest.raises(TypeError, match="unexpected keyword argument 'filter'"):
            tf1.layers.conv2d(IMAGES, 4, 3, filter=4)
        with pytest.raises(ValueError, match=r"strides.*integer or 2 of them"):
            tf1.layers.conv2d(IMAGES, 4, 3, strides=(1, 2, 3))
        made = tf1.layers.conv2d(inputs=IMAGES, filters=4, kernel_size=[3, 2], name="made")
        assert made.shape.as_list() == [2, 4, 4, 4]
