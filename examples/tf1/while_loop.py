"""Loops inside the graph: the power method for an eigenvalue, and a running sum in an array."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

random = np.random.RandomState(8)
matrix = random.normal(size=[12, 12])
matrix = (matrix + matrix.T).astype(np.float32) / 2

A = tf.constant(matrix)
iterations = tf.placeholder(tf.int32, [], name="iterations")


def condition(i, vector, eigenvalue):
    return tf.less(i, iterations)


def body(i, vector, eigenvalue):
    image = tf.matmul(A, vector)
    eigenvalue = tf.reduce_sum(vector * image)
    return i + 1, image / tf.sqrt(tf.reduce_sum(tf.square(image))), eigenvalue


start = tf.constant(np.ones([12, 1]) / np.sqrt(12), tf.float32)
steps, eigenvector, found = tf.while_loop(
    condition, body, [tf.constant(0), start, tf.constant(0.0)], parallel_iterations=1
)
residual = tf.sqrt(tf.reduce_sum(tf.square(tf.matmul(A, eigenvector) - found * eigenvector)))

# The sums 0, 0 + 1, 0 + 1 + 2 and so on.
sums = tf.TensorArray(tf.float32, size=iterations)
_, _, sums = tf.while_loop(
    lambda i, total, array: i < iterations,
    lambda i, total, array: (
        i + 1,
        total + tf.cast(i + 1, tf.float32),
        array.write(i, total),
    ),
    [tf.constant(0), tf.constant(0.0), sums],
)
triangular = sums.stack()

with tf.Session() as sess:
    for n in range(1, 21):
        values = sess.run([steps, found, residual, triangular], {iterations: n})
        print("step %d: loss %.6f, eigenvalue %.5f" % (values[0], values[2], values[1]))
        assert values[3][-1] == n * (n - 1) / 2
