"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

import numpy as np
from op_cases import Case

NAN, INF = float("nan"), float("inf")
CASES: list[Case] = []


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, **more))


CUBE = (np.arange(24).reshape(2, 3, 4) * 7 % 11 - 4).astype(np.float32)
AXES = (("all", None), ("first", 0), ("last", -1), ("list", [0, 2]), ("every", [0, 1, 2]))
FUNCTIONS = (
    ("Sum", "reduce_sum"),
    ("Mean", "reduce_mean"),
    ("Prod", "reduce_prod"),
    ("Max", "reduce_max"),
    ("Min", "reduce_min"),
)
for op, name in FUNCTIONS:
    for tag, axis in AXES:
        case(f"{op}-{tag}", op, lambda tf, n=name, a=axis: getattr(tf, n)(
            tf.constant(CUBE), a), tol=2e-6)  # fmt: skip
        case(f"{op}-{tag}-kept", op, lambda tf, n=name, a=axis: getattr(tf, n)(
            tf.constant(CUBE), axis=a, keepdims=True, name="r"), tol=2e-6)  # fmt: skip
    for dtype in ("float64", "float16", "int32", "int64", "int8", "uint8"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, d=dtype: getattr(tf, n)(
            tf.constant([[1, 2, 3], [4, 5, 7]], d), 1))  # fmt: skip
    case(f"{op}-scalar", op, lambda tf, n=name: getattr(tf, n)(tf.constant(3.0)))
    case(f"{op}-python", op, lambda tf, n=name: getattr(tf, n)([1.0, 2.0]))
    case(f"{op}-no-axes", op, lambda tf, n=name: getattr(tf, n)(
        tf.constant([1.0, 2.0]), np.zeros(0, np.int32)))  # fmt: skip
    case(f"{op}-int64-axis", op, lambda tf, n=name: getattr(tf, n)(tf.constant(CUBE), np.int64(1)),
         tol=2e-6)  # fmt: skip
    case(f"{op}-nothing", op, lambda tf, n=name: getattr(tf, n)(tf.zeros([0, 3]), 0))
    case(f"{op}-nothing-left", op, lambda tf, n=name: getattr(tf, n)(tf.zeros([0, 3]), 1))
    case(
        f"{op}-nan", op, lambda tf, n=name: getattr(tf, n)(tf.constant([[1.0, NAN], [INF, 2.0]]), 0)
    )
    case(f"{op}-unknown-rank", (op, "Rank", "Range"), lambda tf, n=name: getattr(tf, n)(
        tf.placeholder("float32", name="x")), feeds={"x:0": [[1.0, 2.0], [3.0, 4.0]]})  # fmt: skip
    case(f"{op}-unknown-rank-axis", op, lambda tf, n=name: getattr(tf, n)(
        tf.placeholder("float32", name="x"), -1), feeds={"x:0": [[1.0, 2.0]] * 2})  # fmt: skip
    case(f"{op}-fed-axis", op, lambda tf, n=name: getattr(tf, n)(
        tf.constant(CUBE), tf.placeholder("int32", [1], name="a"), keepdims=True),
        feeds={"a:0": [1]}, tol=2e-6)  # fmt: skip
    case(f"{op}-old-names", op, lambda tf, n=name: getattr(tf, n)(
        tf.constant(CUBE), reduction_indices=[0], keep_dims=True), tol=2e-6)  # fmt: skip
    case(f"{op}-partial", op, lambda tf, n=name: getattr(tf, n)(
        tf.placeholder("float32", [None, 2], name="x"), 0),
        feeds={"x:0": [[1.0, 2.0]] * 3})  # fmt: skip
case("Max-nothing-int", "Max", lambda tf: tf.reduce_max(tf.zeros([0, 3], "int32"), 0))
case("Mean-negative-ints", "Mean", lambda tf: tf.reduce_mean(tf.constant([-1, -2, -4])))
case("Sum-int8-wraps", "Sum", lambda tf: tf.reduce_sum(tf.constant([100, 100, 100], "int8")))
case(
    "Sum-packed", ("Sum", "Pack"), lambda tf: tf.reduce_sum([tf.constant(1.0), tf.constant(2.0)], 0)
)
case("Sum-complex", "Sum", lambda tf: tf.reduce_sum(tf.constant([1 + 2j, 3j])))

TRUTH = [[True, False], [True, True]]
for op, name in (("All", "reduce_all"), ("Any", "reduce_any")):
    for tag, axis in (("all", None), ("first", 0), ("last", [-1])):
        case(f"{op}-{tag}", op, lambda tf, n=name, a=axis: getattr(tf, n)(tf.constant(TRUTH), a))
    case(f"{op}-nothing", op, lambda tf, n=name: getattr(tf, n)(tf.zeros([0], "bool")))
    case(f"{op}-scalar", op, lambda tf, n=name: getattr(tf, n)(tf.constant(True)))
    case(f"{op}-ints", op, lambda tf, n=name: getattr(tf, n)([1, 0]), fails="build", match="bool")

for tag, axis, keep in (("all", None, None), ("last", 1, None), ("kept", [0], True)):
    case(f"reduce_logsumexp-{tag}", ("Max", "Exp", "Log"), lambda tf, a=axis, k=keep:
         tf.reduce_logsumexp(tf.constant([[1.0, 200.0], [-INF, 3.0]]), a, keepdims=k))  # fmt: skip
case("reduce_logsumexp-infinite", "Log", lambda tf: tf.reduce_logsumexp(
    tf.constant([[-INF, -INF], [INF, 3.0]]), 1, name="lse"))  # fmt: skip
case("reduce_logsumexp-unknown", "Log", lambda tf: tf.reduce_logsumexp(
    tf.placeholder("float64", name="x")), feeds={"x:0": [1.0, 2.0]})  # fmt: skip
case("count_nonzero", ("NotEqual", "Sum"), lambda tf: tf.count_nonzero(tf.constant([[0.0, 2.0]])))
case("count_nonzero-int32", "Cast", lambda tf: tf.count_nonzero(
    tf.constant([[0, 2], [3, 4]]), 1, dtype=tf.int32, name="n"))  # fmt: skip

for op, name in (("ArgMax", "argmax"), ("ArgMin", "argmin")):
    for tag, axis in (("default", None), ("first", 0), ("last", -1), ("middle", 1)):
        case(f"{op}-{tag}", op, lambda tf, n=name, a=axis: getattr(tf, n)(tf.constant(CUBE), a))
    for dtype in ("float64", "int32", "uint8", "bool"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, d=dtype: getattr(tf, n)(
            tf.constant(np.array([[1, 0, 0], [0, 1, 1]]).astype(d)), 1))  # fmt: skip
    case(f"{op}-int32-out", op, lambda tf, n=name: getattr(tf, n)(
        tf.constant([1.0, 3.0, 3.0]), 0, output_type=tf.int32, name="at"))  # fmt: skip
    case(f"{op}-old-name", op, lambda tf, n=name: getattr(tf, n)(tf.constant(CUBE), dimension=2))
    case(f"{op}-nan", op, lambda tf, n=name: getattr(tf, n)(
        tf.constant([[NAN, 1.0, 2.0], [1.0, NAN, 0.0]]), 1))  # fmt: skip
    case(f"{op}-no-rows", op, lambda tf, n=name: getattr(tf, n)(tf.zeros([0, 3]), 1))
    case(f"{op}-fed-axis", op, lambda tf, n=name: getattr(tf, n)(
        tf.constant(CUBE), tf.placeholder("int32", [], name="a")), feeds={"a:0": 2})  # fmt: skip
    case(f"{op}-empty-axis", op, lambda tf, n=name: getattr(tf, n)(tf.zeros([2, 0]), 1),
         fails="run", match="Reduction axis 1 is empty")  # fmt: skip
    case(f"{op}-bad-axis", op, lambda tf, n=name: getattr(tf, n)(tf.zeros([2, 2]), 2),
         fails="build", match="Dimension (2) must be in the range [-2, 2)")  # fmt: skip

for exclusive in (False, True):
    for backwards in (False, True):
        tag = f"{'exclusive' if exclusive else 'inclusive'}-{'back' if backwards else 'forth'}"
        case(f"Cumsum-{tag}", "Cumsum", lambda tf, e=exclusive, b=backwards: tf.cumsum(
            tf.constant(CUBE), 1, exclusive=e, reverse=b))  # fmt: skip
        case(f"Cumsum-none-{tag}", "Cumsum", lambda tf, e=exclusive, b=backwards: tf.cumsum(
            tf.zeros([0]), 0, exclusive=e, reverse=b))  # fmt: skip
case("Cumsum-default", "Cumsum", lambda tf: tf.cumsum([1, 2, 3]))
case("Cumsum-last", "Cumsum", lambda tf: tf.cumsum(tf.constant(CUBE), -1, name="running"))
case("Cumsum-int8-wraps", "Cumsum", lambda tf: tf.cumsum(tf.constant([100, 100], "int8")))

case("L2Loss", "L2Loss", lambda tf: tf.nn.l2_loss(tf.constant(CUBE)))
case("L2Loss-float64", "L2Loss", lambda tf: tf.nn.l2_loss(tf.constant([1.0, 2.0], "float64")))
case("L2Loss-float16", "L2Loss", lambda tf: tf.nn.l2_loss(tf.constant([1.0, 2.0], "float16")))
case("L2Loss-scalar", "L2Loss", lambda tf: tf.nn.l2_loss(tf.constant(3.0)))
case("L2Loss-none", "L2Loss", lambda tf: tf.nn.l2_loss(tf.zeros([0])))

for op, name in FUNCTIONS:
    for tag, value in (("scalar", 3.0), ("vector", [3.0, 4.0]), ("none", [])):
        case(f"{op}-unknown-rank-{tag}", op, lambda tf, n=name: getattr(tf, n)(
            tf.placeholder("float32", name="x")), feeds={"x:0": value})  # fmt: skip

case("reduce-bad-axis", "Sum", lambda tf: tf.reduce_sum(tf.constant([1, 2]), 1),
     fails="build", match="Invalid reduction dimension 1 for input with 1 dimensions")  # fmt: skip
case("reduce-twice", "Sum", lambda tf: tf.reduce_sum(tf.constant([[1, 2]]), [0, -2]),
     fails="run", match="duplicate")  # fmt: skip
case("reduce-bad-fed-axis", "Sum", lambda tf: tf.reduce_sum(
    tf.constant([1, 2]), tf.placeholder("int32", [], name="a")), feeds={"a:0": 3},
    fails="run", match="Invalid reduction dimension")  # fmt: skip
case("reduce-both-axes", "Sum", lambda tf: tf.reduce_sum([1], 0, reduction_indices=0),
     fails="build", match="axis")  # fmt: skip
