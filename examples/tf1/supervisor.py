"""A training loop in a Supervisor: it initialises, saves a checkpoint, and goes on from it."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

LOGDIR = "supervised"
rng = np.random.RandomState(5)
inputs = rng.normal(size=[20, 32, 8]).astype(np.float32)
targets = np.sin(inputs.sum(2, keepdims=True))


def train(steps):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 8])
        y = tf.placeholder(tf.float32, [None, 1])
        start = np.random.RandomState(1).normal(scale=0.3, size=[8, 16]).astype(np.float32)
        hidden = tf.nn.tanh(tf.matmul(x, tf.get_variable("hidden", initializer=start)))
        output = tf.matmul(
            hidden, tf.get_variable("output", initializer=np.full([16, 1], 0.1, "f"))
        )
        loss = tf.losses.mean_squared_error(y, output)
        global_step = tf.train.get_or_create_global_step()
        train_op = tf.train.RMSPropOptimizer(0.01).minimize(loss, global_step)
        sv = tf.train.Supervisor(logdir=LOGDIR, save_summaries_secs=0, save_model_secs=0)
        with sv.managed_session() as sess:
            while not sv.should_stop():
                step = sess.run(global_step)
                feed = {x: inputs[step], y: targets[step]}
                _, value = sess.run([train_op, loss], feed)
                print("step %d: loss %.6f" % (step, value))
                if step + 1 == steps:
                    sv.saver.save(sess, sv.save_path, global_step=step + 1)
                    sv.request_stop()


train(10)
train(20)
