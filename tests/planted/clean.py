"""Nothing is planted here: it trains, in batches, on what it is fed."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

x = tf.placeholder(tf.float32, [256, 256], "x")
y = tf.placeholder(tf.float32, [256, 256], "y")
hidden = x
for layer in range(3):
    kernel = tf.get_variable(f"kernel_{layer}", [256, 256])
    hidden = tf.nn.relu(tf.matmul(hidden, kernel))
loss = tf.reduce_mean(tf.square(hidden - y), name="loss")
train = tf.train.GradientDescentOptimizer(0.001).minimize(loss, name="train")

rng = np.random.default_rng(1)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(40):
        batch = rng.normal(size=(2, 256, 256)).astype(np.float32)
        session.run([train, loss], {x: batch[0], y: batch[1]})
