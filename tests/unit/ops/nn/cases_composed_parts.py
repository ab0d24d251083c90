"""What is made of other ops: parts of networks, values in order, grids, tables of confusions."""

from __future__ import annotations

import numpy as np
from op_cases import Case

RANDOM = np.random.default_rng(47)
ROWS = RANDOM.normal(size=(3, 4, 5)).astype("float32")
SQUARES = RANDOM.normal(size=(1, 8, 8, 2))
FILTERS = RANDOM.normal(size=(3, 3, 2, 3))
TIES = np.array([[2, 1, 2, -(2**31)], [0, 2**31 - 1, 0, 5]], "int32")
CASES: list[Case] = []


def case(id, op_type, build, **more):
    # Which ops TensorFlow takes for these has changed over its versions.
    CASES.append(Case(id, (op_type,), build, **{"tol": 2e-6, "graph": False} | more))


for values in (ROWS, TIES, np.zeros((0, 2))):
    case(f"zero_fraction-{values.shape}", "Cast",
         lambda tf, v=values: tf.nn.zero_fraction(tf.constant(np.where(v > 0, v, 0))),
         grad=False)  # TensorFlow counts whole numbers.  # fmt: skip
case("crelu", "Relu", lambda tf: tf.nn.crelu(tf.constant(ROWS)))
case("crelu-axis", "Relu", lambda tf: tf.nn.crelu(tf.constant(ROWS), axis=1))
case("swish", "Sigmoid", lambda tf: tf.nn.swish(tf.constant(ROWS)))
case("weighted_cross_entropy", "Log1p", lambda tf: tf.nn.weighted_cross_entropy_with_logits(
    labels=tf.constant((ROWS > 0).astype("f4")), logits=tf.constant(ROWS * 20),
    pos_weight=2.5))  # fmt: skip
case("weighted_cross_entropy-shapes", "Log1p", lambda tf: tf.nn.weighted_cross_entropy_with_logits(
    labels=tf.zeros([2, 3]), logits=tf.zeros([3, 2]), pos_weight=2.5), fails="build",
    match="must have the same shape")  # fmt: skip
for rate, padding in ((2, "SAME"), (2, "VALID"), (1, "SAME")):
    case(f"atrous_conv2d-{rate}-{padding}", "Conv2D", lambda tf, r=rate, p=padding:
         tf.nn.atrous_conv2d(
             tf.constant(SQUARES),
             tf.constant(FILTERS), r, p),
         tol=1e-9)  # fmt: skip
case("accumulate_n", "Const", lambda tf: tf.accumulate_n([tf.constant(ROWS), tf.constant(ROWS)]))
case("scalar_mul", "Mul", lambda tf: tf.scalar_mul(-2.5, tf.constant(ROWS)))
for direction in ("ASCENDING", "DESCENDING"):
    for axis in (-1, 0):
        for name, values in (("rows", ROWS), ("ties", TIES)):
            case(f"sort-{direction}-{axis}-{name}", "TopKV2",
                 lambda tf, v=values, a=axis, d=direction: tf.sort(tf.constant(v), a, d),
                 grad=name == "rows")  # Integers have none.  # fmt: skip
            case(f"argsort-{direction}-{axis}-{name}", "TopKV2",
                 lambda tf, v=values, a=axis, d=direction: tf.argsort(tf.constant(v), a, d),
                 grad=False)  # Places have none.  # fmt: skip
case("sort-fed", "TopKV2", lambda tf: tf.sort(tf.placeholder("float32", [None, 3], name="x"), 0),
     feeds={"x:0": ROWS[0, :, :3]})  # fmt: skip
for indexing in ("xy", "ij"):
    case(f"meshgrid-{indexing}", "Mul", lambda tf, i=indexing: tf.meshgrid(
        tf.constant([1.0, 2.0, 3.0]), tf.constant([7.0, 8.0]), tf.constant([0.5, 0.25]),
        indexing=i))  # fmt: skip
case("meshgrid-one", "Mul", lambda tf: tf.meshgrid(tf.constant([1, 2, 3])), grad=False)
case("meshgrid-fed", "Mul", lambda tf: tf.meshgrid(
    tf.placeholder("float32", [None], name="x"), tf.constant([7.0, 8.0])),
    feeds={"x:0": ROWS[0, 0]})  # fmt: skip
case("confusion", "ScatterNd", lambda tf: tf.confusion_matrix([0, 2, 2, 1], [0, 1, 2, 1]))
case("confusion-classes", "ScatterNd", lambda tf: tf.confusion_matrix(
    tf.constant([[0], [2]], tf.int64), tf.constant([0, 1], tf.int64), 4,
    dtype=tf.float64))  # fmt: skip
case("confusion-weights", "ScatterNd", lambda tf: tf.confusion_matrix(
    [0, 2], [0, 1], 3, dtype=tf.float32, weights=[0.5, 2.0]), grad=False)  # fmt: skip
