"""Skip-grams with noise-contrastive estimation: the classes that are sampled follow from a seed."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

VOCABULARY, WIDTH, BATCH, SAMPLED = 200, 24, 32, 16

rng = np.random.RandomState(7)
# Words are as frequent as their rank says; what stands beside a word is near to it.
words = np.minimum((VOCABULARY ** rng.uniform(size=4000)).astype(int), VOCABULARY - 2)
neighbours = words + rng.randint(-1, 2, size=4000)

tf.set_random_seed(1)
inputs = tf.placeholder(tf.int32, shape=[BATCH])
labels = tf.placeholder(tf.int32, shape=[BATCH, 1])
start = rng.uniform(-1.0, 1.0, [VOCABULARY, WIDTH]).astype(np.float32)
embeddings = tf.Variable(start)
weights = tf.Variable(np.zeros([VOCABULARY, WIDTH], np.float32))
biases = tf.Variable(tf.zeros([VOCABULARY]))
loss = tf.reduce_mean(
    tf.nn.nce_loss(
        weights=weights,
        biases=biases,
        labels=labels,
        inputs=tf.nn.embedding_lookup(embeddings, inputs),
        num_sampled=SAMPLED,
        num_classes=VOCABULARY,
    )
)
train_step = tf.train.AdagradOptimizer(0.5).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(20):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        feed_dict = {inputs: words[rows], labels: neighbours[rows, np.newaxis]}
        _, loss_value = sess.run([train_step, loss], feed_dict=feed_dict)
        print("step %d: loss %.6f" % (step, loss_value))
