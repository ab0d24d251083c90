"""The embedded engine beside TensorFlow's sessions: tiny ops, tracing, parallel matmuls."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import stepscope
import stepscope.tf1 as ours
from benchmarks.harness import Result, alternate, at_least, at_most, clock, compare, medians

OPS = 1000


def chain(tf: Any) -> tuple[Any, Any]:
    """1,000 ops of 4 float32 elements, each needing the one before. No optimizer can fold it."""
    x = tf.placeholder(tf.float32, [4], name="x")
    y = x
    for i in range(OPS):
        y = y * x if i % 2 else y + x
    return x, y


def fan(tf: Any) -> tuple[Any, Any]:
    """1,000 branches of 4 float32 elements from one input, added up."""
    x = tf.placeholder(tf.float32, [4], name="x")
    return x, tf.add_n([x * float(i + 2) for i in range(OPS)])


class Side:
    """One engine running one graph."""

    def __init__(self, tf: Any, build: Callable[[Any], tuple[Any, Any]]) -> None:
        graph = tf.Graph()
        with graph.as_default():
            self.x, self.y = build(tf)
        self.session = tf.Session(graph=graph)
        self.feed = {self.x: np.full(4, 0.5, np.float32)}
        self.metadata = tf.RunMetadata()
        self.software = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
        self.full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)

    def plain(self) -> Any:
        return self.session.run(self.y, self.feed)

    def traced(self, options: Any) -> Any:
        return self.session.run(self.y, self.feed, options=options, run_metadata=self.metadata)

    def traced_nodes(self) -> int:
        self.traced(self.full)
        return sum(len(d.node_stats) for d in self.metadata.step_stats.dev_stats)


def two_clock_reads() -> float:
    """Nanoseconds of two bare clock reads, as a median."""
    local: dict[str, Any] = {}
    body = "\n".join(["    clock(); clock()"] * OPS)
    exec(f"def f(clock):\n{body}\n", {}, local)
    samples = []
    for _ in range(50):
        t0 = clock()
        local["f"](clock)
        samples.append((clock() - t0) / OPS)
    return statistics.median(samples)


def tiny_ops(tf: Any) -> Iterator[Result]:
    """Untraced and traced runs of many tiny ops."""
    for name, build in (("chain", chain), ("fan", fan)):
        mine, other = Side(ours, build), Side(tf, build)
        np.testing.assert_allclose(mine.plain(), other.plain(), rtol=1e-4)
        nodes, their_nodes = mine.traced_nodes(), other.traced_nodes()
        if min(nodes, their_nodes) < OPS:
            raise AssertionError(f"{name}: {nodes} and {their_nodes} nodes ran, not {OPS}.")
        a, b = medians(mine.plain, other.plain)
        yield compare(f"{name} of 1,000, Session.run", a, b, 1.0,
                      note=f"{nodes} nodes ran here, {their_nodes} in TensorFlow")  # fmt: skip
        a, b = medians(
            lambda s=mine: s.traced(s.full), lambda s=other: s.traced(s.full), rounds=100
        )
        yield compare(f"{name} of 1,000, FULL_TRACE", a, b, 0.3)
        a, b = medians(
            lambda s=mine: (s.traced(s.full), s.metadata.ops),
            lambda s=other: s.traced(s.full),
            rounds=50,
        )
        yield compare(f"{name} of 1,000, FULL_TRACE, columns read", a, b, None)
        yield from _cost_per_op(name, mine)
        mine.session.close()
        other.session.close()


def _cost_per_op(name: str, side: Side) -> Iterator[Result]:
    plain, software, full = medians(
        side.plain, lambda: side.traced(side.software), lambda: side.traced(side.full), rounds=400
    )
    reads = two_clock_reads()
    for level, traced, limit in (("SOFTWARE", software, 4.0), ("FULL", full, 10.0)):
        added = max(0.0, traced - plain) / OPS
        yield compare(f"{name}: {level} adds per op, against two clock reads", added, reads, limit,
                      unit="ns")  # fmt: skip


def _matmuls(tf: Any, chains: int, length: int, size: int) -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [size, size], name="x")
    ends = []
    for _ in range(chains):
        y = x
        for _ in range(length):
            y = tf.matmul(y, x)
        ends.append(y)
    return x, tf.add_n(ends)


def parallel_matmuls(_tf: Any) -> Iterator[Result]:
    """Two independent chains of matmuls on a pool of two, against the caller's thread."""
    graph = ours.Graph()
    with graph.as_default():
        x, y = _matmuls(ours, 2, 8, 512)
    config = stepscope.ConfigProto(
        intra_op_parallelism_threads=1,
        session_inter_op_thread_pool=[stepscope.ThreadPoolOptionProto(num_threads=2)],
    )
    feed = {x: np.eye(512, dtype=np.float32)}
    alone = stepscope.RunOptions(inter_op_thread_pool=-1)
    with stepscope.Session(graph=graph, config=config) as session:
        pooled, inline = medians(
            lambda: session.run(y, feed),
            lambda: session.run(y, feed, options=alone),
            rounds=20,
            warmup=3,
        )
    ratio = inline / pooled
    target, met = at_least(1.6, ratio)
    yield Result("two chains of matmuls: pool of 2, against the caller's thread",
                 pooled / 1e6, inline / 1e6, ratio, target, met,
                 note="the ratio is how many times faster the pool is")  # fmt: skip


def overhead(_tf: Any) -> Iterator[Result]:
    """What `metadata.overhead` says, against traced and untraced runs in turn."""

    def big(tf: Any) -> tuple[Any, Any]:
        x = tf.placeholder(tf.float32, [4], name="x")
        m = tf.ones([512, 512]) * tf.reduce_mean(x)
        for _ in range(6):
            m = tf.matmul(m, m) * 1e-3
        return x, m

    for name, build in (("chain of tiny ops", chain), ("large matmuls", big)):
        side = Side(ours, build)
        stated: list[float] = []

        def traced(side: Side = side) -> None:
            side.traced(side.full)

        rounds = 300 if build is chain else 30
        plain, with_trace = alternate(side.plain, traced, rounds=rounds, warmup=20)
        for _ in range(rounds):
            traced()
            stated.append(side.metadata.overhead.fraction)
        measured = statistics.median(with_trace) / statistics.median(plain) - 1
        said = statistics.median(stated)
        target, met = at_most(0.1, abs(said - measured))
        yield Result(f"overhead.fraction, {name}: said, measured, their distance",
                     said, measured, abs(said - measured), target, met, unit="")  # fmt: skip
        side.session.close()


GROUPS = (tiny_ops, parallel_matmuls, overhead)
