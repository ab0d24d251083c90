"""Trains on batches that are read one after the other, from a store that answers late."""

import time

import numpy as np
import tensorflow as tf


def read(number):
    time.sleep(0.01)
    return np.full((32, 64), number, np.float32)


def decoded(number):
    return tf.ensure_shape(tf.numpy_function(read, [number], tf.float32), (32, 64))


data = iter(tf.data.Dataset.range(40).map(decoded))
weights = tf.Variable(tf.random.stateless_normal([64, 64], [1, 2]))


@tf.function
def train_step(iterator):
    x = next(iterator)
    hidden = tf.nn.relu(x @ weights)
    weights.assign_sub(1e-6 * tf.transpose(x) @ hidden)
    return tf.reduce_mean(hidden)


for _ in range(40):
    train_step(data)
