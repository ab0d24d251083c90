"""What the stores here are recordings of: a small training, a loop, and a run that fails."""

import contextlib

import numpy as np

import stepscope.tf1 as tf

x = tf.placeholder(tf.float32, [None, 2], name="x")
w = tf.Variable(np.ones((2, 1), np.float32), name="w")
loss = tf.reduce_mean(tf.matmul(x, w, name="product"), name="loss")
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
bad = tf.check_numerics(tf.log(tf.reduce_sum(x) * -1.0), "negative", name="bad")
loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")
with tf.Session() as session:
    session.run(w.initializer)
    for _ in range(2):
        session.run([train, loss], {x: np.ones((2, 2), np.float32)})
    session.run(loop)
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        session.run(bad, {x: np.ones((1, 2), np.float32)})
