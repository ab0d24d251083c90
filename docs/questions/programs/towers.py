"""Two towers that are asked to run on different devices, and their sum."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

x = tf.placeholder(tf.float32, [None, 256], name="x")
towers = []
for number, device in enumerate(["/cpu:0", "/cpu:1", "/gpu:0"]):
    with tf.device(device), tf.name_scope(f"tower_{number}"):
        kernel = tf.random_uniform([256, 256], seed=number, name="kernel")
        towers.append(tf.nn.relu(tf.matmul(x, kernel), name="out"))
with tf.device("/cpu:0"):
    total = tf.add_n(towers, name="total")

config = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
with tf.Session(config=config) as session:
    session.run(total, {x: np.ones((128, 256), np.float32)})
