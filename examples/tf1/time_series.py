"""The next value of a wave from the last ones: stacked cells in `dynamic_rnn`, clipping."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

BATCH, STEPS, UNITS = 16, 10, 8
random = np.random.RandomState(6)


def uniform(*shape):
    return tf.constant_initializer(random.uniform(-0.3, 0.3, size=shape).astype(np.float32))


x = tf.placeholder(tf.float32, [BATCH, STEPS, 1], name="x")
y = tf.placeholder(tf.float32, [BATCH, STEPS, 1], name="y")
cells = [
    tf.nn.rnn_cell.LSTMCell(UNITS, initializer=tf.constant_initializer(0.05)) for _ in range(2)
]
stacked = tf.nn.rnn_cell.MultiRNNCell(cells)
outputs, _ = tf.nn.dynamic_rnn(stacked, x, initial_state=stacked.zero_state(BATCH, tf.float32))
weights = tf.get_variable("weights", [UNITS, 1], initializer=uniform(UNITS, 1))
flat = tf.matmul(tf.reshape(outputs, [-1, UNITS]), weights)
loss = tf.reduce_mean(tf.square(tf.reshape(flat, [BATCH, STEPS, 1]) - y))

variables = tf.trainable_variables()
gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
train_op = tf.train.AdamOptimizer(0.02).apply_gradients(zip(gradients, variables))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(20):
        begin = random.uniform(0, 2 * np.pi, size=(BATCH, 1))
        wave = np.sin(begin + 0.5 * np.arange(STEPS + 1))[:, :, None].astype(np.float32)
        feed_dict = {x: wave[:, :-1], y: wave[:, 1:]}
        value, length, _ = sess.run([loss, norm, train_op], feed_dict)
        print("step %d: loss %.6f, gradient norm %.4f" % (i, value, length))
