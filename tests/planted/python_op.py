"""An op of the step is a loop in Python; mended: the same as ops of the graph."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
MENDED = "mended" in sys.argv


def clipped(values):
    out = np.empty_like(values)
    for row in range(len(values)):
        for column in range(values.shape[1]):
            out[row, column] = min(max(values[row, column], -1.0), 1.0)
    return out


x = tf.placeholder(tf.float32, [256, 256], "x")
kernel = tf.get_variable("kernel", [256, 256])
hidden = tf.matmul(x, kernel)
if MENDED:
    kept = tf.clip_by_value(hidden, -1.0, 1.0)
else:
    kept = tf.py_func(clipped, [hidden], tf.float32, name="clipped")
loss = tf.reduce_mean(tf.square(kept), name="loss")

batch = np.random.default_rng(1).normal(size=(256, 256)).astype(np.float32)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(30):
        session.run(loss, {x: batch + step})
