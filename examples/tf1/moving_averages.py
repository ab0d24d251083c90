"""A learning rate in steps, FTRL that makes weights zero, and averages of the weights."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(3)
truth = np.zeros([30, 1], np.float32)
truth[:5] = rng.normal(size=[5, 1])
data = rng.normal(size=[20, 64, 30]).astype(np.float32)

x = tf.placeholder(tf.float32, [None, 30])
y = tf.placeholder(tf.float32, [None, 1])
weights = tf.get_variable("weights", initializer=np.full([30, 1], 0.1, np.float32))
loss = tf.reduce_mean(tf.squared_difference(tf.matmul(x, weights), y))

global_step = tf.train.get_or_create_global_step()
rate = tf.train.piecewise_constant(global_step, [5, 12], [1.0, 0.5, 0.25])
optimizer = tf.train.FtrlOptimizer(rate, l1_regularization_strength=0.05)
update = optimizer.minimize(loss, global_step=global_step)
averages = tf.train.ExponentialMovingAverage(0.9, num_updates=global_step)
with tf.control_dependencies([update]):
    train_op = averages.apply([weights])
averaged_loss = tf.reduce_mean(
    tf.squared_difference(tf.matmul(x, averages.average(weights)), y), name="averaged"
)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step, batch in enumerate(data):
        feed = {x: batch, y: batch.dot(truth)}
        value, now = sess.run([loss, rate], feed)
        sess.run(train_op, feed)
        print("step %d: loss %.6f, rate %.2f" % (step, value, now))
    print("of the average: %.4f" % sess.run(averaged_loss, feed))
    print("weights that are zero: %d" % np.sum(sess.run(weights) == 0.0))
    print(averages.average_name(weights))
