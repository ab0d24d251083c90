"""A line through noisy points: momentum, a learning rate that decays."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

random = np.random.RandomState(0)
train_X = random.uniform(-1, 3, size=40).astype(np.float32)
train_Y = (1.7 * train_X - 0.6 + random.normal(scale=0.1, size=40)).astype(np.float32)

X = tf.placeholder("float")
Y = tf.placeholder("float")
W = tf.Variable(0.3, name="weight")
b = tf.Variable(-0.1, name="bias")

pred = tf.add(tf.multiply(X, W), b)
cost = tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * len(train_X))

global_step = tf.Variable(0, trainable=False)
learning_rate = tf.train.exponential_decay(0.1, global_step, 5, 0.9, staircase=True)
optimizer = tf.train.MomentumOptimizer(learning_rate, 0.5)
train_op = optimizer.minimize(cost, global_step=global_step)

init = tf.initialize_all_variables() if tf.__version__ < "1" else tf.global_variables_initializer()

with tf.Session() as sess:
    sess.run(init)
    for epoch in range(20):
        _, c, rate = sess.run([train_op, cost, learning_rate], feed_dict={X: train_X, Y: train_Y})
        print("step %d: loss %.6f, learning rate %.4f" % (epoch, c, rate))
    print("W=%.4f b=%.4f after %d steps" % tuple(sess.run([W, b, global_step])))
