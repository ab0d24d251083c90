"""Classify batches of images: remove noise, two dense layers, a loss."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
SIDE, HIDDEN, CLASSES = 28, 128, 10

parser = argparse.ArgumentParser()
parser.add_argument("--batches", type=int, default=4)
parser.add_argument("--passes", type=int, default=2, help="of the noise filter")
arguments = parser.parse_args()


def remove_noise(images):
    for _ in range(arguments.passes):
        around = [np.roll(images, shift, axis) for shift in (-1, 1) for axis in (1, 2)]
        images = np.median([images, *around], axis=0)
    return images.astype(np.float32)


def dense(inputs, units, name):
    with tf.name_scope(name):
        width = inputs.shape.as_list()[-1]
        kernel = tf.Variable(tf.random_uniform([width, units], -0.1, 0.1, seed=1), name="kernel")
        bias = tf.Variable(tf.zeros([units]), name="bias")
        return tf.nn.bias_add(tf.matmul(inputs, kernel), bias)


images = tf.placeholder(tf.float32, [None, SIDE, SIDE], name="images")
labels = tf.placeholder(tf.int64, [None], name="labels")
clean = tf.py_func(remove_noise, [images], tf.float32, name="remove_noise")
flat = tf.reshape(clean, [-1, SIDE * SIDE], name="flat")
hidden = tf.nn.relu(dense(flat, HIDDEN, "layer1"))
logits = dense(hidden, CLASSES, "layer2")
losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
loss = tf.reduce_mean(losses, name="loss")

data = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(arguments.batches):
        batch = data.rand(64, SIDE, SIDE).astype(np.float32)
        session.run(loss, {images: batch, labels: data.randint(CLASSES, size=64)})
