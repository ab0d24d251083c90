"""A large tensor is cast to a type and back in each step; mended: it stays what it is."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
MENDED = "mended" in sys.argv

x = tf.placeholder(tf.float32, [1000, 1000], "x")
hidden = x + 1.0
if not MENDED:
    for number in range(3):
        wide = tf.cast(hidden, tf.float64, name=f"wide_{number}")
        hidden = tf.cast(wide, tf.float32, name=f"back_{number}")
loss = tf.reduce_mean(hidden * 2.0, name="loss")

batch = np.ones((1000, 1000), np.float32)
with tf.Session() as session:
    for step in range(30):
        session.run(loss, {x: batch + step})
