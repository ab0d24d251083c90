"""A Python number that changes is an argument of the function; mended: it is a tensor."""

import sys

import tensorflow as tf

MENDED = "mended" in sys.argv
weights = tf.Variable(tf.random.stateless_normal([64, 64], [1, 2]))


@tf.function
def train_step(x, rate):
    hidden = x
    for _ in range(30):
        hidden = tf.nn.relu(hidden @ weights)
    weights.assign_sub(rate * tf.transpose(x) @ hidden)
    return tf.reduce_mean(hidden)


batch = tf.ones([32, 64])
for step in range(25):
    rate = 1e-6 / (1 + step)
    train_step(batch, tf.constant(rate) if MENDED else rate)
