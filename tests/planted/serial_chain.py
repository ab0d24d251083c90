"""Branches that need nothing of each other wait for each other; mended: they do not."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
MENDED = "mended" in sys.argv

x = tf.placeholder(tf.float32, [1000, 1000], "x")
branches = []
for number in range(2):
    with tf.control_dependencies([] if MENDED else branches[-1:]):
        hidden = tf.add(x, float(number), name=f"branch_{number}/x")
    for layer in range(4):
        hidden = tf.pow(hidden, 1.01, name=f"branch_{number}/layer_{layer}")
    branches.append(tf.reduce_sum(hidden, name=f"branch_{number}/sum"))
loss = tf.add_n(branches, name="loss")

batch = np.ones((1000, 1000), np.float32)
config = tf.ConfigProto(inter_op_parallelism_threads=2, intra_op_parallelism_threads=1)
with tf.Session(config=config) as session:
    for step in range(30):
        session.run(loss, {x: batch + step})
