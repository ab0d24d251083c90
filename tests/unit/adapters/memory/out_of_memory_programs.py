"""Programs that run out of memory under a limit, for a process of their own.

`python out_of_memory_programs.py NAME OUT`: runs one and writes what it found to OUT, as JSON. What
the allocator itself says of its memory at that moment stands in what TensorFlow logs to stderr.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepscope
from stepscope.adapters import tensorflow as adapter

LIMIT_MB = 32
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OPTIONS = stepscope.RunOptions(report_allocations_on_oom=True, allocation_log_address="raw")
Run = Callable[..., Any]


def session(tf: Any) -> tuple[Run, Run]:
    """A layer whose weights are fetched whole; fits with a narrow output."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        uniform = v1.random_uniform_initializer()
        weights = v1.get_variable("weights", [512, 1024], initializer=uniform)
        bias = v1.get_variable("bias", [1024], initializer=v1.zeros_initializer())
        width = v1.placeholder(tf.int32, [], name="width")
        hidden = tf.nn.relu(tf.matmul(tf.ones([1000, 512]), weights) + bias, name="hidden")
        wide = tf.random.uniform(tf.stack([1024, width]), name="wide")
        out = tf.reduce_sum(tf.matmul(hidden, wide))
        initialize = v1.global_variables_initializer()
    running = adapter.Session(graph=graph)
    running.run(initialize)

    def run(columns: int, **options: Any) -> Any:
        return running.run(out, {width: columns}, **options)

    return lambda **options: run(8, **options), lambda **options: run(8192, **options)


def function(tf: Any) -> tuple[Run, Run]:
    """The same in a function."""
    weights = tf.Variable(tf.random.uniform([512, 1024]), name="weights")
    bias = tf.Variable(tf.zeros([1024]), name="bias")

    @tf.function
    def layer(x: Any, width: Any) -> Any:
        hidden = tf.nn.relu(tf.matmul(x, weights) + bias, name="hidden")
        wide = tf.random.uniform(tf.stack([1024, width]), name="wide")
        return tf.reduce_sum(tf.matmul(hidden, wide))

    x = tf.random.uniform([1000, 512])

    def run(columns: int, **options: Any) -> Any:
        return adapter.run(layer, x, tf.constant(columns), **options)

    return lambda **options: run(8, **options), lambda **options: run(8192, **options)


def eager(tf: Any) -> tuple[Run, Run]:
    """The same in eager code, with tensors that the program keeps."""
    weights = tf.Variable(tf.random.uniform([512, 1024]), name="weights")
    bias = tf.Variable(tf.zeros([1024]), name="bias")
    kept = [tf.random.uniform([1024, 256]) for _ in range(3)]

    def step(columns: int) -> Any:
        hidden = tf.nn.relu(tf.matmul(tf.ones([1000, 512]), weights) + bias)
        return tf.reduce_sum(tf.matmul(hidden, tf.ones([1024, columns]))) + kept[0][0, 0]

    def run(columns: int, **options: Any) -> Any:
        return adapter.run(step, columns, **options)

    return lambda **options: run(8, **options), lambda **options: run(8192, **options)


def python(tf: Any) -> tuple[Run, Run]:
    """Python inside a function asks for too much."""

    def inside(count: Any) -> Any:
        return tf.reduce_sum(tf.ones([1024, int(count)]))

    @tf.function
    def around(count: Any) -> Any:
        return tf.py_function(inside, [count], tf.float32)

    def run(count: int, **options: Any) -> Any:
        return adapter.run(around, tf.constant(count), **options)

    return lambda **options: run(8, **options), lambda **options: run(1 << 16, **options)


def unrecorded(tf: Any) -> tuple[Run, Run]:
    """Nothing is recorded but the run itself: what it finds was allocated before."""
    return function(tf)


PROGRAMS: dict[str, Callable[[Any], tuple[Run, Run]]] = {
    program.__name__: program for program in (session, function, eager, python, unrecorded)
}


def _run(name: str, out: Path) -> None:
    began = time.time_ns()
    if name != "unrecorded":
        adapter.enable_memory_events(limit_mb=LIMIT_MB)
    import tensorflow as tf

    fitting, failing = PROGRAMS[name](tf)
    found: dict[str, Any] = {"began": began}
    if name != "unrecorded":
        traced = stepscope.RunMetadata()
        full = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
        fitting(options=full, run_metadata=traced)
        rows = traced.allocations
        found["fitted"] = {
            "peak": traced.peak_bytes(),
            "peak_of_rows": rows.peak_bytes(CPU),
            "allocator_peak": tf.config.experimental.get_memory_info("CPU:0")["peak"],
            "names": sorted(set(rows.name.tolist())),
            "losses": [loss.what for loss in traced.completeness.losses],
        }
    metadata = stepscope.RunMetadata()
    try:
        failing(options=OPTIONS, run_metadata=metadata)
    except stepscope.errors.ResourceExhaustedError as error:
        found |= {
            "of_tensorflow": isinstance(error, tf.errors.ResourceExhaustedError),
            "with_metadata": error.run_metadata is metadata,
            "error": str(error),
            "code": error.error_code,
            "status": metadata.status.code,
            "report": metadata.out_of_memory.to_dict(),
            "log": json.loads(stepscope.extract_allocation_log(metadata)),
            "losses": [loss.what for loss in metadata.completeness.losses],
        }
    metadata.save(out.with_suffix(".pb"))
    found["again"] = float(fitting())
    found["ended"] = time.time_ns()
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]))
