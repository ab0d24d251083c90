"""Training that is saved, stopped and taken up again: `tf.train.Saver` and its checkpoints."""

from __future__ import absolute_import, division, print_function

import os
import tempfile

import numpy as np
import tensorflow as tf

random = np.random.RandomState(13)
points = random.normal(size=[64, 4]).astype(np.float32)
values = np.sin(points.dot(random.normal(size=[4, 1]))).astype(np.float32)


def build():
    """A small network; Adam's slots are variables and are saved as well."""
    start = np.random.RandomState(14)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    w1 = tf.Variable(start.normal(scale=0.5, size=[4, 8]).astype(np.float32), name="w1")
    w2 = tf.Variable(start.normal(scale=0.5, size=[8, 1]).astype(np.float32), name="w2")
    loss = tf.reduce_mean(
        tf.squared_difference(tf.matmul(tf.tanh(tf.matmul(x, w1)), w2), y), name="loss"
    )
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=step)
    tf.add_to_collection("train_op", train_op)


def train(sess, steps, saver=None, path=None):
    """Train for some steps, and save every fifth."""
    train_op = tf.get_collection("train_op")[0]
    feed = {"x:0": points, "y:0": values}
    for _ in range(steps):
        step = tf.train.global_step(sess, tf.train.get_global_step())
        loss, _ = sess.run(["loss:0", train_op], feed_dict=feed)
        print("step %d: loss %.6f" % (step, loss))
        if saver is not None and (step + 1) % 5 == 0:
            saver.save(sess, path, global_step=step + 1)


if __name__ == "__main__":
    directory = tempfile.mkdtemp()
    with tf.Graph().as_default(), tf.Session() as sess:
        build()
        saver = tf.train.Saver(max_to_keep=2)
        sess.run(tf.global_variables_initializer())
        train(sess, 15, saver, os.path.join(directory, "model.ckpt"))

    # Another program would begin here: the graph is built again, its variables are restored.
    latest = tf.train.latest_checkpoint(directory)
    print("restoring %s" % os.path.basename(latest))
    with tf.Graph().as_default(), tf.Session() as sess:
        build()
        tf.train.Saver().restore(sess, latest)
        train(sess, 3)

    # The graph itself is saved, too.
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.import_meta_graph(latest + ".meta")
        saver.restore(sess, latest)
        print("imported at step %d" % tf.train.global_step(sess, tf.train.get_global_step()))
        train(sess, 2)

    for name, shape in tf.train.list_variables(latest):
        print("%s %s" % (name, shape))
    print("written: %s" % ", ".join(sorted(tf.gfile.ListDirectory(directory))))
    tf.gfile.DeleteRecursively(directory)
