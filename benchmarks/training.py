"""Training steps of the embedded engine beside TensorFlow's: networks of TensorFlow 1's tutorials.

Both engines run with their default settings on the same cores. Each step is one `Session.run` of
an optimizer's `minimize`, fed the same arrays, from the same initial values. Beside them a pipeline
of tf.data: what one batch takes.
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


def _trained(tf: Any, x: Any, logits: Any, optimizer: Any = None) -> tuple[Any, Any, Any, Any]:
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    each = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits)
    loss = tf.reduce_mean(each)
    optimizer = optimizer or tf.train.GradientDescentOptimizer(0.05)
    return x, y, loss, optimizer.minimize(loss)


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


def tutorial(tf: Any) -> tuple[Any, Any, Any, Any]:
    """The tutorials' network of 5 by 5 convolutions: with biases, dropout and Adam."""
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    h = tf.reshape(x, [-1, 28, 28, 1])
    for inputs, outputs in ((1, 32), (32, 64)):
        weights, bias = _variable(tf, rng, 5, 5, inputs, outputs), _variable(tf, rng, outputs)
        h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, weights, [1, 1, 1, 1], "SAME"), bias))
        h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.reshape(h, [-1, 7 * 7 * 64])
    h = tf.nn.relu(tf.matmul(h, _variable(tf, rng, 7 * 7 * 64, 1024)) + _variable(tf, rng, 1024))
    h = tf.nn.dropout(h, rate=0.25, seed=3)
    logits = tf.matmul(h, _variable(tf, rng, 1024, 10)) + _variable(tf, rng, 10)
    return _trained(tf, x, logits, tf.train.AdamOptimizer(0.001))


class _Lstm:
    """A basic LSTM cell in plain ops: TensorFlow 2.21 has `dynamic_rnn` and no cells for it."""

    def __init__(self, tf: Any, rng: np.random.Generator, inputs: int, units: int) -> None:
        self._tf = tf
        self.output_size, self.state_size = units, (units, units)
        self._kernel = _variable(tf, rng, inputs + units, 4 * units)
        self._bias = tf.Variable(np.zeros(4 * units, np.float32))

    def zero_state(self, batch: int, dtype: Any) -> tuple[Any, Any]:
        zeros = self._tf.zeros([batch, self.output_size], dtype)
        return zeros, zeros

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        tf, (c, h) = self._tf, state
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        given, new, forget, out = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(forget + 1.0) + tf.sigmoid(given) * tf.tanh(new)
        h = tf.tanh(c) * tf.sigmoid(out)
        return h, (c, h)


def lstm(tf: Any) -> tuple[Any, Any, Any, Any]:
    """`dynamic_rnn` over 50 steps of 28 values: 128 units, and classes of the last output."""
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, [32, 50 * 28], name="x")
    steps = tf.reshape(x, [32, 50, 28])
    _, (_, last) = tf.nn.dynamic_rnn(_Lstm(tf, rng, 28, 128), steps, dtype=tf.float32)
    return _trained(tf, x, tf.matmul(last, _variable(tf, rng, 128, 10)) + _variable(tf, rng, 10))


class Word2vec:
    """Skip-grams: a vocabulary of 50,000 words, 128 numbers each; 64 words drawn per step."""

    def __init__(self, tf: Any, batch: int = 128) -> None:
        graph, rng = tf.Graph(), np.random.default_rng(0)
        with graph.as_default():
            words = tf.placeholder(tf.int32, [batch])
            labels = tf.placeholder(tf.int32, [batch, 1])
            embeddings = tf.Variable(rng.uniform(-1, 1, (50_000, 128)).astype(np.float32))
            weights, biases = _variable(tf, rng, 50_000, 128), tf.Variable(tf.zeros([50_000]))
            drawn = tf.random.log_uniform_candidate_sampler(
                tf.cast(labels, tf.int64), 1, 64, True, 50_000, seed=5
            )
            each = tf.nn.nce_loss(
                weights, biases, labels, tf.nn.embedding_lookup(embeddings, words), 64, 50_000,
                sampled_values=drawn,
            )  # fmt: skip
            self.loss = tf.reduce_mean(each)
            self.update = tf.train.GradientDescentOptimizer(1.0).minimize(self.loss)
            start = tf.global_variables_initializer()
        self.session = tf.Session(graph=graph)
        self.session.run(start)
        rng = np.random.default_rng(1)
        self.feed = {
            words: rng.integers(0, 50_000, batch), labels: rng.integers(0, 50_000, (batch, 1))
        }  # fmt: skip
        self._full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        self._metadata = tf.RunMetadata()

    def step(self) -> None:
        self.session.run(self.update, self.feed)

    def traced(self) -> None:
        self.session.run(self.update, self.feed, options=self._full, run_metadata=self._metadata)

    def losses(self, steps: int) -> list[float]:
        return [self.session.run([self.loss, self.update], self.feed)[0] for _ in range(steps)]


class Pipeline:
    """One engine mapping and batching: 64 rows of 128 numbers, scaled one by one, per batch."""

    def __init__(self, tf: Any) -> None:
        graph = tf.Graph()
        with graph.as_default():
            rows = np.random.default_rng(1).random((4096, 128), dtype=np.float32)
            data = tf.data.Dataset.from_tensor_slices((rows, np.arange(4096, dtype=np.int32)))
            data = data.map(lambda row, label: (row * 2.0 - 1.0, label + 1)).batch(64).repeat()
            self._next = tf.data.make_one_shot_iterator(data).get_next()
        self.session = tf.Session(graph=graph)
        self._full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        self._metadata = tf.RunMetadata()

    def batch(self) -> Any:
        return self.session.run(self._next)

    def traced(self) -> Any:
        return self.session.run(self._next, options=self._full, run_metadata=self._metadata)


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
            x: rng.random((batch, x.shape.as_list()[1]), dtype=np.float32),
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
        ("MLP 784-256-256-10, batch 32", mlp, 32, 300, 0.8),
        ("MLP 784-256-256-10, batch 256", mlp, 256, 150, 0.8),
        ("CNN 28x28, batch 50", cnn, 50, 30, 0.85),
        ("5x5 CNN of the tutorials, batch 128", tutorial, 128, 15, 1.1),
        ("LSTM of dynamic_rnn, 128 units, 50 steps, batch 32", lstm, 32, 50, 1.0),
    )
    for name, build, batch, rounds, limit in cases:
        mine, other = Training(ours, build, batch), Training(tf, build, batch)
        np.testing.assert_allclose(mine.losses(3), other.losses(3), rtol=1e-4)
        warmup = max(3, rounds // 10)
        plain, theirs = medians(mine.step, other.step, rounds=rounds, warmup=warmup)
        yield compare(
            f"{name}: {'Adam' if build is tutorial else 'SGD'} step",
            plain,
            theirs,
            limit,
            note=_kernels(),
        )
        pairs = in_pairs(mine.traced, mine.step, rounds=2 * rounds, warmup=warmup)
        yield paired(f"{name}: with FULL_TRACE, against without", pairs, 1.1)
        mine.session.close()
        other.session.close()


def _kernels() -> str:
    """Which processor's kernels NumPy's BLAS uses: `OPENBLAS_CORETYPE` would choose others."""
    import threadpoolctl

    found = {str(library.get("architecture")) for library in threadpoolctl.threadpool_info()}
    return f"both engines with their default threads; BLAS for {', '.join(sorted(found))}"


def word_vectors(tf: Any) -> Iterator[Result]:
    """A step of word2vec with `nce_loss`: untraced, against TensorFlow's, and with FULL_TRACE."""
    mine, other = Word2vec(ours), Word2vec(tf)
    np.testing.assert_allclose(mine.losses(3), other.losses(3), rtol=1e-4)
    plain, theirs = medians(mine.step, other.step, rounds=100, warmup=10)
    yield compare("word2vec with nce_loss: SGD step", plain, theirs, 1.0)
    pairs = in_pairs(mine.traced, mine.step, rounds=200, warmup=10)
    yield paired("word2vec with nce_loss: with FULL_TRACE, against without", pairs, 1.1)
    mine.session.close()
    other.session.close()


def input_pipelines(tf: Any) -> Iterator[Result]:
    """A batch of a tf.data pipeline: untraced, against TensorFlow's, and with FULL_TRACE."""
    mine, other = Pipeline(ours), Pipeline(tf)
    for found, expected in zip(mine.batch(), other.batch(), strict=True):
        np.testing.assert_array_equal(found, expected)
    plain, theirs = medians(mine.batch, other.batch, rounds=200, warmup=20)
    yield compare("tf.data map and batch, 64 rows", plain, theirs, 1.0)
    pairs = in_pairs(mine.traced, mine.batch, rounds=200, warmup=10)
    yield paired("tf.data map and batch: with FULL_TRACE, against without", pairs, 1.1)
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


GROUPS = (training_steps, word_vectors, input_pipelines, training_memory)
