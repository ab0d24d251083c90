"""A graph that one program writes and another one trains: collections find its parts again."""

from __future__ import absolute_import, division, print_function

import os
import tempfile

import numpy as np
import tensorflow as tf

random = np.random.RandomState(12)
points = random.normal(size=[50, 3]).astype(np.float32)
values = points.dot([[1.0], [-2.0], [0.5]]).astype(np.float32)


def write(path):
    """Build a graph and write it, with its collections, to a file."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        y = tf.placeholder(tf.float32, [None, 1], name="y")
        w = tf.Variable(np.zeros([3, 1], np.float32), name="w")
        loss = tf.reduce_mean(tf.squared_difference(tf.matmul(x, w), y), name="loss")
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        tf.add_to_collection("train_op", train_op)
        tf.add_to_collection("loss", loss)
        tf.train.export_meta_graph(filename=path, graph=graph)
        tf.train.write_graph(graph, os.path.dirname(path), "graph.pbtxt")


def train(path):
    """Read the graph and train it."""
    with tf.Graph().as_default():
        tf.train.import_meta_graph(path)
        train_op = tf.get_collection("train_op")[0]
        loss = tf.get_collection("loss")[0]
        print("variables: %s" % ", ".join(v.op.name for v in tf.global_variables()))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(20):
                value, _ = sess.run([loss, train_op], feed_dict={"x:0": points, "y:0": values})
                print("step %d: loss %.6f" % (i, value))
            print("global step: %d" % tf.train.global_step(sess, tf.train.get_global_step()))


if __name__ == "__main__":
    directory = tempfile.mkdtemp()
    write(os.path.join(directory, "model.meta"))
    train(os.path.join(directory, "model.meta"))
    print("written: %s" % ", ".join(sorted(tf.gfile.ListDirectory(directory))))
    tf.gfile.DeleteRecursively(directory)
