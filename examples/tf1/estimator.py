"""An Estimator with graph, summaries and run metadata of steps in its own event file."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("model_dir", "/tmp/estimator", "Where checkpoints and events go")
tf.app.flags.DEFINE_integer("trace_every", 10, "Steps from one traced step to the next")
FLAGS = tf.app.flags.FLAGS


def rows():
    random = np.random.RandomState(6)
    x = random.normal(size=[64, 8]).astype(np.float32)
    y = np.tanh(x.dot(random.normal(size=[8, 1]))).astype(np.float32)
    return {"x": x}, y


def dense(name, x, size, random):
    """A layer whose initial weights come from NumPy."""
    weights = random.normal(scale=0.3, size=[int(x.shape[1]), size]).astype(np.float32)
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", initializer=tf.constant(weights))
        bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def model_fn(features, labels, mode, params):
    random = np.random.RandomState(7)
    hidden = tf.nn.relu(dense("hidden", features["x"], params["units"], random))
    predictions = dense("output", hidden, 1, random)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": predictions})
    loss = tf.losses.mean_squared_error(labels, predictions)
    optimizer = tf.train.RMSPropOptimizer(params["rate"])
    return tf.estimator.EstimatorSpec(
        mode,
        predictions={"y": predictions},
        loss=loss,
        train_op=optimizer.minimize(loss, global_step=tf.train.get_global_step()),
        eval_metric_ops={"absolute": tf.metrics.mean(tf.abs(labels - predictions))},
    )


class RunMetadataHook(tf.train.SessionRunHook):
    """Traces every so many steps, and adds what they did to the event file of a directory.

    Writers are shared by directory: that of `model_dir` is the Estimator's own.
    """

    def __init__(self, every_n_steps, output_dir):
        self._every_n_steps = every_n_steps
        self._output_dir = output_dir

    def begin(self):
        self._step = -1
        self._writer = tf.summary.FileWriterCache.get(self._output_dir)

    def before_run(self, run_context):
        self._step += 1
        options = None
        if self._step % self._every_n_steps == 0:
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        loss = run_context.original_args.fetches[1]
        return tf.train.SessionRunArgs(loss, options=options)

    def after_run(self, run_context, run_values):
        print("step %d: loss %.6f" % (self._step, run_values.results))
        if self._step % self._every_n_steps == 0:
            self._writer.add_run_metadata(
                run_values.run_metadata, "step_%d" % self._step, self._step
            )


def main(_):
    if tf.gfile.Exists(FLAGS.model_dir):
        tf.gfile.DeleteRecursively(FLAGS.model_dir)
    config = tf.estimator.RunConfig(model_dir=FLAGS.model_dir, save_summary_steps=5)
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"units": 16, "rate": 0.01})
    x, y = rows()
    inputs = tf.estimator.inputs.numpy_input_fn
    estimator.train(
        inputs(x, y, batch_size=16, num_epochs=5, shuffle=False),
        hooks=[RunMetadataHook(FLAGS.trace_every, FLAGS.model_dir)],
    )
    found = estimator.evaluate(inputs(x, y, batch_size=16, num_epochs=1, shuffle=False))
    print("step %d: off by %.4f on average" % (found["global_step"], found["absolute"]))
    rest = inputs(x, batch_size=16, num_epochs=1, shuffle=False)
    print("%d rows predicted" % len(list(estimator.predict(rest))))


if __name__ == "__main__":
    tf.app.run()
