"""Train a small network: its loss falls, and most of each step goes into one mistake.

stepscope run examples/demo.py [--steps 120] [--batch-size 64]
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

SIDE, HIDDEN, CLASSES = 16, 32, 4


def smooth(images):
    """The images without noise: in Python, one at a time, and in every step again."""
    smoothed = []
    for image in images:
        around = [np.roll(image, shift, axis) for shift in (-1, 1) for axis in (0, 1)]
        smoothed.append(np.median([image, *around], axis=0))
    return np.stack(smoothed).astype(np.float32)


def dense(inputs, units, name, activation=None):
    with tf.variable_scope(name):
        width = inputs.shape.as_list()[-1]
        start = tf.truncated_normal_initializer(stddev=width**-0.5, seed=units)
        kernel = tf.get_variable("kernel", [width, units], initializer=start)
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
        return activation(outputs) if activation else outputs


def network():
    images = tf.placeholder(tf.float32, [None, SIDE, SIDE], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")

    smoothed = tf.py_func(smooth, [images], tf.float32, name="smooth")
    flat = tf.reshape(smoothed, [-1, SIDE * SIDE], name="flat")
    hidden = dense(flat, HIDDEN, "layer1", tf.nn.relu)
    hidden = dense(hidden, HIDDEN, "layer2", tf.nn.relu)
    logits = dense(hidden, CLASSES, "output")

    with tf.name_scope("loss"):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses, name="mean")
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    return images, labels, loss, train


def batches(steps, size):
    """Noisy images, each brighter in one quarter: which one it is has to be learnt."""
    random = np.random.RandomState(0)
    half = SIDE // 2
    for _ in range(steps):
        labels = random.randint(CLASSES, size=size)
        images = random.rand(size, SIDE, SIDE).astype(np.float32)
        for image, label in zip(images, labels, strict=True):
            top, left = half * (label // 2), half * (label % 2)
            image[top : top + half, left : left + half] += 0.2
        yield images, labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()

    images, labels, loss, train = network()
    alone = tf.ConfigProto(intra_op_parallelism_threads=1)  # products this small gain by no second
    with tf.Session(config=alone) as session:
        session.run(tf.global_variables_initializer())
        for step, (pixels, classes) in enumerate(batches(arguments.steps, arguments.batch_size)):
            found, _ = session.run([loss, train], feed_dict={images: pixels, labels: classes})
            if step % 20 == 0 or step == arguments.steps - 1:
                print(f"step {step + 1}: loss {found:.3f}")


if __name__ == "__main__":
    main()
