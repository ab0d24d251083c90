"""The names of TensorFlow before 1.0, and the order of arguments of then."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(11)
points = rng.normal(size=[20, 40, 2]).astype(np.float32)
classes = (points[..., 0] * points[..., 1] > 0).astype(int)

x = tf.placeholder(tf.float32, [None, 2])
y = tf.placeholder(tf.float32, [None, 2])
first, second = tf.split(1, 2, x)
features = tf.concat(1, [x, tf.mul(first, second)])
w = tf.Variable(np.full([3, 2], 0.1, np.float32), name="w")
logits = tf.matmul(features, w)
cost = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits, y))
tf.scalar_summary("cost", cost)
tf.histogram_summary("w", w)
merged = tf.merge_all_summaries()
gradient = tf.gradients(cost, w)[0]
rows = tf.unpack(gradient)
step_op = w.assign(tf.sub(w, tf.mul(tf.pack(rows), 2.0)))

with tf.Session() as sess:
    sess.run(tf.initialize_all_variables())
    writer = tf.train.SummaryWriter("before_1_0", sess.graph)
    for step, (batch, wanted) in enumerate(zip(points, classes)):
        feed = {x: batch, y: np.eye(2)[wanted]}
        summary, value = sess.run([merged, cost], feed_dict=feed)
        sess.run(step_op, feed_dict=feed)
        writer.add_summary(summary, step)
        print("step %d: loss %.6f" % (step, value))
    writer.close()
