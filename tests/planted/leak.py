"""Each step puts a tensor of 1 MB into a queue that nobody empties; mended: somebody does."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
MENDED = "mended" in sys.argv

x = tf.placeholder(tf.float32, [256, 1024], "x")
hidden = tf.tanh(x)
queue = tf.FIFOQueue(1000, [tf.float32], name="seen")
kept = queue.enqueue(hidden, name="kept")
taken = queue.dequeue(name="taken")

batch = np.ones((256, 1024), np.float32)
with tf.Session() as session:
    for step in range(30):
        session.run(kept, {x: batch + step})
        if MENDED:
            session.run(taken)
