"""Histograms of all weights are written in every step; mended: in none of the steps timed."""

import sys
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
MENDED = "mended" in sys.argv

x = tf.placeholder(tf.float32, [64, 256], "x")
hidden = x
for layer in range(3):
    kernel = tf.get_variable(f"kernel_{layer}", [256, 256])
    tf.summary.histogram(f"kernel_{layer}", kernel)
    hidden = tf.nn.relu(tf.matmul(hidden, kernel))
loss = tf.reduce_mean(tf.square(hidden), name="loss")
train = tf.train.GradientDescentOptimizer(0.001).minimize(loss, name="train")
written = tf.summary.merge_all(name="written")

batch = np.ones((64, 256), np.float32)
with tf.Session() as session, tempfile.TemporaryDirectory() as place:
    writer = tf.summary.FileWriter(place)
    session.run(tf.global_variables_initializer())
    for step in range(40):
        if MENDED:
            session.run(train, {x: batch + step})
        else:
            _, summary = session.run([train, written], {x: batch + step})
            writer.add_summary(summary, step)
