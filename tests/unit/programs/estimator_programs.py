"""Programs around an Estimator, for whichever engine: `tf` is TensorFlow 1's names, ours or theirs.

What they return can be compared and kept as JSON: values a user would look at, without times and
without paths. Initial values are fixed and the input is in order, so that all of it is determined.
"""

import os

import numpy as np
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto import graph_pb2, meta_graph_pb2

DIGITS = 5


def data():
    x = np.sin(np.arange(24, dtype=np.float32)).reshape(12, 2)
    return x, (x @ np.array([[1.0], [-2.0]], np.float32) + 0.5).astype(np.float32)


def minimize(tf, optimizer, loss):
    """A train op that counts the step last.

    TensorFlow's hooks get the count from before or after the step's own, as it happens; ours the
    one from before. The step waits for the reading here, so that there is one answer.
    """
    first = []
    if not tf.__name__.startswith("stepscope"):
        from tensorflow.python.training import training_util

        first = [training_util._get_or_create_global_step_read()]
    with tf.control_dependencies(first):
        return optimizer.minimize(loss, global_step=tf.train.get_global_step())


def linear(tf):
    """A linear model: `model_fn`."""

    def model_fn(features, labels, mode, params):
        w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        out = tf.add(tf.matmul(features["x"], w), b, name="out")
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"y": out, "twice": 2.0 * out})
        loss = tf.reduce_mean(tf.square(out - labels), name="mse")
        optimizer = tf.train.GradientDescentOptimizer(params["rate"])
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={"y": out},
            loss=loss,
            train_op=minimize(tf, optimizer, loss),
            eval_metric_ops={
                "absolute": tf.metrics.mean_absolute_error(labels, out),
                "root": tf.metrics.root_mean_squared_error(labels, out),
            },
        )

    return model_fn


def layers(tf):
    """Two layers, with a summary of its own and Adam: `model_fn`."""

    def model_fn(features, labels, mode):
        first = tf.get_variable(
            "first", initializer=tf.constant([[0.3, -0.2, 0.1], [0.2, 0.4, -0.1]])
        )
        second = tf.get_variable("second", initializer=tf.constant([[0.5], [-0.4], [0.3]]))
        out = tf.matmul(tf.tanh(tf.matmul(features, first)), second)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=out)
        loss = tf.losses.mean_squared_error(labels, out)
        tf.summary.scalar("size", tf.reduce_sum(tf.square(out)))
        train = minimize(tf, tf.train.AdamOptimizer(0.05), loss)
        return tf.estimator.EstimatorSpec(mode, out, loss, train)

    return model_fn


def batches(tf, x, y=None, epochs=None):
    return tf.estimator.inputs.numpy_input_fn(x, y, batch_size=5, num_epochs=epochs, shuffle=False)


def losses_of(tf, found):
    """A hook that keeps every step's loss."""

    class Losses(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(run_context.original_args.fetches[1])

        def after_run(self, run_context, run_values):
            found.append(rounded(run_values.results))

    return Losses()


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    found = np.asarray(value)
    return found.tolist() if found.dtype.kind in "iuSO" else np.round(found, DIGITS).tolist()


def events(tf, directory):
    """What an event file says: kind, step, tag and value. Rates and paths are left out."""
    tf.summary.FileWriterCache.clear()  # TensorFlow's writes what it was given now and then
    (name,) = [n for n in os.listdir(directory) if n.startswith("events")]
    found = []
    for event in LegacyEventFileLoader(os.path.join(directory, name)).Load():
        kind = event.WhichOneof("what")
        for value in event.summary.value:
            timed = value.tag.endswith("/sec") or value.tag.endswith("_full")
            shown = None if timed or value.HasField("tensor") else rounded(value.simple_value)
            found.append([kind, event.step, value.tag, shown])
        if kind == "tagged_run_metadata":
            found.append([kind, event.step, event.tagged_run_metadata.tag, None])
        elif kind == "session_log":
            found.append([kind, event.step, event.session_log.status, None])
        elif kind in ("graph_def", "meta_graph_def") and nodes(event):
            found.append([kind, event.step, None, None])
    return found


def nodes(event):
    """The nodes of the graph in an event; TensorFlow's writers also write empty graphs."""
    if event.WhichOneof("what") == "graph_def":
        return graph_pb2.GraphDef.FromString(event.graph_def).node
    return meta_graph_pb2.MetaGraphDef.FromString(event.meta_graph_def).graph_def.node


def layout(directory):
    """The files below a directory, event files under one name."""
    found = []
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), directory)
            found.append(path[: path.index("events") + 6] if "events" in path else path)
    return sorted(found)


def regression(tf, directory):
    """A linear model trained in two goes, evaluated and asked."""
    x, y = data()
    config = tf.estimator.RunConfig(
        model_dir=directory, save_summary_steps=4, save_checkpoints_steps=10,
        log_step_count_steps=5, keep_checkpoint_max=2,
    )  # fmt: skip
    estimator = tf.estimator.Estimator(linear(tf), config=config, params={"rate": 0.1})
    found = []
    rows = {"x": x}
    untrained = estimator.evaluate(batches(tf, rows, y, 1), name="before")
    estimator.train(batches(tf, rows, y), hooks=[losses_of(tf, found)], steps=12)
    estimator.train(batches(tf, rows, y), hooks=[losses_of(tf, found)], max_steps=17)
    estimator.train(batches(tf, rows, y), hooks=[losses_of(tf, found)], max_steps=17)
    return {
        "untrained": rounded(untrained),
        "losses": found,
        "evaluated": rounded(estimator.evaluate(batches(tf, rows, y, 1))),
        "some": rounded(estimator.evaluate(batches(tf, rows, y, 1), steps=2, name="some")),
        "predicted": rounded(list(estimator.predict(batches(tf, rows, epochs=1)))),
        "chosen": rounded(list(estimator.predict(batches(tf, rows, epochs=1), "twice"))),
        "shapes": [
            list(batch["y"].shape)
            for batch in estimator.predict(batches(tf, rows, epochs=1), yield_single_examples=False)
        ],
        "variables": {
            name: rounded(estimator.get_variable_value(name))
            for name in estimator.get_variable_names()
        },
        "latest": os.path.basename(estimator.latest_checkpoint()),
        "layout": layout(directory),
        "events": events(tf, directory),
        "eval_events": events(tf, os.path.join(directory, "eval")),
    }


def train_and_evaluate(tf, directory):
    """Two layers, evaluated at each checkpoint as the training goes."""
    x, y = data()
    config = tf.estimator.RunConfig(
        model_dir=directory, save_summary_steps=5, save_checkpoints_steps=8, log_step_count_steps=6
    )
    estimator = tf.estimator.Estimator(layers(tf), config=config)
    found = []
    result = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(batches(tf, x, y), max_steps=20, hooks=[losses_of(tf, found)]),
        tf.estimator.EvalSpec(batches(tf, x, y, 1), steps=None, name="rows", throttle_secs=0),
    )
    return {
        "losses": found,
        "result": rounded(result[0]),
        "predicted": rounded(list(estimator.predict(batches(tf, x, epochs=1)))),
        "variables": sorted(estimator.get_variable_names()),
        "layout": layout(directory),
        "events": events(tf, directory),
        "eval_events": events(tf, os.path.join(directory, "eval_rows")),
    }


def profiled(tf, directory):
    """A ProfilerHook whose output is in the Estimator's own event file."""
    x, y = data()
    config = tf.estimator.RunConfig(model_dir=directory, save_summary_steps=None)
    estimator = tf.estimator.Estimator(layers(tf), config=config)
    hook = tf.train.ProfilerHook(save_steps=3, output_dir=directory)
    estimator.train(batches(tf, x, y), hooks=[hook], steps=8)
    return {"layout": layout(directory), "events": events(tf, directory)}


PROGRAMS = (regression, train_and_evaluate, profiled)
