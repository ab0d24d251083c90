"""A table that never changes is fed in each run, and prepared anew; mended: it is in the graph."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
MENDED = "mended" in sys.argv

table = np.random.default_rng(1).normal(size=(2000, 500)).astype(np.float32)
x = tf.placeholder(tf.float32, [8, 2000], "x")
given = tf.placeholder(tf.float32, [2000, 500], "table")
prepared = tf.nn.softmax(tf.tanh(given), name="prepared")
if MENDED:
    kept = tf.get_variable("kept", [2000, 500], trainable=False)
    keep = tf.assign(kept, prepared)
    prepared = kept
loss = tf.reduce_mean(tf.matmul(x, prepared), name="loss")

batch = np.ones((8, 2000), np.float32)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    if MENDED:
        session.run(keep, {given: table})
    for step in range(40):
        feeds = {x: batch + step}
        if not MENDED:
            feeds[given] = table
        session.run(loss, feeds)
