"""Checks: what they let through, and what they say otherwise.

TensorFlow hides the op that shows floats in a conditional, so the graphs are not compared.
"""

import numpy as np
from op_cases import Case

X, Y = [1.0, 2.0, 3.0], [1.0, 2.5, 4.0]
GOOD = {
    "equal": (X, X), "none_equal": (X, [2.0, 1.0, 1.0]), "less": (X, [9.0]),
    "less_equal": (X, Y), "greater": (Y, 0.0), "greater_equal": (Y, X), "near": (X, X),
}  # fmt: skip
BAD = {
    "equal": (X, Y), "none_equal": (X, Y), "less": (X, Y), "less_equal": (Y, X),
    "greater": (X, Y), "greater_equal": (X, Y), "near": (X, Y),
}  # fmt: skip
SIGNS = {"equal": "==", "none_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
         "greater_equal": ">="}  # fmt: skip
SIGNED_GOOD = {"positive": X, "negative": [-1.0], "non_negative": [0.0, 1.0],
               "non_positive": [0.0, -1.0]}  # fmt: skip


def fed(tf, rank=1):
    return tf.placeholder(tf.float32, [None] * rank if rank else None, name="x")


def checked(tf, check):
    """A tensor that is there once the check has been made."""
    with tf.control_dependencies([check]):
        return tf.identity(tf.constant(7))


def of(name):
    return lambda tf: getattr(tf, f"assert_{name}")


def pair(name, values):
    """Two values that are not known when the graph is built."""

    def build(tf):
        check = of(name)(tf)(fed(tf), values[1], message="so it is", summarize=2)
        return checked(tf, check)

    return build


def case(name, build, **options):
    return Case(f"assert/{name}", ("Assert",), build, graph=False, **options)


def fails(name, build, match, when="run", **options):
    return Case(f"assert/{name}", (), build, fails=when, match=match, **options)


CASES = [
    *[case(f"{name} fed", pair(name, values), feeds={"x:0": values[0]})
      for name, values in GOOD.items()],
    *[case(f"{name} known", lambda tf, n=name, v=values: checked(
        tf, of(n)(tf)(tf.constant(v[0]), tf.constant(v[1]), name="named")))
      for name, values in GOOD.items()],
    *[fails(f"{name} not", pair(name, values), "so it is", feeds={"x:0": values[0]})
      for name, values in BAD.items()],
    *[fails(f"{name} not known", lambda tf, n=name, v=values: of(n)(tf)(
        tf.constant(v[0]), tf.constant(v[1])), f"Condition x {SIGNS[name]} y did not hold", "build")
      for name, values in BAD.items() if name != "near"],
    *[case(f"{name} fed", lambda tf, n=name: checked(tf, of(n)(tf)(fed(tf))),
           feeds={"x:0": values}) for name, values in SIGNED_GOOD.items()],
    *[fails(f"{name} not", lambda tf, n=name: checked(tf, of(n)(tf)(fed(tf), message="a sign")),
            "a sign.  ", feeds={"x:0": [1.0, -1.0] if "non" in name else [0.0]})
      for name in SIGNED_GOOD],
    case("with data of its own", lambda tf: checked(tf, tf.assert_less(
        fed(tf), 9.0, data=["too much", fed(tf)])), feeds={"x:0": [1.0], "x_1:0": [2.0]}),
    case("rank fed", lambda tf: checked(tf, tf.assert_rank(fed(tf, 0), 2)),
         feeds={"x:0": [[1.0]]}),
    case("rank at least fed", lambda tf: checked(tf, tf.assert_rank_at_least(fed(tf, 0), 1)),
         feeds={"x:0": [[1.0]]}),
    case("rank in fed", lambda tf: checked(tf, tf.assert_rank_in(fed(tf, 0), [0, 2])),
         feeds={"x:0": [[1.0]]}),
    Case("assert/known when built", ("NoOp",), lambda tf: [
        tf.assert_rank(fed(tf, 2), 2), tf.assert_rank_at_least([[1.0]], 1),
        tf.assert_rank_in([1.0], (0, 1)), tf.assert_integer(3), tf.assert_type([1.0], tf.float32),
        tf.assert_scalar(4.0), tf.debugging.assert_scalar(5, name="five")], graph=False,
        feeds={"x:0": [[1.0]]}),
    fails("rank fed not", lambda tf: checked(tf, tf.assert_rank(fed(tf, 0), 1, message="rows")),
          "rows.  ", feeds={"x:0": [[1.0]]}),
    fails("rank in not fed", lambda tf: checked(tf, tf.assert_rank_in(fed(tf, 0), [0, 1])),
          "must have rank in", feeds={"x:0": [[1.0]]}),
    fails("rank not", lambda tf: tf.assert_rank(fed(tf, 2), 1),
          "Tensor x:0 must have rank 1.  Received rank 2", "build"),
    fails("rank at least not", lambda tf: tf.assert_rank_at_least(fed(tf, 1), 2, message="m"),
          "m.  Tensor x:0 must have rank at least 2.  Received rank 1", "build"),
    fails("rank in not", lambda tf: tf.assert_rank_in(fed(tf, 1), [2, 3]),
          "Tensor x:0 must have rank in (2, 3).  Received rank 1", "build"),
    fails("integer not", lambda tf: tf.assert_integer(fed(tf)), "to be integer type", "build"),
    fails("type not", lambda tf: tf.assert_type(fed(tf), tf.int32), "must be of type", "build"),
    fails("scalar not", lambda tf: tf.assert_scalar(fed(tf)), "Expected scalar shape", "build"),
    fails("float types that differ", lambda tf: tf.assert_same_float_dtype(
        [fed(tf), tf.constant(np.float64(1))]), "must be of the same type", "build"),
    fails("a type that is no float", lambda tf: tf.assert_same_float_dtype([tf.constant(1)]),
          "Expected floating point type", "build"),
    fails("a text for a list", lambda tf: tf.assert_proper_iterable("ab"), "proper", "build"),
    Case("assert/order", (), lambda tf: [
        tf.is_strictly_increasing([1, 2, 2]), tf.is_non_decreasing([1, 2, 2]),
        tf.is_non_decreasing(fed(tf, 2)), tf.is_strictly_increasing(tf.zeros([0])),
        tf.is_strictly_increasing([[1.0], [2.0]])], {"x:0": [[1.0, 2.0], [0.0, 5.0]]},
        graph=False),
]  # fmt: skip
