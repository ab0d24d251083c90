"""A softmax over many classes, trained by a sample of them, evaluated over all."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

CLASSES, WIDTH, BATCH = 300, 16, 48
rng = np.random.RandomState(2)
centres = rng.normal(size=[CLASSES, WIDTH]).astype(np.float32)
chosen = rng.randint(0, CLASSES, size=[20, BATCH])

tf.set_random_seed(4)
inputs = tf.placeholder(tf.float32, [BATCH, WIDTH])
labels = tf.placeholder(tf.int64, [BATCH])
softmax_w = tf.get_variable("softmax_w", initializer=centres * 0.1)
softmax_b = tf.get_variable("softmax_b", [CLASSES], initializer=tf.zeros_initializer())
true = tf.reshape(labels, [-1, 1])
sampled = tf.nn.uniform_candidate_sampler(true, 1, 64, True, CLASSES)
sampled_loss = tf.reduce_mean(
    tf.nn.sampled_softmax_loss(
        softmax_w,
        softmax_b,
        true,
        inputs,
        64,
        CLASSES,
        sampled_values=sampled,
        remove_accidental_hits=True,
    )
)
train_op = tf.train.AdadeltaOptimizer(20.0, 0.9, 1e-2).minimize(sampled_loss)
logits = tf.matmul(inputs, softmax_w, transpose_b=True) + softmax_b
whole_loss = tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step, batch in enumerate(chosen):
        feed = {inputs: centres[batch], labels: batch}
        value = sess.run(whole_loss, feed)
        sampled_value, _ = sess.run([sampled_loss, train_op], feed)
        print("step %d: loss %.6f, of the sample %.6f" % (step, value, sampled_value))
