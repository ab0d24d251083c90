"""The same training step three ways: eager, as a function, and with Python inside.

stepscope run examples/training_loop.py

Each gradient tape outside of a function is a run, with the gradients and the update after it; each
call of a function is one. What lies between is the last run, "eager code".
"""

import tensorflow as tf

weights = tf.Variable(tf.ones((64, 8)), name="weights")
inputs = tf.random.stateless_uniform((32, 64), seed=(1, 2))
targets = tf.zeros((32, 8))


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(inputs, weights) - targets) ** 2)
    weights.assign_sub(0.001 * tape.gradient(loss, weights))
    return loss


compiled = tf.function(step)


@tf.function
def logged():
    loss = step()
    return tf.numpy_function(lambda value: value.round(3), [loss], tf.float32, name="rounded")


for name, make_step in (("eager", step), ("function", compiled), ("with Python", logged)):
    losses = [float(make_step()) for _ in range(3)]
    print(f"{name}: {len(losses)} steps, the loss fell: {losses[0] > losses[-1]}")
