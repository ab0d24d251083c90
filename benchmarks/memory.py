"""What counting memory costs on the embedded engine, and what reusing buffers gains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import stepscope
import stepscope.tf1 as ours
from benchmarks.engine import OPS, Side, chain, two_clock_reads
from benchmarks.harness import Result, compare, in_pairs, medians, paired
from stepscope.options import RunOptions


def _logged(side: Side, options: Any) -> Callable[[], Any]:
    return lambda: side.session.run(side.y, side.feed, options=options, run_metadata=side.metadata)


def allocation_log(tf: Any) -> Iterator[Result]:
    """The log at its defaults: per tiny op, on large ops, and TensorFlow's option beside it."""
    side = Side(ours, chain)
    on = RunOptions(report_tensor_allocations_upon_oom=True)
    off = RunOptions()
    logged, plain = _logged(side, on), _logged(side, off)
    logged()
    events = len(side.metadata.allocation_log)
    if events < OPS:
        raise AssertionError(f"The log has {events} events, not {OPS}.")
    with_log, without = medians(logged, plain, rounds=400)
    reads = two_clock_reads()
    yield compare(
        "chain of 1,000: the allocation log adds per op, against two clock reads",
        max(0.0, with_log - without) / OPS, reads, 8.0, unit="ns",
        note=f"{events} events in the log",
    )  # fmt: skip
    theirs = Side(tf, chain)
    other = tf.RunOptions(report_tensor_allocations_upon_oom=True)
    a, b = medians(_logged(theirs, other), _logged(theirs, tf.RunOptions()), rounds=200)
    yield Result(
        "the same, with the report option and without it: here, and in TensorFlow",
        with_log / without, a / b, (with_log / without) / (a / b), "", None, "x",
        note="both figures are runs with the option over runs without it",
    )  # fmt: skip
    theirs.session.close()
    side.session.close()
    yield from _large_ops()


def _elementwise(length: int, floats: int) -> tuple[Any, Any, Any]:
    graph = ours.Graph()
    with graph.as_default():
        x = ours.placeholder(ours.float32, [floats], name="x")
        y = x
        for i in range(length):
            y = y * 1.0001 if i % 2 else y + 1.0
        total = ours.reduce_sum(y)
    return graph, x, total


def _large_ops() -> Iterator[Result]:
    """A long chain, which shows what each op pays, and a short one, which shows what a run pays."""
    yield from _large_chain(OPS, rounds=150, limit=1.01)
    yield from _large_chain(20, rounds=1500, limit=None)


def _large_chain(length: int, rounds: int, limit: float | None) -> Iterator[Result]:
    floats = 1_000_000
    graph, x, total = _elementwise(length, floats)
    feed = {x: np.ones(floats, np.float32)}
    session = stepscope.Session(graph=graph)
    metadata = stepscope.RunMetadata()
    on = RunOptions(report_tensor_allocations_upon_oom=True)

    def logged() -> Any:
        return session.run(total, feed, options=on, run_metadata=metadata)

    def plain() -> Any:
        return session.run(total, feed)

    what = f"chain of {length:,} ops of 1 million elements"
    yield paired(f"{what}, with the log", in_pairs(logged, plain, rounds=rounds), limit)
    noise = in_pairs(plain, plain, rounds=rounds)
    yield paired(f"{what}, without the log, against itself", noise, None)
    session.close()


def memory_off(_tf: Any) -> Iterator[Result]:
    """A limit that is far away, against no limit: the check at the start of a run."""
    sides = []
    for limit in (1 << 40, 0):
        side = Side(ours, chain)
        side.session.close()
        config = stepscope.ConfigProto(**({"memory_limit_bytes": limit} if limit else {}))
        side.session = stepscope.Session(graph=side.session.graph, config=config)
        sides.append(side)
    limited, free = medians(sides[0].plain, sides[1].plain, rounds=400)
    yield compare("chain of 1,000 under a limit it fits, against no limit", limited, free, None)
    for side in sides:
        side.session.close()


def buffer_reuse(_tf: Any) -> Iterator[Result]:
    """A chain of elementwise ops on 4 MB, against the same in NumPy with fresh outputs."""
    floats = 1 << 20
    graph, x, total = _elementwise(20, floats)
    fed = np.ones(floats, np.float32)
    session = stepscope.Session(graph=graph)
    by, more = np.float32(1.0001), np.float32(1.0)

    def numpy_chain() -> Any:
        y = fed
        for i in range(20):
            y = y * by if i % 2 else y + more
        return y.sum()

    np.testing.assert_allclose(session.run(total, {x: fed}), numpy_chain(), rtol=1e-3)
    a, b = medians(lambda: session.run(total, {x: fed}), numpy_chain, rounds=60, warmup=10)
    yield compare("chain of 20 ops on 4 MB, against NumPy with fresh outputs", a, b, 1.0)
    session.close()


GROUPS = (allocation_log, memory_off, buffer_reuse)
