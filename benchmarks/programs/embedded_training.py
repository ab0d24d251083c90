"""Training on the embedded engine."""

import time

import numpy as np

import stepscope.tf1 as tf

random = np.random.default_rng(1)
images = random.random((64, 784), np.float32)
labels = random.integers(0, 10, 64)
x = tf.placeholder(tf.float32, [None, 784])
y = tf.placeholder(tf.int64, [None])
hidden = tf.nn.relu(tf.matmul(x, tf.Variable(tf.truncated_normal([784, 256], stddev=0.05))))
logits = tf.matmul(hidden, tf.Variable(tf.truncated_normal([256, 10], stddev=0.05)))
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
began = time.perf_counter()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(1000):
        session.run(train, {x: images, y: labels})
print(f"the loop took {time.perf_counter() - began} s")
