"""Sums of sequences of unequal length, read from both sides: GRU cells, `sequence_length`."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

BATCH, STEPS, UNITS = 12, 6, 5
random = np.random.RandomState(4)


def uniform(*shape):
    return random.uniform(-0.4, 0.4, size=shape).astype(np.float32)


x = tf.placeholder(tf.float32, [None, STEPS, 1], name="x")
lengths = tf.placeholder(tf.int32, [None], name="lengths")
y = tf.placeholder(tf.float32, [None, 1], name="y")


def cell():
    return tf.nn.rnn_cell.GRUCell(
        UNITS, kernel_initializer=tf.constant_initializer(0.1), bias_initializer=None
    )


_, states = tf.nn.bidirectional_dynamic_rnn(cell(), cell(), x, lengths, dtype=tf.float32)
weights = tf.Variable(uniform(2 * UNITS, 1))
guess = tf.matmul(tf.concat(states, 1), weights)
loss = tf.reduce_mean(tf.square(guess - y))
train_op = tf.train.AdamOptimizer(0.03).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(20):
        values = random.uniform(-1, 1, size=(BATCH, STEPS, 1)).astype(np.float32)
        counts = random.randint(1, STEPS + 1, size=BATCH)
        values[np.arange(STEPS)[None, :] >= counts[:, None]] = 0
        feed_dict = {x: values, lengths: counts, y: values.sum(1)}
        value, _ = sess.run([loss, train_op], feed_dict)
        print("step %d: loss %.6f" % (i, value))
