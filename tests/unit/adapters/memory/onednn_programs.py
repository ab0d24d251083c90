"""Programs on TensorFlow with oneDNN on, which is its default, for a process of their own.

`python onednn_programs.py ENGINE OUT [bfc]`: runs one three times, traced fully, and writes the
metadata of each into the directory OUT.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

SMALL, LARGE, HOW_MANY = 50_000, 90_000, 50
"""Elements of a tensor below oneDNN's threshold and of one above it; how many of the former."""


def step(tf: Any) -> Any:
    """Fifty tensors of 200 KB that live until the last of them is there, and one of 360 KB."""
    with tf.control_dependencies([tf.random.uniform([LARGE], name="large")]):
        parts = [tf.random.uniform([SMALL], seed=number) for number in range(HOW_MANY)]
    # Where neither axis is the inner one, the kernel turns its input around in a buffer of its own.
    return tf.reduce_sum(tf.reshape(tf.stack(parts), [10, 50, 100, 50]), axis=[0, 2])


def main(engine: str, out: Path, *, counted: bool) -> None:
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    import stepscope
    from stepscope.adapters import tensorflow as adapter

    if counted:
        adapter.enable_memory_events()
    import tensorflow as tf

    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
    if engine == "session":
        with tf.Graph().as_default() as graph:
            fetch = step(tf)
        session = adapter.Session(graph=graph)
        calls = [lambda metadata: session.run(fetch, options=options, run_metadata=metadata)] * 3
    else:
        called = tf.function(lambda: step(tf)) if engine == "function" else lambda: step(tf)
        calls = [lambda metadata: stepscope.run(called, run_metadata=metadata)] * 3
    for number, call in enumerate(calls):
        metadata = stepscope.RunMetadata()
        call(metadata)
        metadata.save(out / f"{number}.pb")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), counted="bfc" in sys.argv)
