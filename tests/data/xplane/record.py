"""Records the profiles beside this file, with the TensorFlow that is installed.

    python tests/data/xplane/record.py

Each is what TensorFlow's own profiler wrote of a few steps of one kind of program. What readers do
not look at (the modules in the plane `/host:metadata`, most of the bytes) is left out, and the rest
compressed: some kilobytes each. `make fuzz` starts from them.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The allocator whose every allocation is an event in a profile.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", "256")

import numpy as np
import tensorflow as tf

from stepscope.metadata.xplane import XSpace

HERE = Path(__file__).parent
_LARGEST_LINE = 150


def session():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [4, 4])
        y = tf.reduce_sum(tf.linalg.matmul(x, x) + 1.0)
    running = tf.compat.v1.Session(graph=graph)
    return lambda: running.run(y, {x: np.ones((4, 4))})


def function():
    @tf.function
    def inner(x):
        return tf.nn.relu(x) @ x

    @tf.function
    def outer(x):
        return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, inner(v)), [0, x])

    return lambda: outer(tf.ones([4, 4]))


def eager():
    return lambda: tf.reduce_sum(tf.nn.relu(tf.ones([4, 4]) @ tf.ones([4, 4]) - 2.0)).numpy()


def keras():
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(3, activation="relu"), tf.keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    x, y = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    return lambda: model.train_on_batch(x, y)


def py_function():
    @tf.function
    def calls_python(x):
        return tf.py_function(lambda v: tf.exp(v) + 1.0, [x], tf.float32) * 2.0

    return lambda: calls_python(tf.ones([3]))


def xla():
    @tf.function(jit_compile=True)
    def compiled(x):
        return tf.reduce_sum(tf.nn.softmax(x @ x))

    return lambda: compiled(tf.ones([4, 4]))


def memory():
    @tf.function
    def large(x):
        return tf.reduce_sum(tf.tile(x, [64, 64]) * 2.0)

    return lambda: large(tf.ones([32, 32]))


def record(name, step):
    """Profile two steps, after one to warm up, and write what readers read of it."""
    step()
    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
        tf.profiler.experimental.start(folder, options)
        step()
        step()
        tf.profiler.experimental.stop()
        (file,) = Path(folder).rglob("*.xplane.pb")
        space = XSpace.FromString(file.read_bytes())
    kept = [p for p in space.planes if p.name != "/host:metadata"]
    del space.planes[:]
    space.planes.extend(kept)
    for plane in space.planes:
        for line in plane.lines:
            del line.events[_LARGEST_LINE:]
        used = {event.metadata_id for line in plane.lines for event in line.events}
        for number in set(plane.event_metadata) - used:
            del plane.event_metadata[number]
    content = gzip.compress(space.SerializeToString(), 9, mtime=0)
    (HERE / f"{name}.xplane.pb.gz").write_bytes(content)
    lines = sum(len(plane.lines) for plane in space.planes)
    print(f"{name}: {len(content):,} bytes, {lines} lines")


if __name__ == "__main__":
    for make in (session, function, eager, keras, py_function, xla, memory):
        record(make.__name__, make())
