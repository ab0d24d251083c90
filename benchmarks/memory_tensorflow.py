"""What memory reports cost on TensorFlow: its own option, ours, and the allocator's events.

The allocator is chosen when TensorFlow is imported, so its events are measured in a process of
their own (`python -m benchmarks.memory_tensorflow`), each figure against the plain run there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import stepscope
from benchmarks.engine import OPS, Side, chain, two_clock_reads
from benchmarks.harness import Result, compare, medians
from stepscope.adapters import tensorflow as adapter
from stepscope.options import RunOptions

ROUNDS = 60


def memory_on_tensorflow(tf: Any) -> Iterator[Result]:
    """A chain of tiny ops: with TensorFlow's option, with ours, with events, and with nothing."""
    side = Side(tf, chain)
    theirs = tf.RunOptions(report_tensor_allocations_upon_oom=True)
    with_option, without = medians(
        lambda: side.session.run(side.y, side.feed, options=theirs),
        lambda: side.session.run(side.y, side.feed, options=tf.RunOptions()),
        rounds=200,
    )
    side.session.close()
    yield compare(
        "chain of 1,000: TensorFlow's report option adds per op, against two clock reads",
        max(0.0, with_option - without) / OPS, two_clock_reads(), None, unit="ns",
    )  # fmt: skip
    reported, plain = _reported(tf)
    yield compare(
        "the same on TensorFlow with our report, from op outputs, against a plain run",
        reported, plain, None, note="with reading the profiler, which is most of it",
    )  # fmt: skip
    environment = {**os.environ, "TF_CPU_ALLOCATOR_USE_BFC": "true"}
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory_tensorflow"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    reported, plain = json.loads(told.stdout.splitlines()[-1])
    yield compare(
        "the same with our report, from the allocator's events, against a plain run",
        reported, plain, None, note="with reading the profiler; in a process of its own",
    )  # fmt: skip


def _reported(tf: Any) -> list[float]:
    """Nanoseconds of a run with our report, and of a plain one."""
    side = Side(tf, chain)
    session = adapter.Session(graph=side.session.graph)
    metadata = stepscope.RunMetadata()
    ours = RunOptions(report_allocations_on_oom=True)

    def reported() -> Any:
        return session.run(side.y, side.feed, options=ours, run_metadata=metadata)

    reported()
    if not len(metadata.allocation_log):
        raise AssertionError("The log is empty.")
    found = medians(reported, lambda: session.run(side.y, side.feed), rounds=ROUNDS, warmup=20)
    session.close()
    side.session.close()
    return found


GROUPS = (memory_on_tensorflow,)

if __name__ == "__main__":
    import tensorflow

    print(json.dumps(_reported(tensorflow.compat.v1)))
