"""Models whose parameters and operations are counted: built alike on TensorFlow and here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _dense(tf: Any, x: Any, units: int, name: str) -> Any:
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [int(x.shape[-1]), units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def _train(tf: Any, loss: Any) -> Any:
    variables = tf.trainable_variables()
    steps = zip(variables, tf.gradients(loss, variables), strict=True)
    return tf.group(
        *[tf.assign_sub(variable, 0.1 * step) for variable, step in steps], name="train"
    )


def mlp(tf: Any, rows: int | None = 32) -> Any:
    x = tf.placeholder(tf.float32, [rows, 784], "x")
    hidden = tf.nn.relu(_dense(tf, x, 100, "hidden"))
    with tf.name_scope("loss"):
        loss = tf.reduce_mean(tf.square(_dense(tf, hidden, 10, "out")))
    return _train(tf, loss)


def _convolution(tf: Any, x: Any, channels: int, size: int, stride: int, name: str) -> Any:
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [size, size, int(x.shape[-1]), channels])
        return tf.nn.conv2d(x, kernel, strides=[1, stride, stride, 1], padding="SAME")


def cnn(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [8, 28, 28, 1], "x")
    for layer, channels in enumerate((6, 12)):
        x = tf.nn.relu(_convolution(tf, x, channels, 5, 1, f"conv_{layer}"))
        x = tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    x = tf.reshape(x, [8, 7 * 7 * 12])
    return _train(tf, tf.reduce_mean(tf.square(_dense(tf, x, 10, "out"))))


def lstm(tf: Any) -> Any:
    rows, steps, width, units = 4, 5, 6, 7
    x = tf.placeholder(tf.float32, [rows, steps, width], "x")
    state = output = tf.zeros([rows, units])
    with tf.variable_scope("cell"):
        kernel = tf.get_variable("kernel", [width + units, 4 * units])
        bias = tf.get_variable("bias", [4 * units], initializer=tf.zeros_initializer())
    for step in range(steps):
        inputs = tf.concat([x[:, step], output], 1)
        gates = tf.split(tf.nn.bias_add(tf.matmul(inputs, kernel), bias), 4, axis=1)
        enter, new, forget, leave = gates
        state = state * tf.sigmoid(forget + 1.0) + tf.sigmoid(enter) * tf.tanh(new)
        output = tf.tanh(state) * tf.sigmoid(leave)
    return _train(tf, tf.reduce_sum(tf.square(output)))


def resnet50(tf: Any) -> Any:
    """With the shortcut as a convolution in the first block of each of four stages."""
    x = tf.placeholder(tf.float32, [1, 224, 224, 3], "x")
    x = _normed(tf, x, 64, 7, 2, "stem")
    x = tf.nn.max_pool(tf.nn.relu(x), ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME")
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = _block(tf, x, 64 * 2**stage, stride, f"stage_{stage}/block_{block}")
    return _dense(tf, tf.reduce_mean(x, axis=[1, 2]), 1000, "out")


def _block(tf: Any, x: Any, channels: int, stride: int, name: str) -> Any:
    with tf.variable_scope(name):
        shortcut = x
        if stride > 1 or int(x.shape[-1]) != 4 * channels:
            shortcut = _normed(tf, x, 4 * channels, 1, stride, "shortcut")
        y = tf.nn.relu(_normed(tf, x, channels, 1, 1, "narrow"))
        y = tf.nn.relu(_normed(tf, y, channels, 3, stride, "look"))
        return tf.nn.relu(_normed(tf, y, 4 * channels, 1, 1, "wide") + shortcut)


def _normed(tf: Any, x: Any, channels: int, size: int, stride: int, name: str) -> Any:
    with tf.variable_scope(name):
        y = _convolution(tf, x, channels, size, stride, "conv")
        scale = tf.get_variable("scale", [channels], initializer=tf.ones_initializer())
        shift = tf.get_variable("shift", [channels], initializer=tf.zeros_initializer())
        return tf.nn.fused_batch_norm(y, scale, shift)[0]


MODELS: dict[str, Callable[[Any], Any]] = {
    "mlp": mlp, "cnn": cnn, "lstm": lstm, "resnet50": resnet50,
}  # fmt: skip
