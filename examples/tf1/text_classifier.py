"""Sentences sorted by mood: words to numbers by a vocabulary table, the mean of their vectors."""

from __future__ import absolute_import, division, print_function

import os
import tempfile

import numpy as np
import tensorflow as tf

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 20, "Training steps")

GOOD = ["good", "great", "lovely", "fine", "excellent", "happy"]
BAD = ["bad", "awful", "sad", "poor", "terrible", "dull"]
OTHER = ["the", "a", "film", "story", "actor", "music", "was", "and", "very"]
WORDS, BUCKETS, UNITS, BATCH = 7, 4, 8, 16


def write_vocabulary(directory):
    """One word a line; some words of the sentences are not among them, and go to buckets."""
    path = os.path.join(directory, "vocabulary.txt")
    with tf.gfile.GFile(path, "w") as vocabulary:
        vocabulary.write("\n".join(OTHER + GOOD[:-1] + BAD[:-1]) + "\n")
    return path


def batches(random):
    """Rows of words, each with one of a mood, and the mood."""
    while True:
        labels = random.randint(0, 2, size=BATCH)
        rows = random.choice(OTHER, size=(BATCH, WORDS)).astype(object)
        for row, label in zip(rows, labels):
            row[random.randint(WORDS)] = random.choice(GOOD if label else BAD)
        yield rows, labels.astype(np.float32)[:, None]


def main(_):
    initializer = tf.lookup.TextFileInitializer(
        write_vocabulary(tempfile.mkdtemp()),
        tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
    )  # fmt: skip
    table = tf.lookup.StaticVocabularyTable(initializer, BUCKETS)
    known = len(OTHER + GOOD + BAD) - 2

    words = tf.placeholder(tf.string, [None, WORDS], name="words")
    labels = tf.placeholder(tf.float32, [None, 1], name="labels")
    random = np.random.RandomState(5)
    start = random.uniform(-0.5, 0.5, size=(known + BUCKETS, UNITS)).astype(np.float32)
    vectors = tf.Variable(start, name="vectors")
    weights = tf.Variable(random.normal(size=(UNITS, 1)).astype(np.float32), name="weights")
    bias = tf.Variable(tf.zeros([1]), name="bias")

    ids = table.lookup(words)
    mean = tf.reduce_mean(tf.nn.embedding_lookup(vectors, ids), axis=1)
    logits = tf.matmul(mean, weights) + bias
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    train_op = tf.train.AdagradOptimizer(1.0).minimize(loss)
    strangers = tf.reduce_sum(tf.cast(ids >= known, tf.int32))

    data = batches(random)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for step in range(FLAGS.steps):
            row_values, label_values = next(data)
            _, loss_value, count = sess.run(
                [train_op, loss, strangers], {words: row_values, labels: label_values}
            )
            print("step %d: loss %.6f, %d words in buckets" % (step, loss_value, count))


if __name__ == "__main__":
    tf.app.run()
