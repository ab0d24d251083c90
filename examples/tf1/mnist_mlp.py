"""A network with two hidden layers on MNIST, trained with Adam and traced once."""

from __future__ import absolute_import, division, print_function

import os

import numpy as np
import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.client import timeline

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", "MNIST_data", "Where MNIST is")
flags.DEFINE_string("trace_dir", "/tmp/mnist_mlp", "Where the timeline goes")
flags.DEFINE_integer("max_steps", 20, "Number of steps to train")
flags.DEFINE_integer("batch_size", 64, "Examples per step")
flags.DEFINE_float("learning_rate", 0.002, "Initial learning rate")

SIZES = [784, 128, 64, 10]
random = np.random.RandomState(7)


def weights(name, shape):
    start = random.normal(scale=1.0 / np.sqrt(shape[0]), size=shape).astype(np.float32)
    return tf.get_variable(name, initializer=tf.constant(start))


def inference(images):
    layer = images
    for i, (fan_in, fan_out) in enumerate(zip(SIZES[:-1], SIZES[1:])):
        with tf.variable_scope("layer%d" % (i + 1)):
            w = weights("weights", [fan_in, fan_out])
            b = tf.get_variable("biases", [fan_out], initializer=tf.constant_initializer(0.0))
            layer = tf.nn.bias_add(tf.matmul(layer, w), b)
            if fan_out != SIZES[-1]:
                layer = tf.nn.relu(layer)
    return layer


def main(_):
    mnist = input_data.read_data_sets(FLAGS.data_dir, seed=3)
    images = tf.placeholder(tf.float32, [None, SIZES[0]], name="images")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    logits = inference(images)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="loss"
    )
    global_step = tf.Variable(0, name="global_step", trainable=False)
    train_op = tf.train.AdamOptimizer(FLAGS.learning_rate).minimize(loss, global_step=global_step)
    correct = tf.nn.in_top_k(logits, labels, 1)

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.max_steps):
            batch = mnist.train.next_batch(FLAGS.batch_size)
            feeds = {images: batch[0], labels: batch[1]}
            options, metadata = None, None
            if step == FLAGS.max_steps - 1:
                options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                metadata = tf.RunMetadata()
            _, value = sess.run([train_op, loss], feeds, options=options, run_metadata=metadata)
            print("step %d: loss %.6f" % (step, value))
        trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
        tf.gfile.MakeDirs(FLAGS.trace_dir)
        with tf.gfile.Open(os.path.join(FLAGS.trace_dir, "timeline.json"), "w") as f:
            f.write(trace)
        feeds = {images: mnist.test.images, labels: mnist.test.labels}
        print("%d of %d right" % (np.sum(sess.run(correct, feeds)), mnist.test.num_examples))


if __name__ == "__main__":
    tf.app.run()
