"""`python -m benchmarks.diff_trials`: how often `diff` is wrong, on real runs of a training step.

False alarms: two sets of runs of the same program are compared; any significant change is a false
one. Finds: in one of the sets an op in the middle of the step does 10% more work; the comparison
finds it if that op is significantly slower. Sets are drawn in two ways:

- "processes": each set is recorded by a process of its own, one after the other, as a CI job does
  that records the base and then the change. What differs between processes (where memory lies) is
  part of the noise.
- "stretches": one process records set after set, each a stretch of consecutive steps.

The first steps of a process, which fill caches and pools, are not recorded.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PAIRS, TRIALS, RUNS = 200, 50, 30
WARM_UP = 20
BATCH, WIDTHS, CLASSES = 64, (128, 192, 192, 192), 10
ROUNDS, SLOWER_ROUNDS = 20, 22
SLOWED = "layer2/settle"
FALSE_ALARMS_AT_MOST, FOUND_AT_LEAST = 0.05, 0.9


def _settle(x: np.ndarray, *, rounds: int = ROUNDS) -> np.ndarray:
    for _ in range(rounds):
        np.tanh(x, out=x)
    return x


class TrainingStep:
    """A perceptron with its backward pass and updates written out; one `run` is one step."""

    def __init__(self, rounds: int) -> None:
        import stepscope
        import stepscope.tf1 as tf

        self._stepscope = stepscope
        settle = stepscope.register_op("Settle", _settle, shape="x")
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
                        value = settle(value, rounds=rounds, name="settle")
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

    def run(self) -> bytes:
        metadata = self._stepscope.RunMetadata()
        self._session.run(self._fetches, self._feeds, self._options, metadata)
        return metadata.SerializeToString()
