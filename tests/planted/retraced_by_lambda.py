"""The function is made anew in each pass of the loop; mended: it is made once."""

import sys

import tensorflow as tf

MENDED = "mended" in sys.argv
weights = tf.Variable(tf.random.stateless_normal([64, 64], [1, 2]))


def forward(x):
    hidden = x
    for _ in range(30):
        hidden = tf.nn.relu(hidden @ weights)
    return tf.reduce_mean(hidden)


batch = tf.ones([32, 64])
made = tf.function(lambda x: forward(x))
for _ in range(25):
    step = made if MENDED else tf.function(lambda x: forward(x))
    step(batch)
