"""Every other op is on a second device, and its tensors go there and back; mended: all on one."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
MENDED = "mended" in sys.argv

x = tf.placeholder(tf.float32, [16, 16], "x")
turned = tf.constant(np.roll(np.eye(16, dtype=np.float32), 1, axis=0))
hidden = x
for number in range(60):
    hidden = tf.matmul(hidden, turned)
    with tf.device("/cpu:0" if MENDED else "/cpu:1"):
        hidden = tf.matmul(turned, hidden, name=f"away_{number}")
loss = tf.reduce_mean(hidden, name="loss")

batch = np.ones((16, 16), np.float32)
with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
    for step in range(60):
        session.run(loss, {x: batch + step})
