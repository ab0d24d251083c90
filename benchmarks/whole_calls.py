"""Calls on TensorFlow as a user waits for them, from asking to having control again.

Plain and traced calls take turns, warm, and what every traced call recorded is counted: an empty
trace is fast. Without our executor the same is measured beside TensorFlow's own step stats.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine import OPS
from benchmarks.harness import Result, at_most, clock, in_pairs, paired
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log.build import turn_off
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions
from stepscope.store import Store

WARM_UP = 1000
FEW = 10
LEVELS = {"SOFTWARE": RunOptions.SOFTWARE_TRACE, "FULL": RunOptions.FULL_TRACE}
LIMITS = {"SOFTWARE": 1.45, "FULL": 1.65}
MOST_MORE_US = 120
Run = Callable[..., Any]


class TracedCall:
    """A call with options; what it recorded is kept, to be counted."""

    def __init__(self, run: Run, level: int) -> None:
        self._run = run
        self._options = RunOptions(trace_level=level)
        self.recorded: list[RunMetadata] = []

    def __call__(self) -> None:
        self.recorded.append(RunMetadata())
        self._run(options=self._options, run_metadata=self.recorded[-1])

    def check(self, ops: int) -> None:
        for metadata in self.recorded:
            if len(metadata.ops) < ops:
                raise AssertionError(f"a traced run shows {len(metadata.ops)} ops, not {ops}.")


def body(x: Any, count: int) -> Any:
    y = x
    for i in range(count):
        y = y * x if i % 2 else y + x
    return y


def session_graph(v1: Any, count: int) -> tuple[Any, Any, dict[Any, Any]]:
    """A graph of so many tiny ops, what to fetch of it and what to feed."""
    graph = v1.Graph()
    with graph.as_default():
        given = v1.placeholder(v1.float32, [4])
        return graph, body(given, count), {given: np.full(4, 0.5, np.float32)}


def calls(v1: Any, count: int) -> Iterator[tuple[str, Callable[[], Any], Run]]:
    """A function and a session of so many tiny ops: name, the plain call, and ours."""
    import tensorflow as tf

    x = tf.constant(np.full(4, 0.5, np.float32))
    function = tf.function(lambda x: body(x, count), autograph=False)
    yield "function", lambda: function(x), lambda **kw: adapter.run(function, x, **kw)
    graph, fetched, feed = session_graph(v1, count)
    plain, ours = v1.Session(graph=graph), adapter.Session(graph=graph)
    yield "session", lambda: plain.run(fetched, feed), lambda **kw: ours.run(fetched, feed, **kw)


def more(what: str, pairs: Any, most_us: float) -> Result:
    """A row of what the first side took more."""
    target, met = at_most(most_us, pairs.more / 1e3)
    return Result(what, pairs.first / 1e3, pairs.second / 1e3, pairs.more / 1e3, target, met,
                  unit="us", note=pairs.said())  # fmt: skip


def logged_calls(v1: Any) -> Iterator[Result]:
    """With our executor: traced and untraced."""
    if adapter.prepare():
        raise RuntimeError("our executor cannot be compiled here.")
    for count in (OPS, FEW):
        for name, plain, run in calls(v1, count):
            for _ in range(WARM_UP):
                plain()
            for label, level in LEVELS.items():
                traced = TracedCall(run, level)
                gc.collect()
                pairs = in_pairs(traced, plain, rounds=200 if count == OPS else 1000, warmup=20)
                traced.check(count)
                what = f"TensorFlow {name}, {count:,} tiny ops: {label}, whole call"
                if count == OPS:
                    yield paired(what, pairs, LIMITS[label])
                else:
                    yield more(f"{what}, us more", pairs, MOST_MORE_US)
            pairs = in_pairs(run, plain, rounds=1000, warmup=100)
            yield more(f"TensorFlow {name}, {count:,} tiny ops: untraced, us more", pairs, 15)
    yield from _afterwards(v1)
    turn_off()


def _afterwards(v1: Any) -> Iterator[Result]:
    """What is done with a run later: reading its columns, storing it, writing it as a file."""
    runs = 50
    for name, _, run in calls(v1, OPS):
        traced = TracedCall(run, RunOptions.FULL_TRACE)
        for _ in range(runs + 5):
            traced()
        recorded = traced.recorded[5:]
        with tempfile.TemporaryDirectory() as folder:
            began = clock()
            ops = sum(len(metadata.ops) for metadata in recorded)
            reading = clock() - began
            with Store(Path(folder)) as store:
                store.add(recorded[0], name)
                store.flush()
                began = clock()
                for metadata in recorded[1:]:
                    store.add(metadata, name)
                store.flush()
                storing = (clock() - began) * runs / (runs - 1)
            began = clock()
            recorded[0].save(Path(folder) / "run_metadata.pb")
            saving = (clock() - began) * runs
        for what, took, limit in (
            ("reading its columns", reading, 1.5), ("storing it", storing, 1.0),
            ("writing it as run_metadata.pb", saving, 10),
        ):  # fmt: skip
            per_op = took / ops / 1e3
            target, met = at_most(limit, per_op)
            yield Result(f"TensorFlow {name}, 1,000 tiny ops, FULL: {what}, per op", per_op, limit,
                         per_op / limit, target, met, unit="us")  # fmt: skip


def calls_without_it(v1: Any) -> Iterator[Result]:
    """Without our executor a session is to be no slower than with TensorFlow's step stats."""
    turn_off()
    for name, plain, run in calls(v1, OPS):
        for _ in range(WARM_UP):
            plain()
        traced = TracedCall(run, RunOptions.SOFTWARE_TRACE)
        pairs = in_pairs(traced, plain, rounds=60)
        traced.check(OPS)
        yield paired(f"TensorFlow {name} without our executor: SOFTWARE, whole call", pairs, None)
    yield _beside_step_stats(v1)


def _beside_step_stats(v1: Any) -> Result:
    graph, fetched, feed = session_graph(v1, OPS)
    theirs, ours = v1.Session(graph=graph), adapter.Session(graph=graph)
    options = v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE)
    for _ in range(WARM_UP):
        theirs.run(fetched, feed)
        ours.run(fetched, feed)
    traced = TracedCall(lambda **kw: ours.run(fetched, feed, **kw), RunOptions.SOFTWARE_TRACE)
    pairs = in_pairs(
        traced, lambda: theirs.run(fetched, feed, options, v1.RunMetadata()), rounds=60
    )
    traced.check(OPS)
    return paired("TensorFlow session without our executor, against its own SOFTWARE_TRACE",
                  pairs, 1.0)  # fmt: skip


def eager_calls(_v1: Any) -> Iterator[Result]:
    """Eager code of a thousand tiny ops."""
    import tensorflow as tf

    x = tf.constant(np.full(4, 0.5, np.float32))
    for (label, level), limit in zip(LEVELS.items(), (1.45, 1.9), strict=True):
        traced = TracedCall(lambda **kw: adapter.run(body, x, OPS, **kw), level)
        pairs = in_pairs(traced, lambda: body(x, OPS), rounds=100)
        traced.check(OPS)
        yield paired(f"TensorFlow eager, 1,000 tiny ops: {label}, whole call", pairs, limit)


def first_full_call(_v1: Any) -> Iterator[Result]:
    """The first FULL call of a large function that was called before."""
    import tensorflow as tf

    if adapter.prepare():
        raise RuntimeError("our executor cannot be compiled here.")
    took: list[tuple[int, int]] = []
    for _ in range(3):
        model = tf.keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3))
        function = tf.function(lambda x, model=model: model(x, training=False))
        x = tf.ones([1, 64, 64, 3])
        for _ in range(20):
            function(x)
        began = clock()
        function(x)
        between = clock()
        adapter.run(function, x, run_metadata=RunMetadata())
        took.append((clock() - between, between - began))
    first, plain = (sorted(side)[1] for side in zip(*took, strict=True))
    target, met = at_most(2, first / plain)
    yield Result("MobileNetV2, the first FULL call, against a plain one", first / 1e6, plain / 1e6,
                 first / plain, target, met)  # fmt: skip
    turn_off()


GROUPS = (logged_calls, calls_without_it, eager_calls, first_full_call)
