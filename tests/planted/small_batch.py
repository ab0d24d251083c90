"""One row at a time, so that the ops cost more than their work; mended: sixteen rows a run."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
BATCH = 16 if "mended" in sys.argv else 1
ROWS = 480

x = tf.placeholder(tf.float32, [None, 32], "x")
hidden = x
for layer in range(8):
    kernel = tf.get_variable(f"kernel_{layer}", [32, 32])
    hidden = tf.nn.relu(tf.matmul(hidden, kernel) + 0.1)
loss = tf.reduce_mean(tf.square(hidden), name="loss")
train = tf.train.GradientDescentOptimizer(0.001).minimize(loss, name="train")

rows = np.random.default_rng(1).normal(size=(ROWS, 32)).astype(np.float32)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for first in range(0, ROWS, BATCH):
        session.run([train, loss], {x: rows[first : first + BATCH]})
