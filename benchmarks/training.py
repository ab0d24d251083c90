"""Training steps of the embedded engine beside TensorFlow's: an MLP and a CNN of MNIST's size.

Both engines run with their default settings on the same cores. Each step is one `Session.run` of
`GradientDescentOptimizer.minimize`, fed the same arrays, from the same initial values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stepscope.tf1 as ours
from benchmarks.harness import Result, at_most, compare, in_pairs, medians, paired

STEPS = 200
"""Of the CNN, over which the process's memory has to stay flat."""
Build = Callable[[Any], tuple[Any, Any, Any, Any]]


def _variable(tf: Any, rng: np.random.Generator, *shape: int) -> Any:
    scale = np.sqrt(np.prod(shape[:-1])) if len(shape) > 1 else 10
    return tf.Variable((rng.standard_normal(shape) / scale).astype(np.float32))


def _trained(tf: Any, x: Any, logits: Any) -> tuple[Any, Any, Any, Any]:
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    each = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits)
    loss = tf.reduce_mean(each)
    return x, y, loss, tf.train.GradientDescentOptimizer(0.05).minimize(loss)


def mlp(tf: Any) -> tuple[Any, Any, Any, Any]:
    """784-256-256-10."""
    rng = np.random.default_rng(0)
    x = h = tf.placeholder(tf.float32, [None, 784], name="x")
    for inputs, outputs in ((784, 256), (256, 256)):
        weights, bias = _variable(tf, rng, inputs, outputs), _variable(tf, rng, outputs)
        h = tf.nn.relu(tf.matmul(h, weights) + bias)
    return _trained(tf, x, tf.matmul(h, _variable(tf, rng, 256, 10)) + _variable(tf, rng, 10))


def cnn(tf: Any) -> tuple[Any, Any, Any, Any]:
    """Two convolutions of 5 by 5 (32 and 64 features), each pooled, 1024 units, 10 classes."""
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    h = tf.reshape(x, [-1, 28, 28, 1])
    for inputs, outputs in ((1, 32), (32, 64)):
        weights, bias = _variable(tf, rng, 5, 5, inputs, outputs), _variable(tf, rng, outputs)
        h = tf.nn.relu(tf.nn.conv2d(h, weights, [1, 1, 1, 1], "SAME") + bias)
        h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.reshape(h, [-1, 7 * 7 * 64])
    h = tf.nn.relu(tf.matmul(h, _variable(tf, rng, 7 * 7 * 64, 1024)) + _variable(tf, rng, 1024))
    return _trained(tf, x, tf.matmul(h, _variable(tf, rng, 1024, 10)) + _variable(tf, rng, 10))


class Training:
    """One engine training one network."""

    def __init__(self, tf: Any, build: Build, batch: int) -> None:
        graph = tf.Graph()
        with graph.as_default():
            x, y, self.loss, self.update = build(tf)
            start = tf.global_variables_initializer()
        self.session = tf.Session(graph=graph)
        self.session.run(start)
        rng = np.random.default_rng(1)
        self.feed = {
            x: rng.random((batch, 784), dtype=np.float32),
            y: np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)],
        }
        self.full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        self.metadata = tf.RunMetadata()

    def step(self) -> None:
        self.session.run(self.update, self.feed)

    def traced(self) -> None:
        self.session.run(self.update, self.feed, options=self.full, run_metadata=self.metadata)

    def losses(self, steps: int) -> list[float]:
        return [self.session.run([self.loss, self.update], self.feed)[0] for _ in range(steps)]


def training_steps(tf: Any) -> Iterator[Result]:
    """A step of gradient descent: untraced, against TensorFlow's, and with FULL_TRACE."""
    cases = (
        ("MLP 784-256-256-10, batch 32", mlp, 32, 300, 0.75),
        ("MLP 784-256-256-10, batch 256", mlp, 256, 150, 0.75),
        ("CNN 28x28, batch 50", cnn, 50, 30, 2.0),
    )
    for name, build, batch, rounds, limit in cases:
        mine, other = Training(ours, build, batch), Training(tf, build, batch)
        np.testing.assert_allclose(mine.losses(3), other.losses(3), rtol=1e-4)
        warmup = rounds // 10
        plain, theirs = medians(mine.step, other.step, rounds=rounds, warmup=warmup)
        yield compare(f"{name}: SGD step", plain, theirs, limit,
                      note="both engines with their default threads")  # fmt: skip
        pairs = in_pairs(mine.traced, mine.step, rounds=2 * rounds, warmup=warmup)
        yield paired(f"{name}: with FULL_TRACE, against without", pairs, 1.1)
        mine.session.close()
        other.session.close()


def training_memory(_tf: Any) -> Iterator[Result]:
    """The process's memory after 200 steps of the CNN, against that after the first ten."""
    side = Training(ours, cnn, 50)
    for _ in range(10):
        side.step()
    before = resident_bytes()
    for _ in range(STEPS - 10):
        side.step()
    after = resident_bytes()
    target, met = at_most(1.02, after / before)
    yield Result(f"CNN 28x28: resident memory after {STEPS} steps, against after 10",
                 after / 1e6, before / 1e6, after / before, target, met, unit="MB")  # fmt: skip
    side.session.close()


def resident_bytes() -> int:
    """What the process has in memory right now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


GROUPS = (training_steps, training_memory)
