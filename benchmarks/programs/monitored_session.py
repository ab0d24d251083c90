"""Training in a MonitoredTrainingSession of TensorFlow 1."""

import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
random = np.random.default_rng(1)
images = random.random((64, 784), np.float32)
labels = random.integers(0, 10, 64)
x = tf.placeholder(tf.float32, [None, 784])
y = tf.placeholder(tf.int64, [None])
hidden = tf.nn.relu(tf.matmul(x, tf.Variable(tf.random.truncated_normal([784, 256], stddev=0.05))))
logits = tf.matmul(hidden, tf.Variable(tf.random.truncated_normal([256, 10], stddev=0.05)))
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
step = tf.train.get_or_create_global_step()
train = tf.train.AdamOptimizer().minimize(loss, global_step=step)
began = time.perf_counter()
with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=1000)]) as session:
    while not session.should_stop():
        session.run(train, {x: images, y: labels})
print(f"the loop took {time.perf_counter() - began} s")
