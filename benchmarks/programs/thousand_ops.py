"""A training step of a thousand ops, two hundred times: on either engine."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
LAYERS, STEPS = 43, 200

x = tf.placeholder(tf.float32, [8, 16], "x")
hidden = x
for number in range(LAYERS):
    with tf.variable_scope(f"layer_{number}"):
        kernel = tf.get_variable("kernel", [16, 16])
        bias = tf.get_variable("bias", [16], initializer=tf.zeros_initializer())
        hidden = tf.tanh(tf.matmul(hidden, kernel) + bias) + hidden
loss = tf.reduce_mean(tf.square(hidden), name="loss")
train = tf.train.GradientDescentOptimizer(0.001).minimize(loss, name="train")
rows = np.random.default_rng(1).normal(size=(STEPS, 8, 16)).astype(np.float32)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for batch in rows:
        session.run([train, loss], {x: batch})
