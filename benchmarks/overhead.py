"""What `metadata.overhead` says, beside what tracing was seen to cost from outside.

The cost of a traced call is what it takes longer than a plain one. Plain and traced calls take
turns, and of each the median over several fresh functions is taken: a function has only one first
traced call. TensorFlow has its defaults. Said and measured are to agree within 30% or 5 ms,
whichever is larger.
"""

from __future__ import annotations

import functools
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine import OPS, chain
from benchmarks.harness import Result, clock
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log.build import turn_off
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)
WARM_UP = 20
LATER = 10
WITHIN, WITHIN_NS = 0.3, 5_000_000
_SCRIPT = """
import numpy as np, tensorflow as tf

layers = tf.keras.layers
model = tf.keras.Sequential([layers.Input((784,)), layers.Dense(128, activation="relu"),
                             layers.Dropout(0.2), layers.Dense(10)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
random = np.random.default_rng(1)
model.fit(random.random((199 * 32, 784), np.float32), random.integers(0, 10, 199 * 32),
          batch_size=32, verbose=0)
"""
_COST = re.compile(r"recording cost ([\d.,]+) (ms|s|min),")
_UNITS = {"ms": 1e6, "s": 1e9, "min": 60e9}

Call = tuple[Callable[[], object], Callable[..., object]]
"""A plain call, and the same that takes `run_metadata`."""


class Position:
    """The first, the second or a later traced call: what it took longer, and what it said."""

    def __init__(self) -> None:
        self.measured: list[float] = []
        self.said: list[float] = []

    def result(self, what: str) -> Result:
        return agreement(what, statistics.median(self.said), statistics.median(self.measured))


def agreement(what: str, said: float, measured: float) -> Result:
    """A row whose two figures are to agree."""
    met = abs(said - measured) <= max(WITHIN * measured, WITHIN_NS)
    ratio = said / measured if measured > 0 else float("inf")
    return Result(what, said / 1e6, measured / 1e6, ratio, "30% or 5 ms", met,
                  note="what was said, and what was measured")  # fmt: skip


def took(call: Callable[[], object]) -> int:
    began = clock()
    call()
    return clock() - began


def positions() -> dict[str, Position]:
    return {name: Position() for name in ("first", "second", "later")}


def position(number: int) -> str:
    return ("first", "second")[number] if number < 2 else "later"


def traced_calls(fresh: Callable[[], Call], rounds: int) -> dict[str, Position]:
    """Traced calls of something made anew in each round, in turns with plain ones."""
    found = positions()
    for _ in range(rounds):
        plain, traced = fresh()
        for _ in range(WARM_UP):
            plain()
        plain_ns, calls = [took(plain) for _ in range(3)], []
        for _ in range(2 + LATER):
            metadata = RunMetadata()
            spent = took(functools.partial(traced, options=FULL, run_metadata=metadata))
            calls.append((spent, metadata.overhead.ns))
            # The call after a traced one finds cold caches; the one after that is as before.
            plain()
            plain_ns.append(took(plain))
        usual = statistics.median(plain_ns)
        for number, (spent, said) in enumerate(calls):
            found[position(number)].measured.append(spent - usual)
            found[position(number)].said.append(said)
    return found


def of_function(function: Any, x: Any) -> Call:
    return lambda: function(x), lambda **kw: adapter.run(function, x, **kw)


def mobile_net() -> Callable[[], Call]:
    import tensorflow as tf

    model = tf.keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3))
    x = tf.constant(np.random.default_rng(1).random((1, 64, 64, 3), np.float32))
    return lambda: of_function(tf.function(lambda x: model(x, training=False)), x)


def tiny_function() -> Callable[[], Call]:
    import tensorflow as tf

    x = tf.constant(np.full(4, 0.5, np.float32))
    return lambda: of_function(tf.function(_tiny, autograph=False), x)


def tiny_eager() -> Callable[[], Call]:
    import tensorflow as tf

    x = tf.constant(np.full(4, 0.5, np.float32))
    return lambda: (lambda: _tiny(x), lambda **kw: adapter.run(_tiny, x, **kw))


def _tiny(x: Any) -> Any:
    y = x
    for i in range(OPS):
        y = y * x if i % 2 else y + x
    return y


def tiny_session(v1: Any) -> Callable[[], Call]:
    def fresh() -> Call:
        graph = v1.Graph()
        with graph.as_default():
            x, y = chain(v1)
        session = adapter.Session(graph=graph)
        feed = {x: np.full(4, 0.5, np.float32)}
        return lambda: session.run(y, feed), lambda **kw: session.run(y, feed, **kw)

    return fresh


def keras_fit(rounds: int) -> dict[str, Position]:
    """Recorded steps of a fit beside those in between; a model has only one first one."""
    import tensorflow as tf

    from stepscope.adapters.tensorflow.training.keras import TraceCallback

    class Steps(tf.keras.callbacks.Callback):  # type: ignore[misc]
        """Times each step, from the last callback before it to the first one after it."""

        def __init__(self) -> None:
            super().__init__()
            self.took: list[int] = []

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            self._began = clock()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            self.took.append(clock() - self._began)

    found = positions()
    random = np.random.default_rng(1)
    steps = WARM_UP + 2 * (2 + LATER)
    x, y = random.random((32 * steps, 784), np.float32), random.integers(0, 10, 32 * steps)
    layers = tf.keras.layers
    for _ in range(rounds):
        model = tf.keras.Sequential([layers.Input((784,)), layers.Dense(128, activation="relu"),
                                     layers.Dropout(0.2), layers.Dense(10)])  # fmt: skip
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss)
        recorded = TraceCallback(f"{WARM_UP}:{steps}:2", options=FULL)
        timed = Steps()
        model.fit(x, y, batch_size=32, verbose=0, callbacks=[recorded, timed])
        usual = statistics.median(timed.took[WARM_UP + 1 :: 2])
        for number, step in enumerate(recorded.steps):
            place = found[position(number)]
            place.measured.append(timed.took[step.step] - usual)
            place.said.append(step.metadata.overhead.ns)
    return found


def tensorflow_overhead(v1: Any) -> Iterator[Result]:
    """First, second and later traced calls, with the profiler and with our own executor."""
    kinds: dict[str, Callable[[], dict[str, Position]]] = {
        "MobileNetV2, 64x64": lambda: traced_calls(mobile_net(), 5),
        "Keras fit": lambda: keras_fit(5),
        "1,000 tiny ops, function": lambda: traced_calls(tiny_function(), 5),
        "1,000 tiny ops, session": lambda: traced_calls(tiny_session(v1), 5),
        "1,000 tiny ops, eager": lambda: traced_calls(tiny_eager(), 5),
    }
    for how in ("profiler", "executor"):
        turn_off()
        if how == "executor" and adapter.prepare():
            return
        for what, measure in kinds.items():
            for place, found in measure().items():
                yield found.result(f"overhead of {what}: {place} traced call, {how}")
    turn_off()


def tensorflow_script_overhead(_v1: Any) -> Iterator[Result]:
    """A whole script of 199 Keras steps with `stepscope run` and without, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "fit.py"
        script.write_text(_SCRIPT)
        with_it = [sys.executable, "-m", "stepscope", "run", "--out", f"{folder}/out", str(script)]
        measured, said = [], []
        for _ in range(3):
            plain, _ = _process([sys.executable, str(script)])
            recorded, output = _process(with_it)
            cost = _COST.search(output)
            if cost is None:
                raise AssertionError(f"the report says no cost:\n{output}")
            measured.append(recorded - plain)
            said.append(float(cost[1].replace(",", "")) * _UNITS[cost[2]])
        what = "overhead of `stepscope run`: a script of 199 Keras steps"
        yield agreement(what, statistics.median(said), statistics.median(measured))


def _process(command: list[str]) -> tuple[int, str]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    began = clock()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return clock() - began, done.stderr


GROUPS = (tensorflow_overhead, tensorflow_script_overhead)
