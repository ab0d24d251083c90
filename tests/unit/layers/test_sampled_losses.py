"""`nce_loss` and `sampled_softmax_loss`, beside TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1

CLASSES, WIDTH, ROWS = 30, 4, 6
RANDOM = np.random.default_rng(5)
TABLE = RANDOM.normal(size=(CLASSES, WIDTH)).astype(np.float32)
OFFSETS = RANDOM.normal(size=CLASSES).astype(np.float32)
INPUTS = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)
LABELS = RANDOM.integers(0, CLASSES, size=(ROWS, 2))


def losses(tf: Any, function: str, columns: int, sampler: str, **more: Any) -> list[Any]:
    """The loss and its gradients, over three runs."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.set_random_seed(3)
        table, offsets = tf.Variable(TABLE, name="table"), tf.Variable(OFFSETS, name="offsets")
        inputs, labels = tf.constant(INPUTS), tf.constant(LABELS[:, :columns])
        if sampler:
            draw = getattr(tf.nn, f"{sampler}_candidate_sampler")
            classes = tf.cast(labels, tf.int64)
            more["sampled_values"] = draw(classes, columns, 8, True, CLASSES)
        found = getattr(tf.nn, function)(
            table, offsets, labels, inputs, 8, CLASSES, num_true=columns, **more
        )
        slopes = tf.gradients(tf.reduce_mean(found), [table, offsets, inputs])
        dense = [tf.convert_to_tensor(slope) for slope in slopes]
        session.run(tf.global_variables_initializer())
        return [found.name, found.shape.as_list(), *(session.run([found, *dense]) for _ in "123")]


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("sampler", ["", "uniform", "learned_unigram"])
@pytest.mark.parametrize("hits", [False, True], ids=["with-hits", "without-hits"])
@pytest.mark.parametrize("function", ["nce_loss", "sampled_softmax_loss"])
def test_losses_and_gradients(
    tf: Any, function: str, hits: bool, sampler: str, columns: int
) -> None:
    ours = losses(tf1, function, columns, sampler, remove_accidental_hits=hits)
    theirs = losses(tf.compat.v1, function, columns, sampler, remove_accidental_hits=hits)
    assert ours[:2] == theirs[:2]
    for run, their_run in zip(ours[2:], theirs[2:], strict=True):
        for value, expected in zip(run, their_run, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)
