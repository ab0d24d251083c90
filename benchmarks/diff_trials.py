"""`python -m benchmarks.diff_trials`: how often `diff` is right, on real runs of a training step.

False alarms: two sets of runs of the same program are compared; any significant change is false.
Finds: in one of the sets an op in the middle of the step takes 10% more time, since it does more
work; it is found if that op is significantly slower. Each set has 30 runs. Sets are recorded in
three ways:

- "in turns": both programs are live in one process and take turns, step by step. This is how to
  record for a comparison, and the way that has to find slow-downs.
- "stretches": one program in one process, 30 steps and then 30 more.
- "processes": a process for each set, one after the other, as a simple CI job does it.

In the last two, what changed on the machine in between looks like a change of the program: they
have to be as cautious, and find less. The first steps, which fill caches and pools, are not
recorded. Matrix products use one thread: on a machine with other work two that wait for each other
measure the scheduler.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import stepscope
import stepscope.tf1 as tf
from stepscope.analysis import Diff, diff

Array = NDArray[np.float32]

PAIRS, TRIALS, RUNS = 200, 50, 30
PAIRS_IN_A_PROCESS = 10
WARM_UP = 10
BATCH, WIDTHS, CLASSES = 64, (128, 192, 192, 192), 10
ROUNDS, SLOWER_ROUNDS = 45, 50
"""10% more of the op's own time: what a call costs beside the rounds, about five of them, stays."""
SLOWED = "layer2/settle"
FALSE_ALARMS_AT_MOST, FOUND_AT_LEAST = 0.05, 0.9


def settle_values(x: Array, *, rounds: int = ROUNDS) -> Array:
    for _ in range(rounds):
        np.tanh(x, out=x)
    return x


class TrainingStep:
    """A perceptron with its backward pass and updates written out; one `run` is one step."""

    _settle: ClassVar[Any] = None

    def __init__(self, rounds: int) -> None:
        if TrainingStep._settle is None:
            TrainingStep._settle = stepscope.register_op("Settle", settle_values, shape="x")
        random = np.random.default_rng(0)
        with tf.Graph().as_default() as graph:
            images = tf.placeholder(tf.float32, [BATCH, WIDTHS[0]], name="images")
            labels = tf.placeholder(tf.float32, [BATCH, CLASSES], name="labels")
            layers, value = [], images
            for number, (width, units) in enumerate(
                zip(WIDTHS, (*WIDTHS[1:], CLASSES), strict=True), 1
            ):
                with tf.name_scope(f"layer{number}"):
                    start = random.normal(0, width**-0.5, (width, units)).astype(np.float32)
                    kernel = tf.Variable(start, name="kernel")
                    bias = tf.Variable(np.zeros(units, np.float32), name="bias")
                    before = value
                    value = tf.matmul(before, kernel) + bias
                    if units != CLASSES:
                        value = tf.nn.relu(value)
                    if number == 2:
                        value = TrainingStep._settle(value, rounds=rounds, name="settle")
                    layers.append((before, kernel, bias, value))
            with tf.name_scope("loss"):
                chances = tf.nn.softmax(value)
                loss = -tf.reduce_mean(tf.reduce_sum(labels * tf.log(chances + 1e-7), axis=1))
                slope = (chances - labels) * (1.0 / BATCH)
            updates = []
            for number, (before, kernel, bias, after) in reversed([*enumerate(layers, 1)]):
                with tf.name_scope(f"back{number}"):
                    if number != len(layers):
                        slope = slope * tf.cast(after > 0.0, tf.float32)
                    updates.append(
                        tf.assign_sub(kernel, 0.01 * tf.matmul(before, slope, transpose_a=True))
                    )
                    updates.append(tf.assign_sub(bias, 0.01 * tf.reduce_sum(slope, axis=0)))
                    if number > 1:
                        slope = tf.matmul(slope, kernel, transpose_b=True)
            self._fetches = [loss, *[update.op for update in updates]]
            begin = tf.global_variables_initializer()
        self._session = stepscope.Session(graph=graph)
        self._session.run(begin)
        self._feeds = {
            images: random.random((BATCH, WIDTHS[0]), np.float32),
            labels: np.eye(CLASSES, dtype=np.float32)[random.integers(0, CLASSES, BATCH)],
        }
        self._options = stepscope.RunOptions(trace_level=stepscope.RunOptions.SOFTWARE_TRACE)

        for _ in range(WARM_UP):
            self.run()

    def run(self) -> stepscope.RunMetadata:
        metadata = stepscope.RunMetadata()
        self._session.run(self._fetches, self._feeds, self._options, metadata)
        return metadata


def judged(found: Diff) -> dict[str, Any]:
    """What a comparison said, as far as the trials count it."""
    slowed = next(row for row in found.rows if row.name == SLOWED)
    return {
        "alarms": [row.name for row in (found.total, *found.rows) if row.significant],
        "change": slowed.change,
        "found": slowed.significant and slowed.change > 0,
    }


def in_turns(rounds: int) -> Diff:
    steps = TrainingStep(ROUNDS), TrainingStep(rounds)
    runs: tuple[list[Any], list[Any]] = ([], [])
    for number in range(RUNS):
        for side in (0, 1) if number % 2 else (1, 0):
            runs[side].append(steps[side].run())
    return diff(*runs)


def stretches(rounds: int) -> Diff:
    steps = [TrainingStep(ROUNDS)] * 2 if rounds == ROUNDS else [TrainingStep(ROUNDS)]
    if rounds != ROUNDS:
        steps.append(TrainingStep(rounds))
    base, new = ([step.run() for _ in range(RUNS)] for step in steps)
    return diff(base, new)


def worker(arguments: list[str]) -> str:
    """What a process of its own wrote."""
    command = [sys.executable, "-m", "benchmarks.diff_trials", *arguments]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def processes(rounds: int) -> Diff:
    sets = []
    with tempfile.TemporaryDirectory() as folder:
        for name, turns in (("base", ROUNDS), ("new", rounds)):
            path = Path(folder) / name
            worker(["--record", str(path), "--rounds", str(turns)])
            sets.append([stepscope.RunMetadata.FromString(run) for run in _unpickled(path)])
    return diff(*sets)


def _unpickled(path: Path) -> list[bytes]:
    return list(pickle.loads(path.read_bytes()))  # our own worker's


def trials(way: str, rounds: int, count: int) -> Iterator[dict[str, Any]]:
    """The verdicts of so many comparisons."""
    if way == "processes":
        for _ in range(count):
            yield judged(processes(rounds))
        return
    for first in range(0, count, PAIRS_IN_A_PROCESS):
        part = min(PAIRS_IN_A_PROCESS, count - first)
        lines = worker(["--way", way, "--rounds", str(rounds), "--count", str(part)])
        yield from map(json.loads, lines.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description="How often `diff` is right, on real runs.")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--ways", nargs="+", default=["in_turns", "stretches", "processes"])
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.record:
        step = TrainingStep(given.rounds)
        runs = [step.run().SerializeToString() for _ in range(RUNS)]
        given.record.write_bytes(pickle.dumps(runs))
        return 0
    if given.way:
        way = {"in_turns": in_turns, "stretches": stretches}[given.way]
        for _ in range(given.count):
            print(json.dumps(judged(way(given.rounds))), flush=True)
        return 0
    return report(given.ways, given.pairs, given.trials)


def report(ways: list[str], pairs: int, count: int) -> int:
    """Print what was found each way; 1 if a target was missed."""
    missed = False
    for way in ways:
        same = [verdict["alarms"] for verdict in trials(way, ROUNDS, pairs)]
        alarms = sum(map(bool, same)) / len(same)
        slowed = list(trials(way, SLOWER_ROUNDS, count))
        hits = sum(verdict["found"] for verdict in slowed) / len(slowed)
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        print(f"{way}: {alarms:.1%} false alarms in {len(same)} pairs of the same program")
        names = sorted({name for found in same for name in found})
        print(f"  {', '.join(names) or 'no op'} raised one")
        change = np.median([verdict["change"] for verdict in slowed])
        print(f"  {hits:.0%} of {len(slowed)} slow-downs found (their median: {change:+.1%})")
        print(f"  {load:.1f} programs per core wanted to run", flush=True)
        least = FOUND_AT_LEAST if way == "in_turns" else 0
        met = alarms <= FALSE_ALARMS_AT_MOST and hits >= least
        wanted = f"at most {FALSE_ALARMS_AT_MOST:.0%}" + (f", at least {least:.0%}" * bool(least))
        print(f"  target ({wanted}): {'met' if met else 'NOT met'}", flush=True)
        missed |= not met
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
