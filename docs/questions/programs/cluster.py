"""Three workers fetch weights from a parameter server and send it gradients."""

import numpy as np
import tensorflow as tf

import stepscope
from stepscope.adapters.tensorflow import Session

v1 = tf.compat.v1
BATCH = np.random.default_rng(3).normal(size=(32, 256)).astype(np.float32)


def program(workers):
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            w = v1.get_variable("w", [256, 256], initializer=v1.ones_initializer())
            weights = tf.square(w, name="weights")
        x = v1.placeholder(tf.float32, [None, 256], name="x")
        extra = v1.placeholder(tf.float32, [None, None], name="extra")
        gradients = []
        for task in range(workers):
            with tf.device(f"/job:worker/task:{task}"):
                inputs = tf.identity(x)
                if task == 1:
                    inputs += tf.reduce_sum(tf.matmul(extra, extra, name="extra_work")) * 0.0
                loss = tf.reduce_mean(tf.matmul(inputs, weights, name=f"layer_{task}"))
                (gradient,) = v1.gradients(loss, [weights])
                gradients.append(tf.multiply(gradient, 1e-3, name=f"gradient_{task}"))
        with tf.device("/job:ps/task:0"):
            v1.assign_sub(w, v1.add_n(gradients, name="sum")).op  # noqa: B018
            v1.global_variables_initializer()
    return graph


def train(session, extra=1):
    """One step; the second worker has a matrix of this size to multiply first."""
    metadata = stepscope.RunMetadata()
    session.run(
        "AssignSubVariableOp",
        {"x:0": BATCH, "extra:0": np.ones((extra, extra), np.float32)},
        options=stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE),
        run_metadata=metadata,
    )
    return metadata


def connect(target, workers):
    session = Session(target, graph=program(workers))
    session.run("init")
    return session
