"""What `stepscope.Recorder` costs beside what it was granted, in one process.

Four programs train in short blocks of steps, in turn without a recorder and under one with a budget
of 1, 5 and 20%. Which of the two comes first changes from pair to pair. The upper end of the
interval that has the median in 19 of 20 such measurements has to be at most the budget and a point
more. What entering and leaving a recorder takes is said in the notes: it is not part of the loop.

Each block has a recorder of its own, and so the first run of every kind, which is recorded whatever
it costs: it is judged with the block that has to repay it, which is more than is asked of a program
that runs for minutes.

    STEPSCOPE_ALTERNATIONS=30   pairs of each budget
    STEPSCOPE_BLOCK_S=1.0       how long a block is without a recorder
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.harness import Pairs, Result, clock

ALTERNATIONS: Final = int(os.environ.get("STEPSCOPE_ALTERNATIONS", "30"))
BLOCK_S: Final = float(os.environ.get("STEPSCOPE_BLOCK_S", "1.0"))
BUDGETS: Final = (0.01, 0.05, 0.20)
POINT: Final = 0.01
_BATCH: Final = 64
Steps = Callable[[int], None]
"""Makes so many steps of a program."""


@dataclass(slots=True)
class Side:
    """What one budget came to: times of blocks in nanoseconds, and what the recorder said."""

    plain: list[float] = field(default_factory=list)
    recorded: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Ratios of what the whole process computed."""
    said: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    """What of that the first run of each kind cost, in nanoseconds."""
    around: list[float] = field(default_factory=list)
    """What entering and leaving took."""


def budget_keras(tf: Any) -> list[Result]:
    """A network of Keras, by `fit`."""
    del tf
    import keras

    model = keras.Sequential(
        [keras.layers.Dense(128, activation="relu"), keras.layers.Dropout(0.2),
         keras.layers.Dense(10)]
    )  # fmt: skip
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images, labels = _data()
    images, labels = np.tile(images, (20, 1)), np.tile(labels, 20)

    def steps(count: int) -> None:
        epochs = max(1, round(count / 20))
        model.fit(images, labels, batch_size=_BATCH, epochs=epochs, verbose=0)

    return measured("Keras MLP", steps)


def budget_embedded(tf: Any) -> list[Result]:
    """Training on the embedded engine."""
    del tf
    import stepscope.tf1 as tf1

    with tf1.Graph().as_default():
        return _graph_training("embedded training", tf1)


def budget_session(tf: Any) -> list[Result]:
    """A loop of `Session.run` on TensorFlow."""
    with tf.Graph().as_default():
        return _graph_training("TensorFlow 1 session loop", tf)


def budget_eager(tf: Any) -> list[Result]:
    """A loop of gradient tapes."""
    del tf
    import tensorflow as tf2

    images, labels = map(tf2.constant, _data())
    random = np.random.default_rng(2)
    weights = [
        tf2.Variable(random.normal(scale=0.05, size=shape).astype(np.float32))
        for shape in ([784, 256], [256, 10])
    ]

    def steps(count: int) -> None:
        for _ in range(count):
            with tf2.GradientTape() as tape:
                logits = tf2.nn.relu(images @ weights[0]) @ weights[1]
                loss = tf2.reduce_mean(
                    tf2.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                )
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(0.1 * gradient)

    return measured("eager loop", steps)


GROUPS = (budget_keras, budget_embedded, budget_session, budget_eager)


def _data() -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    return random.random((_BATCH, 784), np.float32), random.integers(0, 10, _BATCH)


def _graph_training(what: str, tf: Any) -> list[Result]:
    """A network made with TensorFlow 1's names, on whichever engine has them."""
    images, labels = _data()
    x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int64, [None])
    first = tf.Variable(tf.truncated_normal([784, 256], stddev=0.05))
    second = tf.Variable(tf.truncated_normal([256, 10], stddev=0.05))
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, first)), second)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    ready = tf.global_variables_initializer()
    made: list[Any] = []

    def session() -> Any:
        # One that a recorder sees is made while it is open, as the program of its user would.
        made.append(tf.Session())
        made[-1].run(ready)
        return made[-1]

    def steps(count: int) -> None:
        run, feeds = session().run, {x: images, y: labels}
        for _ in range(count):
            run(train, feeds)
        made.pop().close()

    return measured(what, steps)


def measured(what: str, steps: Steps) -> list[Result]:
    """A row for each budget."""
    steps(50)
    count = _count(steps)
    sides = {budget: Side() for budget in BUDGETS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ALTERNATIONS + 1):
            for budget, side in sides.items():
                place = Path(folder) / f"{budget:g}-{number}"
                pair = Side()
                for recorded in (True, False) if number % 2 else (False, True):
                    _block(pair, steps, count, place if recorded else None, budget)
                if number:  # what comes first is instantiated anew
                    _add(side, pair)
    return [_row(what, budget, side, count) for budget, side in sides.items()]


def _count(steps: Steps) -> int:
    """How many steps take about as long as a block."""
    count = 50
    while True:
        began = clock()
        steps(count)
        took = (clock() - began) / 1e9
        if took > BLOCK_S / 4:
            return max(20, int(count * BLOCK_S / took))
        count *= 2


def _block(pair: Side, steps: Steps, count: int, place: Path | None, budget: float) -> None:
    """One block, with or without a recorder."""
    import stepscope

    if place is None:
        began, computed = clock(), time.process_time_ns()
        steps(count)
        pair.processor.append(time.process_time_ns() - computed)
        pair.plain.append(clock() - began)
        return
    entering = clock()
    with stepscope.Recorder(place, budget=budget, disk="20 MB", triggers=["slow 3x"]) as recorder:
        began, computed = clock(), time.process_time_ns()
        steps(count)
        ended = clock()
        # What its threads still compute is part of what it costs.
        pair.said.append(recorder.overhead)
        pair.first.append(recorder._runs.control.budget.first_ns if recorder._runs else 0)
    pair.processor.append(-(time.process_time_ns() - computed))
    pair.recorded.append(ended - began)
    pair.around.append(clock() - ended + began - entering)
    if recorder.problem:
        raise RuntimeError(recorder.problem)


def _add(side: Side, pair: Side) -> None:
    side.plain += pair.plain
    side.recorded += pair.recorded
    side.said += pair.said
    side.first += pair.first
    side.around += pair.around
    plain, recorded = max(pair.processor), -min(pair.processor)
    side.processor.append(recorded / plain)


def _row(what: str, budget: float, side: Side, count: int) -> Result:
    pairs = Pairs.of(side.recorded, side.plain)
    limit = 1 + budget + POINT
    processor, first = sorted(side.processor), statistics.median(side.first)
    note = (
        f"{100 * (pairs.high - 1):+.2f}% at most (95%), {100 * (pairs.ratio - 1):+.2f}% at the "
        f"median, {100 * (processor[len(processor) // 2] - 1):+.2f}% of processor time with what "
        f"its threads did; by the recorder's own count {100 * statistics.median(side.said):.2f}%; "
        f"{first / 1e6:.1f} ms of it for first runs, which {first / budget / 1e9:.1f} s repay; "
        f"{count} steps a block, entering and leaving {statistics.median(side.around) / 1e6:.0f} ms"
    )
    return Result(
        f"Recorder at {100 * budget:g}%: {what}", pairs.first / 1e6, pairs.second / 1e6,
        pairs.high, f"<= {limit:g}", pairs.high <= limit, note=note,
    )  # fmt: skip
