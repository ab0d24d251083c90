"""A profile read twice: by the adapter, as the data of its run, and by `load`, as a file.

The same bytes: those that the adapter got from TensorFlow's profiler. What it adds from its graphs
is the type of nodes without a kernel, and what ops put out. Eager ops it times by their calls, so
that these are not compared.
"""

from __future__ import annotations

import numpy as np
import pytest

import stepscope
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.capture.events import Profile
from stepscope.metadata import RunMetadata, load
from stepscope.options import RunOptions

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)
GUESSED = {("VarHandleOp", "Const"), ("NoOp", "Const")}
"""Types of nodes without a kernel, by the graph and by a file, which says nothing of them."""


def a_function(tf):
    """With a loop, a branch, a call of Python and a span in it."""

    def in_python(x):
        with stepscope.annotate("in Python"):
            return tf.exp(x) + 1.0

    @tf.function
    def function(x):
        (_, x) = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v @ v), [0, x])
        x = tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x)
        return tf.py_function(in_python, [x], tf.float32) * 2.0

    return lambda metadata: stepscope.run(
        function, tf.ones([4, 4]), options=FULL, run_metadata=metadata
    )


def a_session(tf):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4, 4])
        weights = tf.compat.v1.Variable(np.ones((4, 4), np.float32))
        loss = tf.reduce_sum(tf.linalg.matmul(x, weights) + 1.0)
        start = tf.compat.v1.global_variables_initializer()
    session = adapter.Session(graph=graph)
    session.run(start)
    return lambda metadata: session.run(
        loss, {x: np.ones((4, 4))}, options=FULL, run_metadata=metadata
    )


def a_keras_step(tf):
    layers = tf.keras.layers
    # Built here: Keras 2 warns where a function that is traced twice builds it.
    parts = [layers.Input((3,)), layers.Dense(3, activation="relu"), layers.Dense(1)]
    model = tf.keras.Sequential(parts)
    model.compile("adam", "mse")
    x, y = tf.ones((8, 3)), tf.ones((8, 1))
    model.train_on_batch(x, y)
    step = tf.function(model.train_step)
    return lambda metadata: stepscope.run(step, (x, y), options=FULL, run_metadata=metadata)


def an_input_pipeline(tf):
    data = tf.data.Dataset.range(40).map(
        lambda v: tf.cast(v, tf.float32) * 2.0 + 1.0, num_parallel_calls=2
    )
    data = data.batch(4).prefetch(2)

    @tf.function
    def total(found):
        for batch in data:
            found += tf.reduce_sum(batch)
        return found

    return lambda metadata: stepscope.run(
        total, tf.constant(0.0), options=FULL, run_metadata=metadata
    )


def table(ops):
    """What is compared of each row, and beside it the op type and the thread."""
    where = zip(ops.name, ops.device, ops.start_ns.tolist(), ops.end_ns.tolist(), strict=True)
    return sorted(zip(where, ops.op, ops.thread.tolist(), strict=True))


@pytest.mark.parametrize(
    ("program", "types"),
    [
        (a_function, {"MatMul", "EagerPyFunc", "Exp", "Annotation"}),
        (a_session, {"MatMul", "Sum"}),
        (a_keras_step, {"MatMul", "AssignAddVariableOp"}),
        (an_input_pipeline, {"ReduceDataset", "Sum", "Cast"}),
    ],
)
@pytest.mark.parametrize("warm", [False, True], ids=["first call", "later call"])
def test_rows_are_the_same(program, types, warm, tensorflow, monkeypatch, tmp_path):
    run = program(tensorflow)
    if warm:
        run(RunMetadata())
    taken = []
    read = Profile.__init__

    def read_and_keep(self, data):
        taken.append(data)
        read(self, data)

    monkeypatch.setattr(Profile, "__init__", read_and_keep)
    metadata = RunMetadata()
    run(metadata)
    of_run = metadata.ops
    (data,) = {data for data in taken if data}
    (tmp_path / "vm.xplane.pb").write_bytes(data)
    loaded = load(tmp_path / "vm.xplane.pb")
    # Something of another test may still have been at work beside it.
    (mark,) = Profile(data).marked.values()
    starts = loaded.ops.start_ns
    of_file = loaded.ops[(starts >= mark.start_ns) & (starts <= mark.end_ns)]

    assert types <= set(of_run.op)
    ours, theirs = table(of_run), table(of_file)
    assert [row[0] for row in theirs] == [row[0] for row in ours]
    pairs = list(zip(ours, theirs, strict=True))
    differing = {(a[1], b[1]) for a, b in pairs if a[1] != b[1]}
    assert differing <= GUESSED
    threads = {(a[2], b[2]) for a, b in pairs}
    for side in zip(*threads, strict=True):
        assert len(set(side)) == len(side), "threads are told apart alike"
    names = {(of_run.thread_names[a], of_file.thread_names[b]) for a, b in threads}
    # Of its own thread the adapter knows what Python calls it.
    assert all(a in (b, "MainThread") for a, b in names)
    assert not of_file.output_bytes.any()
    assert "memory" in [loss.what for loss in loaded.completeness.losses]
