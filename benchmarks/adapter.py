"""The TensorFlow adapter: how much a traced run is slowed down, and what collecting costs after it.

Everything is measured warm, a thousand calls on, and in turns. A run's own time is taken inside it,
so that starting and reading the profiler are no part of it: those are measured apart. An empty
trace is fast, so every traced run's executions are counted.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.engine import OPS, chain
from benchmarks.harness import Result, at_most, clock, compare
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log.build import turn_off
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

WARM_UP = 1000
ROUNDS = 100
LEVELS = {"SOFTWARE": RunOptions.SOFTWARE_TRACE, "FULL": RunOptions.FULL_TRACE}


class Inside:
    """A callable whose calls are timed where they happen."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.began = self.ended = 0

    def __call__(self) -> Any:
        self.began = clock()
        result = self._call()
        self.ended = clock()
        return result

    @property
    def took(self) -> int:
        return self.ended - self.began


class InsideFunction(Inside):
    """A TensorFlow function whose calls are timed where they happen."""

    def __init__(self, function: Any, x: Any) -> None:
        super().__init__(lambda: function(x))
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class Traced:
    """One way of running a step traced, with what came before and after the run itself."""

    def __init__(self, inside: Inside, run: Callable[..., Any], level: int, ops: int) -> None:
        self._inside = inside
        self._run = run
        self._options = RunOptions(trace_level=level)
        self._ops = ops
        self._runs: list[tuple[RunMetadata, int]] = []
        self.starting: list[float] = []
        self.collecting: list[float] = []
        self.decoding: list[float] = []

    def __call__(self) -> int:
        metadata = RunMetadata()
        began = clock()
        self._run(options=self._options, run_metadata=metadata)
        self._runs.append((metadata, clock() - self._inside.ended))
        self.starting.append(self._inside.began - began)
        return self._inside.took

    def check(self) -> None:
        """Count what every run recorded: not in between, where it would disturb the next run."""
        for metadata, collecting in self._runs:
            began = clock()
            count = len(metadata.ops)
            if count < self._ops:
                raise AssertionError(f"a traced run shows {count} executions, not {self._ops}.")
            self.decoding.append((clock() - began) / count)
            self.collecting.append(collecting / count)
        self._runs.clear()


class Step:
    """A step in one mode: untraced, traced at both levels, and, for a session, natively traced."""

    def __init__(self, name: str, inside: Inside, run: Callable[..., Any], ops: int) -> None:
        self.name = name
        self.inside = inside
        self.traced = {label: Traced(inside, run, level, ops) for label, level in LEVELS.items()}
        self.native: dict[str, Callable[[], int]] = {}

    def plain(self) -> int:
        self.inside()
        return self.inside.took

    def measure(self, rounds: int = ROUNDS) -> dict[str, float]:
        """Median nanoseconds of the run itself, by how it was traced; "" is not at all."""
        sides: dict[str, Callable[[], int]] = {"": self.plain, **self.traced}
        sides |= {f"TensorFlow's {label}": call for label, call in self.native.items()}
        for _ in range(WARM_UP):
            self.inside()
        samples: dict[str, list[int]] = {label: [] for label in sides}
        order = random.Random(1)
        for n in range(rounds + 5):
            # No side always comes after the same other one.
            for label in order.sample(list(sides), len(sides)):
                took = sides[label]()
                if n >= 5:
                    samples[label].append(took)
        for traced in self.traced.values():
            traced.check()
        return {label: statistics.median(figures) for label, figures in samples.items()}


def with_both(name: str, step: Callable[[str], Step]) -> Iterator[Step]:
    """A step that is profiled, and then with our own executor where that can be had."""
    turn_off()
    yield step(name)
    if not adapter.prepare():
        yield step(f"prepared {name}")
        turn_off()


def session_steps(
    v1: Any, build: Callable[[Any], tuple[dict[Any, Any], Any]], ops: int
) -> Iterator[Step]:
    """A step of a session."""
    yield from with_both("session", lambda name: _session_step(name, v1, build, ops))


def _session_step(
    name: str, v1: Any, build: Callable[[Any], tuple[dict[Any, Any], Any]], ops: int
) -> Step:
    """TensorFlow's own `run` is what is timed, traced or not."""
    graph = v1.Graph()
    with graph.as_default():
        feed, fetch = build(v1)
        init = v1.global_variables_initializer()

    class Timed(adapter.Session):
        def native_run(self, *args: Any, **kwargs: Any) -> Any:
            inside.began = clock()
            result = super().native_run(*args, **kwargs)
            inside.ended = clock()
            return result

    session = Timed(graph=graph)
    inside = Inside(lambda: session.run(fetch, feed))
    session.run(init)
    step = Step(name, inside, lambda **kw: session.run(fetch, feed, **kw), ops)
    for label, level in LEVELS.items():
        options = v1.RunOptions(trace_level=level)

        def native(options: Any = options) -> int:
            message = v1.RunMetadata()
            session.native_run(fetch, feed, options=options, run_metadata=message)
            if sum(len(d.node_stats) for d in message.step_stats.dev_stats) < ops:
                raise AssertionError("TensorFlow's own trace is not whole.")
            return inside.took

        step.native[label] = native
    return step


def function_steps(function: Any, x: Any, ops: int) -> Iterator[Step]:
    """A step that is a function."""
    return with_both("function", lambda name: python_step(name, InsideFunction(function, x), ops))


def python_step(name: str, inside: Inside, ops: int) -> Step:
    """A step of a function or of eager code."""
    return Step(name, inside, lambda **kw: adapter.run(inside, **kw), ops)


def tiny_steps(v1: Any) -> Iterator[Step]:
    """A chain of 1,000 tiny ops in each mode."""
    import tensorflow as tf

    def build(v1: Any) -> tuple[dict[Any, Any], Any]:
        x, y = chain(v1)
        return {x: np.full(4, 0.5, np.float32)}, y

    yield from session_steps(v1, build, OPS)
    x = tf.constant(np.full(4, 0.5, np.float32))

    def body(x: Any) -> Any:
        y = x
        for i in range(OPS):
            y = y * x if i % 2 else y + x
        return y

    function = tf.function(body, autograph=False)
    yield from function_steps(function, x, OPS)
    yield python_step("eager", Inside(lambda: body(x)), OPS)


def training_steps(v1: Any) -> Iterator[Step]:
    """A step of gradient descent on a perceptron of 784-256-256-10, batch 32."""
    import tensorflow as tf

    rng = np.random.default_rng(5)
    sizes = (784, 256, 256, 10)
    shapes = list(itertools.pairwise(sizes))
    start = [rng.normal(0, 0.05, shape).astype(np.float32) for shape in shapes]
    images = rng.random((32, 784), np.float32)
    labels = rng.integers(0, 10, 32)

    def loss_of(weights: list[Any], x: Any) -> Any:
        for weight in weights[:-1]:
            x = tf.nn.relu(tf.matmul(x, weight))
        logits = tf.matmul(x, weights[-1])
        found = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(found)

    def build(v1: Any) -> tuple[dict[Any, Any], Any]:
        weights = [
            v1.get_variable(f"w{i}", initializer=value, use_resource=True)
            for i, value in enumerate(start)
        ]
        x = v1.placeholder(tf.float32, [32, 784])
        loss = loss_of(weights, x)
        gradients = tf.gradients(loss, weights)
        updates = [w.assign_sub(0.01 * g) for w, g in zip(weights, gradients, strict=True)]
        with tf.control_dependencies(updates):
            return {x: images}, tf.identity(loss)

    yield from session_steps(v1, build, 20)
    weights = [tf.Variable(value) for value in start]
    x = tf.constant(images)

    @tf.function
    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(weights, x)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.01 * g)
        return loss

    yield from function_steps(train, x, 20)


def tensorflow_tiny_ops(v1: Any) -> Iterator[Result]:
    """Dilation of 1,000 tiny ops, with TensorFlow's own tracing beside it; then collecting."""
    limits = {"session": 1.4, "function": 1.8, "eager": 1.4}
    for step in tiny_steps(v1):
        gc.collect()
        took = step.measure()
        for label in took:
            if label:
                limit = limits[step.name.removeprefix("prepared ")] if label == "SOFTWARE" else None
                yield compare(f"TensorFlow {step.name}, 1,000 tiny ops: {label}, over untraced",
                              took[label], took[""], limit)  # fmt: skip
        yield from _around(step)


def _around(step: Step) -> Iterator[Result]:
    traced = step.traced["SOFTWARE"]
    collecting = statistics.median(traced.collecting) / 1000
    target, met = at_most(10, collecting)
    yield Result(f"TensorFlow {step.name}: collecting after the run, per op, and decoding later",
                 collecting, statistics.median(traced.decoding) / 1000, collecting, target, met,
                 unit="us", note=f"getting ready before the run took "
                 f"{statistics.median(traced.starting) / 1000:.0f} us")  # fmt: skip


def tensorflow_training_step(v1: Any) -> Iterator[Result]:
    """Dilation of a training step."""
    for step in training_steps(v1):
        gc.collect()
        took = step.measure(rounds=200)
        for label in took:
            if label:
                limit = 1.1 if label == "SOFTWARE" else None
                yield compare(f"TensorFlow {step.name}, training step: {label}, over untraced",
                              took[label], took[""], limit)  # fmt: skip


GROUPS = (tensorflow_tiny_ops, tensorflow_training_step)
