"""Its `map` waits for a slow store, one element after the other; mended: eight at once, ahead."""

import sys
import time

import numpy as np
import tensorflow as tf

MENDED = "mended" in sys.argv


def fetched(number):
    time.sleep(0.01)  # a store that answers late
    return np.full((32, 64), number, np.float32)


def decoded(number):
    return tf.ensure_shape(tf.numpy_function(fetched, [number], tf.float32), (32, 64))


def batches():
    found = tf.data.Dataset.range(40)
    if MENDED:
        return found.map(decoded, num_parallel_calls=8).prefetch(8)
    return found.map(decoded)


weights = tf.Variable(tf.random.stateless_normal([64, 64], [1, 2]))


@tf.function
def train_step(iterator):
    x = next(iterator)
    hidden = tf.nn.relu(x @ weights)
    weights.assign_sub(1e-6 * tf.transpose(x) @ hidden)
    return tf.reduce_mean(hidden)


data = iter(batches())
for _ in range(40):
    train_step(data)
