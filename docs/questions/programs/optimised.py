"""A graph of which TensorFlow executes less than was written."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

x = tf.placeholder(tf.float32, [None, 64], name="x")
scale = tf.sqrt(tf.constant(16.0, name="sixteen"), name="scale")
kernel = tf.Variable(tf.ones([64, 64]), name="kernel")
product = tf.matmul(x, kernel, name="product")
same = tf.identity(product, name="same")
hidden = tf.nn.relu(same * scale, name="hidden")
again = tf.nn.relu(same * scale, name="again")
summary = tf.reduce_mean(hidden, name="summary")
out = tf.add(hidden, again, name="out")

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(out, {x: np.ones((32, 64), np.float32)})
