"""Summaries for TensorBoard, every fifth step with its run metadata, as the tutorial has it."""

from __future__ import absolute_import, division, print_function

import argparse
import sys

import numpy as np
import tensorflow as tf

FLAGS = None
random = np.random.RandomState(6)


def variable_summaries(var):
    """Attach summaries to a tensor, for TensorBoard."""
    with tf.name_scope("summaries"):
        mean = tf.reduce_mean(var)
        tf.summary.scalar("mean", mean)
        with tf.name_scope("stddev"):
            stddev = tf.sqrt(tf.reduce_mean(tf.square(var - mean)))
        tf.summary.scalar("stddev", stddev)
        tf.summary.scalar("max", tf.reduce_max(var))
        tf.summary.scalar("min", tf.reduce_min(var))
        tf.summary.histogram("histogram", var)


def nn_layer(input_tensor, input_dim, output_dim, layer_name, act=tf.nn.relu):
    with tf.name_scope(layer_name):
        with tf.name_scope("weights"):
            start = random.normal(scale=0.2, size=[input_dim, output_dim])
            weights = tf.Variable(start.astype(np.float32))
            variable_summaries(weights)
        with tf.name_scope("biases"):
            biases = tf.Variable(tf.constant(0.1, shape=[output_dim]))
            variable_summaries(biases)
        with tf.name_scope("Wx_plus_b"):
            preactivate = tf.matmul(input_tensor, weights) + biases
            tf.summary.histogram("pre_activations", preactivate)
        return act(preactivate, name="activation")


def main(_):
    if tf.gfile.Exists(FLAGS.log_dir):
        tf.gfile.DeleteRecursively(FLAGS.log_dir)
    tf.gfile.MakeDirs(FLAGS.log_dir)

    sess = tf.InteractiveSession()
    with tf.name_scope("input"):
        x = tf.placeholder(tf.float32, [None, 20], name="x-input")
        y_ = tf.placeholder(tf.float32, [None, 4], name="y-input")
    hidden1 = nn_layer(x, 20, 16, "layer1")
    y = nn_layer(hidden1, 16, 4, "layer2", act=tf.identity)
    with tf.name_scope("cross_entropy"):
        diff = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y_, logits=y)
        with tf.name_scope("total"):
            cross_entropy = tf.reduce_mean(diff)
    tf.summary.scalar("cross_entropy", cross_entropy)
    with tf.name_scope("train"):
        train_step = tf.train.AdamOptimizer(0.01).minimize(cross_entropy)

    merged = tf.summary.merge_all()
    train_writer = tf.summary.FileWriter(FLAGS.log_dir + "/train", sess.graph)
    tf.global_variables_initializer().run()

    for i in range(FLAGS.max_steps):
        xs = random.normal(size=[50, 20]).astype(np.float32)
        ys = np.eye(4, dtype=np.float32)[xs[:, :4].argmax(axis=1)]
        feed_dict = {x: xs, y_: ys}
        fetches = [merged, cross_entropy, train_step]
        if i % 5 == 4:
            run_options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            run_metadata = tf.RunMetadata()
            summary, loss, _ = sess.run(
                fetches, feed_dict=feed_dict, options=run_options, run_metadata=run_metadata
            )
            train_writer.add_run_metadata(run_metadata, "step%03d" % i)
            train_writer.add_summary(summary, i)
            print("Adding run metadata for", i)
        else:
            summary, loss, _ = sess.run(fetches, feed_dict=feed_dict)
            train_writer.add_summary(summary, i)
        print("step %d: loss %.6f" % (i, loss))
    train_writer.close()
    sess.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=20, help="Number of steps to train")
    parser.add_argument("--log_dir", type=str, default="/tmp/summaries", help="For event files")
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
