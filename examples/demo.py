"""The forward pass of a small network over a few batches: where does the time go?

stepscope run examples/demo.py [--batches 8] [--batch-size 128]
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

PIXELS, HIDDEN, CLASSES = 784, 256, 10


def dense(inputs, units, name, activation=None):
    with tf.name_scope(name):
        width = inputs.shape.as_list()[-1]
        kernel = tf.Variable(
            tf.truncated_normal([width, units], stddev=width**-0.5, seed=units), name="kernel"
        )
        bias = tf.Variable(tf.zeros([units]), name="bias")
        outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
        return activation(outputs) if activation else outputs


def network():
    images = tf.placeholder(tf.float32, [None, PIXELS], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")

    with tf.name_scope("normalise"):
        mean = tf.reduce_mean(images, axis=1, keepdims=True)
        spread = tf.sqrt(tf.reduce_mean(tf.square(images - mean), axis=1, keepdims=True))
        normal = (images - mean) / (spread + 1e-6)
    hidden = dense(normal, HIDDEN, "layer1", tf.nn.relu)
    hidden = dense(hidden, HIDDEN, "layer2", tf.nn.relu)
    logits = dense(hidden, CLASSES, "output")

    with tf.name_scope("evaluation"):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses, name="loss")
        hits = tf.equal(tf.argmax(logits, axis=1), labels)
        accuracy = tf.reduce_mean(tf.cast(hits, tf.float32), name="accuracy")
    return images, labels, loss, accuracy


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=128)
    arguments = parser.parse_args()

    images, labels, loss, accuracy = network()
    data = np.random.RandomState(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in range(arguments.batches):
            feeds = {
                images: data.rand(arguments.batch_size, PIXELS).astype(np.float32),
                labels: data.randint(CLASSES, size=arguments.batch_size),
            }
            found, right = session.run([loss, accuracy], feed_dict=feeds)
            print(f"batch {batch + 1}: loss {found:.3f}, accuracy {right:.2f}")


if __name__ == "__main__":
    main()
