"""A recurrent network on characters, unrolled in the graph: shared variables, clipped gradients."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

TEXT = "to be or not to be that is the question whether tis nobler in the mind to suffer " * 3
HIDDEN, STEPS, BATCH = 24, 8, 6
chars = sorted(set(TEXT))
index = {c: i for i, c in enumerate(chars)}
codes = np.array([index[c] for c in TEXT])
random = np.random.RandomState(10)


def uniform(*shape):
    return tf.constant_initializer(random.uniform(-0.2, 0.2, size=shape).astype(np.float32))


class Cell(object):
    """One step: its variables are made by the first and shared by the others."""

    def __init__(self, units, classes):
        self._units, self._classes = units, classes
        self._starts = {
            "kernel": uniform(units, units),
            "recurrent": uniform(units, units),
            "embedding": uniform(classes, units),
            "softmax_w": uniform(units, classes),
        }

    def _get(self, name, shape):
        return tf.get_variable(name, shape, initializer=self._starts[name])

    def __call__(self, ids, state):
        embedding = self._get("embedding", [self._classes, self._units])
        inputs = tf.nn.embedding_lookup(embedding, ids)
        total = tf.matmul(inputs, self._get("kernel", [self._units, self._units]))
        total += tf.matmul(state, self._get("recurrent", [self._units, self._units]))
        bias = tf.get_variable("bias", [self._units], initializer=tf.zeros_initializer())
        state = tf.tanh(total + bias)
        return tf.matmul(state, self._get("softmax_w", [self._units, self._classes])), state


inputs = tf.placeholder(tf.int32, [BATCH, STEPS], name="inputs")
targets = tf.placeholder(tf.int32, [BATCH, STEPS], name="targets")
cell = Cell(HIDDEN, len(chars))
state = tf.zeros([BATCH, HIDDEN])
outputs = []
with tf.variable_scope("rnn") as scope:
    for step, ids in enumerate(tf.unstack(inputs, axis=1)):
        if step:
            scope.reuse_variables()
        logits, state = cell(ids, state)
        outputs.append(logits)
losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=tf.reshape(targets, [-1]),
    logits=tf.reshape(tf.stack(outputs, axis=1), [-1, len(chars)]),
)
loss = tf.reduce_mean(losses)

tvars = tf.trainable_variables()
grads, norm = tf.clip_by_global_norm(tf.gradients(loss, tvars), 0.5)
train_op = tf.train.AdamOptimizer(0.01).apply_gradients(zip(grads, tvars))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(20):
        starts = random.randint(len(codes) - STEPS - 1, size=BATCH)
        windows = np.stack([codes[s : s + STEPS + 1] for s in starts])
        feed_dict = {inputs: windows[:, :-1], targets: windows[:, 1:]}
        value, length, _ = sess.run([loss, norm, train_op], feed_dict)
        print("step %d: loss %.6f, gradient norm %.4f" % (i, value, length))
