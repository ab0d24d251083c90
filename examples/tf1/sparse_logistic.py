"""Logistic regression on rows with few features each: sparse tensors, fed, times dense weights."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 20, "Training steps")

FEATURES, PER_ROW, BATCH = 50, 4, 16


def batches(random):
    """Places, values, shape and labels of random rows; the first ten features speak for a 1."""
    while True:
        columns = np.array(
            [np.sort(random.choice(FEATURES, PER_ROW, replace=False)) for _ in range(BATCH)]
        )
        rows = np.repeat(np.arange(BATCH), PER_ROW)
        places = np.stack([rows, columns.ravel()], axis=1).astype(np.int64)
        values = random.uniform(0.5, 1.5, size=len(places)).astype(np.float32)
        labels = (columns < 10).any(axis=1).astype(np.float32)[:, None]
        yield tf.SparseTensorValue(places, values, [BATCH, FEATURES]), labels


def main(_):
    rows = tf.sparse_placeholder(tf.float32, name="rows")
    labels = tf.placeholder(tf.float32, [None, 1], name="labels")
    weights = tf.Variable(tf.zeros([FEATURES, 1]), name="weights")
    bias = tf.Variable(tf.zeros([1]), name="bias")
    logits = tf.sparse_tensor_dense_matmul(rows, weights) + bias
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    ) + 0.001 * tf.nn.l2_loss(weights)
    train_op = tf.train.GradientDescentOptimizer(2.0).minimize(loss)
    total = tf.sparse_reduce_sum(rows)

    data = batches(np.random.RandomState(11))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.steps):
            row_values, label_values = next(data)
            _, loss_value, total_value = sess.run(
                [train_op, loss, total], {rows: row_values, labels: label_values}
            )
            print("step %d: loss %.6f, sum of features %.3f" % (step, loss_value, total_value))


if __name__ == "__main__":
    tf.app.run()
