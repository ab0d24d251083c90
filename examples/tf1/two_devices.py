"""Data parallelism: each of two devices takes half of the batch; gradients are averaged."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

NUM_DEVICES = 2
random = np.random.RandomState(9)
features = random.normal(size=[20, 32, 10]).astype(np.float32)
targets = np.sin(features.sum(axis=2, keepdims=True)).astype(np.float32)
initial = {
    "w1": random.normal(scale=0.3, size=[10, 24]).astype(np.float32),
    "w2": random.normal(scale=0.3, size=[24, 1]).astype(np.float32),
}


def tower_loss(x, y):
    w1 = tf.get_variable("w1", initializer=initial["w1"])
    w2 = tf.get_variable("w2", initializer=initial["w2"])
    prediction = tf.matmul(tf.tanh(tf.matmul(x, w1)), w2)
    return tf.reduce_mean(tf.square(prediction - y))


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars]
        grad = tf.reduce_mean(tf.concat(axis=0, values=grads), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


with tf.Graph().as_default(), tf.device("/cpu:0"):
    x = tf.placeholder(tf.float32, [32, 10])
    y = tf.placeholder(tf.float32, [32, 1])
    optimizer = tf.train.GradientDescentOptimizer(0.05)
    losses, tower_grads = [], []
    with tf.variable_scope(tf.get_variable_scope()):
        halves = zip(tf.split(x, NUM_DEVICES), tf.split(y, NUM_DEVICES))
        for i, (half_x, half_y) in enumerate(halves):
            with tf.device("/cpu:%d" % i), tf.name_scope("tower_%d" % i):
                losses.append(tower_loss(half_x, half_y))
                tf.get_variable_scope().reuse_variables()
                tower_grads.append(optimizer.compute_gradients(losses[-1]))
    train_op = optimizer.apply_gradients(average_gradients(tower_grads))
    loss = tf.add_n(losses) / NUM_DEVICES
    init = tf.global_variables_initializer()

    config = tf.ConfigProto(device_count={"CPU": NUM_DEVICES}, allow_soft_placement=True)
    with tf.Session(config=config) as sess:
        sess.run(init)
        for step in range(20):
            feed_dict = {x: features[step], y: targets[step]}
            _, loss_value = sess.run([train_op, loss], feed_dict=feed_dict)
            print("step %d: loss %.6f" % (step, loss_value))
        run_metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        sess.run(loss, feed_dict=feed_dict, options=options, run_metadata=run_metadata)
        used = {d.device.split("device:")[-1] for d in run_metadata.step_stats.dev_stats}
        print("devices: %s" % ", ".join(sorted(d for d in used if d.startswith("CPU"))))
