"""`tf.losses`: nodes, values and gradients."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
RANDOM = np.random.default_rng(8)
LABELS = RANDOM.integers(0, 2, (3, 4)).astype("float32")
GUESSES = RANDOM.uniform(0.1, 0.9, (3, 4)).astype("float32")
LOGITS = RANDOM.normal(0, 2, (3, 4)).astype("float32")
CLASSES = np.array([3, 0, 2])
WEIGHTS = {
    "one": 1.0,
    "two": 2.0,
    "zero": 0.0,
    "rows": np.array([[0.5], [0.0], [2.0]], "float32"),
    "all": RANDOM.uniform(0, 1, (3, 4)).astype("float32"),
}


def case(id, build, op_types=("DivNoNan",), **more):
    CASES.append(Case(id, op_types, build, tol=2e-6, **more))


for name in (
    "absolute_difference", "mean_squared_error", "log_loss", "huber_loss", "hinge_loss",
    "sigmoid_cross_entropy", "softmax_cross_entropy",
):  # fmt: skip
    second = GUESSES if "entropy" not in name and name != "hinge_loss" else LOGITS
    flat = name == "softmax_cross_entropy"
    for tag, weights in WEIGHTS.items():
        if flat and tag in ("rows", "all"):
            weights = weights[:, 0]
        if tag in ("one", "rows") or name in ("mean_squared_error", "softmax_cross_entropy"):
            case(f"{name}-{tag}", lambda tf, n=name, w=weights, x=second: getattr(tf.losses, n)(
                tf.constant(LABELS), tf.constant(x), w))  # fmt: skip
    case(f"{name}-fed", lambda tf, n=name: getattr(tf.losses, n)(
        tf.placeholder("float32", [None, 4], name="y"),
        tf.placeholder("float32", [None, 4], name="x"), scope="mine"),
        feeds={"y:0": LABELS, "x:0": second})  # fmt: skip
    case(f"{name}-shapes", lambda tf, n=name: getattr(tf.losses, n)(
        tf.zeros([3, 4]), tf.zeros([2, 4])), fails="build")  # fmt: skip
for tag in ("NONE", "SUM", "MEAN", "SUM_OVER_BATCH_SIZE", "SUM_BY_NONZERO_WEIGHTS"):
    case(f"mean_squared_error-{tag}", lambda tf, t=tag: tf.losses.mean_squared_error(
        tf.constant(LABELS), tf.constant(GUESSES), WEIGHTS["rows"],
        reduction=getattr(tf.losses.Reduction, t)),
        ("Mul",) if tag in ("NONE", "SUM") else ("DivNoNan",))  # fmt: skip
case("mean_squared_error-weights", lambda tf: tf.losses.mean_squared_error(
    LABELS, GUESSES, np.ones(3, "float32")), fails="build",
    match="weights can not be broadcast to values")  # fmt: skip
case("mean_squared_error-reduction", lambda tf: tf.losses.mean_squared_error(
    LABELS, GUESSES, reduction="most"), fails="build", match="most")  # fmt: skip
case("huber_loss-delta", lambda tf: tf.losses.huber_loss(
    tf.constant(LABELS), tf.constant(LOGITS), delta=0.5))  # fmt: skip
for name in ("sigmoid_cross_entropy", "softmax_cross_entropy"):
    case(f"{name}-smooth", lambda tf, n=name: getattr(tf.losses, n)(
        tf.constant(LABELS), tf.constant(LOGITS), label_smoothing=0.2))  # fmt: skip
for tag, labels, weights in (
    ("plain", CLASSES, 1.0), ("column", CLASSES[:, None], 1.0),
    ("weighted", CLASSES, np.array([1.0, 0.0, 3.0], "float32")),
):  # fmt: skip
    case(f"sparse_softmax_cross_entropy-{tag}",
         lambda tf, y=labels, w=weights: tf.losses.sparse_softmax_cross_entropy(
             tf.constant(y), tf.constant(LOGITS), w))  # fmt: skip


def total(tf):
    tf.losses.mean_squared_error(tf.constant(LABELS), tf.constant(GUESSES))
    tf.losses.add_loss(tf.constant(3.0, name="extra"))
    start = tf.constant([1.0, 2.0])
    tf.get_variable("w", initializer=start, regularizer=tf.nn.l2_loss, use_resource=False)
    return [
        tf.losses.get_total_loss(),
        tf.losses.get_total_loss(add_regularization_losses=False, name="bare"),
        tf.losses.get_regularization_loss(),
        *tf.losses.get_losses(),
        *tf.losses.get_regularization_losses(),
    ]


# TensorFlow 2 computes what a regularizer makes of a variable again whenever it is asked for.
case("get_total_loss", total, ("AddN",), init=True, graph=False)
