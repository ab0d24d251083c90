"""Made pictures read row by row by an LSTM, as the tutorials did with MNIST's."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

ROWS, COLUMNS, UNITS, CLASSES, BATCH = 8, 8, 16, 4, 32
random = np.random.RandomState(2)


def pictures(count):
    """A bright bar in one of four places, and noise."""
    labels = random.randint(CLASSES, size=count)
    made = random.uniform(0, 0.3, size=(count, ROWS, COLUMNS)).astype(np.float32)
    for picture, label in zip(made, labels):
        picture[2 * label : 2 * label + 2] += 0.7
    return made, np.eye(CLASSES, dtype=np.float32)[labels]


x = tf.placeholder(tf.float32, [None, ROWS, COLUMNS], name="x")
y = tf.placeholder(tf.float32, [None, CLASSES], name="y")
kernel = random.uniform(-0.3, 0.3, size=(COLUMNS + UNITS, 4 * UNITS)).astype(np.float32)
weights = tf.Variable(random.uniform(-0.3, 0.3, size=(UNITS, CLASSES)).astype(np.float32))

with tf.variable_scope("net", initializer=tf.constant_initializer(kernel)):
    cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS, forget_bias=1.0)
    outputs, state = tf.nn.static_rnn(cell, tf.unstack(x, ROWS, 1), dtype=tf.float32)
logits = tf.matmul(outputs[-1], weights)
loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
right = tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1))
accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
train_op = tf.train.AdamOptimizer(0.02).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(20):
        batch_x, batch_y = pictures(BATCH)
        value, share, _ = sess.run([loss, accuracy, train_op], {x: batch_x, y: batch_y})
        print("step %d: loss %.6f, accuracy %.4f" % (i, value, share))
