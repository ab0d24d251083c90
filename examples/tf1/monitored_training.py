"""A training loop with hooks, among them the ProfilerHook, which writes timelines."""

from __future__ import absolute_import, division, print_function

import os

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("train_dir", "/tmp/monitored_training", "Where event files go")
tf.app.flags.DEFINE_integer("max_steps", 20, "Number of steps to train")
FLAGS = tf.app.flags.FLAGS


def inputs(batch_size=16):
    random = np.random.RandomState(4)
    x = random.normal(size=[64, 8]).astype(np.float32)
    y = np.tanh(x.dot(random.normal(size=[8, 1]))).astype(np.float32)
    position = tf.mod(tf.train.get_or_create_global_step() * batch_size, 64)
    rows = tf.cast(position, tf.int32) + tf.range(batch_size)
    return tf.gather(tf.constant(x), rows), tf.gather(tf.constant(y), rows)


def model(x):
    random = np.random.RandomState(5)
    w1 = tf.Variable(random.normal(scale=0.3, size=[8, 16]).astype(np.float32), name="w1")
    w2 = tf.Variable(random.normal(scale=0.3, size=[16, 1]).astype(np.float32), name="w2")
    return tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2)


class LossHook(tf.train.SessionRunHook):
    """Prints the loss of every step."""

    def __init__(self, loss):
        self._loss = loss

    def begin(self):
        self._step = -1

    def before_run(self, run_context):
        self._step += 1
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        print("step %d: loss %.6f" % (self._step, run_values.results))


def main(_):
    if tf.gfile.Exists(FLAGS.train_dir):
        tf.gfile.DeleteRecursively(FLAGS.train_dir)
    tf.gfile.MakeDirs(FLAGS.train_dir)
    tf.logging.set_verbosity(tf.logging.INFO)
    with tf.Graph().as_default():
        global_step = tf.train.get_or_create_global_step()
        x, y = inputs()
        loss = tf.reduce_mean(tf.squared_difference(model(x), y), name="loss")
        tf.summary.scalar("loss", loss)
        optimizer = tf.train.RMSPropOptimizer(0.01)
        grads_and_vars = optimizer.compute_gradients(loss)
        # The input of a step depends on the count of steps, so it is counted up last.
        with tf.control_dependencies([loss]):
            train_op = optimizer.apply_gradients(grads_and_vars, global_step=global_step)
        hooks = [
            tf.train.StopAtStepHook(last_step=FLAGS.max_steps),
            tf.train.NanTensorHook(loss),
            tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=10),
            tf.train.ProfilerHook(save_steps=10, output_dir=FLAGS.train_dir, show_memory=True),
            LossHook(loss),
        ]
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=None,
            hooks=hooks,
            config=tf.ConfigProto(log_device_placement=False),
        ) as mon_sess:
            while not mon_sess.should_stop():
                mon_sess.run(train_op)
    written = [n for n in tf.gfile.ListDirectory(FLAGS.train_dir) if n.startswith("timeline")]
    sizes = [tf.gfile.Stat(os.path.join(FLAGS.train_dir, name)).length for name in written]
    print("%d timelines, all with events: %s" % (len(written), min(sizes) > 1000))


if __name__ == "__main__":
    tf.app.run()
