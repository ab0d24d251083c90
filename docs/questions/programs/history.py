"""Keeps what it saw in each step in a queue that nobody empties."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

x = tf.placeholder(tf.float32, [256, 1024], "x")
with tf.variable_scope("model"):
    kernel = tf.get_variable("kernel", [1024, 64])
    hidden = tf.nn.relu(tf.matmul(x, kernel), name="hidden")
loss = tf.reduce_mean(hidden, name="loss")
history = tf.FIFOQueue(1000, [tf.float32], name="history")
remember = history.enqueue(hidden, name="remember")

batch = np.ones((256, 1024), np.float32)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(20):
        session.run([loss, remember], {x: batch + step})
