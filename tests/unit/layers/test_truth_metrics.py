"""Metrics of truth and prediction against TensorFlow's, batch after batch; templates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1

RANDOM = np.random.default_rng(12)
BATCHES = [
    (RANDOM.integers(0, 2, 20), RANDOM.uniform(size=20).astype("f4"), RANDOM.uniform(size=20))
    for _ in range(3)
]
COUNTS = ["precision", "recall", "true_positives", "false_positives", "true_negatives",
          "false_negatives"]  # fmt: skip


def outcome(tf: Any, build: Any) -> list[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [tf.placeholder(t, [20]) for t in ("int64", "float32", "float32")]
        value, update = build(tf, *feeds)
        session.run(tf.local_variables_initializer())
        found = [session.run(value)]
        for batch in BATCHES:
            found += [session.run(update, dict(zip(feeds, batch, strict=True))), session.run(value)]
        names = [v.op.name for v in tf.local_variables()]
        return [names, value.name, *found]


def agree(tf: Any, build: Any) -> None:
    ours, theirs = outcome(tf1, build), outcome(tf, build)
    assert ours[0] == theirs[0]
    for mine, other in zip(ours[2:], theirs[2:], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.tensorflow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", COUNTS)
def test_counts_and_shares(tf: Any, metric: str, weighted: bool) -> None:
    agree(
        tf,
        lambda e, labels, scores, weights: getattr(e.metrics, metric)(
            labels, scores > 0.4, weights if weighted else None
        ),
    )


@pytest.mark.tensorflow
@pytest.mark.parametrize("options", [{}, {"curve": "PR"}, {"num_thresholds": 11},
                                     {"summation_method": "minoring"}])  # fmt: skip
def test_areas(tf: Any, options: dict[str, Any]) -> None:
    agree(tf, lambda e, labels, scores, weights: e.metrics.auc(labels, scores, weights, **options))


@pytest.mark.tensorflow
def test_mean_of_what_overlaps(tf: Any) -> None:
    agree(
        tf,
        lambda e, labels, scores, weights: e.metrics.mean_iou(
            labels, e.cast(scores * 2.5, "int64"), 4
        ),
    )


def test_values_are_collected() -> None:
    with tf1.Graph().as_default():
        found = tf1.metrics.precision(
            [1], [1], metrics_collections=["values"], updates_collections=["updates"]
        )
        assert (*tf1.get_collection("values"), *tf1.get_collection("updates")) == found
        with pytest.raises(ValueError, match="ROC or PR"):
            tf1.metrics.auc([1], [1.0], curve="X")


def test_a_template_makes_its_variables_once() -> None:
    def layer(x: Any, units: int) -> Any:
        return tf1.layers.dense(x, units, name="inner")

    with tf1.Graph().as_default():
        one, other = (tf1.make_template("shared", layer, units=3) for _ in range(2))
        one(tf1.zeros([2, 3]))
        one(tf1.zeros([4, 3]))
        other(tf1.zeros([4, 3]))
        assert [v.op.name for v in tf1.global_variables()] == [
            "shared/inner/kernel", "shared/inner/bias", "shared_1/inner/kernel",
            "shared_1/inner/bias",
        ]  # fmt: skip
        assert [v.op.name for v in one.trainable_variables] == [
            "shared/inner/kernel", "shared/inner/bias",
        ]  # fmt: skip


@pytest.mark.parametrize("shape", [[6, 4], [2, 3, 9], [3, 3]])
def test_orthogonal_starts(shape: list[int]) -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        found = session.run(tf1.orthogonal_initializer(gain=2.0, seed=5)(shape))
    matrix = found.reshape(-1, shape[-1])
    small = matrix.T @ matrix if len(matrix) >= shape[-1] else matrix @ matrix.T
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-4)
