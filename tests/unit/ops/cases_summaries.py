"""Summaries, byte for byte."""

import numpy as np
from op_cases import Case

SCALAR = ("ScalarSummary",)
TEXT = ("TensorSummaryV2",)
MERGE = ("MergeSummary",)


def inside(tf, build):
    with tf.name_scope("outer"):
        return build()


def both(tf):
    tf.summary.scalar("loss", tf.constant(0.25))
    tf.summary.text("note", tf.constant("some *text*"))
    return tf.summary.merge_all()


CASES = [
    Case("scalar/float", SCALAR, lambda tf: tf.summary.scalar("loss", tf.constant(2.5))),
    Case("scalar/value", SCALAR, lambda tf: tf.summary.scalar("loss", 2.5)),
    Case("scalar/int", SCALAR, lambda tf: tf.summary.scalar("n", tf.constant(3))),
    Case("scalar/family", SCALAR, lambda tf: tf.summary.scalar("l", tf.constant(1.0), family="f")),
    Case("scalar/tag", SCALAR, lambda tf: tf.summary.scalar("/a b:c", tf.constant(1.0))),
    Case(
        "scalar/scope",
        SCALAR,
        lambda tf: inside(tf, lambda: tf.summary.scalar("loss", tf.constant(1.0))),
    ),
    Case(
        "scalar/twice",
        SCALAR,
        lambda tf: [tf.summary.scalar("loss", tf.constant(v)) for v in (1.0, 2.0)],
    ),
    Case(
        "scalar/vector",
        SCALAR,
        lambda tf: tf.raw_ops.ScalarSummary(tags=["a", "b"], values=tf.constant([1.0, 2.0])),
    ),
    Case(
        "scalar/shapes",
        SCALAR,
        lambda tf: tf.summary.scalar("loss", tf.placeholder(tf.float32, name="x")),
        feeds={"x:0": np.zeros(2, np.float32)},
        fails="run",
        match="not the same shape",
    ),
    Case("text/one", TEXT, lambda tf: tf.summary.text("note", tf.constant("a *b*"))),
    Case("text/several", TEXT, lambda tf: tf.summary.text("note", tf.constant([["a"], ["b"]]))),
    Case(
        "text/number",
        TEXT,
        lambda tf: tf.summary.text("note", tf.constant(1)),
        fails="build",
        match="dtype string",
    ),
    Case("merge/all", MERGE, both),
    Case(
        "merge/named",
        MERGE,
        lambda tf: tf.summary.merge([tf.summary.scalar("a", tf.constant(1.0))], name="every thing"),
    ),
    Case("merge/none", ("NoOp",), lambda tf: tf.summary.merge_all() or tf.no_op()),
    Case(
        "merge/duplicate",
        MERGE,
        lambda tf: tf.summary.merge([tf.summary.scalar("a", tf.constant(1.0))] * 2),
        fails="run",
        match="Duplicate tag a",
    ),
]
