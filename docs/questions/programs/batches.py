"""The same step with larger and larger batches, on a device of 8 MB, until one does not fit."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


def dense(inputs, units, name):
    with tf.name_scope(name):
        kernel = tf.Variable(tf.ones([inputs.shape.as_list()[-1], units]) / 100, name="kernel")
        return tf.nn.relu(tf.matmul(inputs, kernel), name="out")


x = tf.placeholder(tf.float32, [None, 512], name="x")
first = dense(x, 512, "first")
second = dense(first, 1024, "second")
score = tf.reduce_sum(second, axis=1) / tf.reduce_sum(first, axis=1)

config = tf.ConfigProto(memory_limit_bytes={"/cpu:0": 8_000_000})
with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    for size in (64, 256, 1024):
        session.run(score, {x: np.ones((size, 512), np.float32)})
