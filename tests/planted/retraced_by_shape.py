"""Each batch has another length; mended: batches are padded to one."""

import sys

import tensorflow as tf

MENDED = "mended" in sys.argv
weights = tf.Variable(tf.random.stateless_normal([64, 64], [1, 2]))


@tf.function
def train_step(x):
    hidden = x
    for _ in range(30):
        hidden = tf.nn.relu(hidden @ weights)
    weights.assign_sub(1e-6 * tf.transpose(x) @ hidden)
    return tf.reduce_mean(hidden)


for step in range(25):
    batch = tf.ones([32 if MENDED else 16 + step, 64])
    train_step(batch)
