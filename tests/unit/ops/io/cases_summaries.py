"""Summaries, byte for byte."""

import numpy as np
from op_cases import Case
from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

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


RANDOM = np.random.default_rng(3)
SPREAD = RANDOM.normal(0, 1, 1000) * 10.0 ** RANDOM.integers(-15, 22, 1000)
VALUES = {
    "spread": SPREAD,
    "small": RANDOM.normal(size=(4, 5)),
    "zeros": np.zeros(7),
    "scalar": np.array(-3.5),
    "none": np.zeros(0),
    "limits": np.array([1e-12, 1.1e-12, -1e-12, 1e20, -1e20, 1e30, -1e30, 0.0]),
}
PIXELS = RANDOM.normal(size=(4, 3, 5, 3))


def histogram(id, values, dtype, **more):
    return Case(
        f"histogram/{id}",
        ("HistogramSummary",),
        lambda tf: tf.summary.histogram("h", tf.constant(values, dtype)),
        **more,
    )


def image(id, pixels, dtype, **more):
    """Pixels are compared elsewhere: how they are packed is up to the encoder."""
    return Case(
        f"image/{id}",
        ("ImageSummary",),
        lambda tf: tf.summary.image("i", tf.constant(pixels, dtype)),
        values=False,
        **more,
    )


WAVES = np.sin(np.arange(24.0)).reshape(2, 6, 2) * 1.5


def audio(id, waves, **more):
    return Case(
        f"audio/{id}",
        ("AudioSummaryV2",),
        lambda tf: tf.summary.audio("a", tf.constant(waves, "float32"), 8000.5, **more),
    )


def described(tf):
    metadata = SummaryMetadata()
    metadata.plugin_data.plugin_name = "mine"
    return tf.summary.tensor_summary(
        "t", tf.constant([[1, 2]]), "what it is", summary_metadata=metadata, display_name="shown"
    )


CASES = [
    audio("stereo", WAVES),
    audio("mono", WAVES[:, :, 0]),
    audio("one", WAVES, max_outputs=1, family="f"),
    Case("tensor/plain", TEXT, lambda tf: tf.summary.tensor_summary("t", tf.constant([0.5, 2.0]))),
    Case("tensor/described", TEXT, described),
    *(histogram(f"{n}-{d}", v, d) for n, v in VALUES.items() for d in ("float32", "float64")),
    histogram("halves", VALUES["small"], "float16"),
    histogram("ints", np.array([[1, -2], [3, 3]]), "int32"),
    histogram("bytes", np.arange(20), "uint8"),
    histogram("nan", [1.0, float("nan")], "float32", fails="run", match="Nan in summary histogram"),
    histogram(
        "infinity", [float("inf")], "float32", fails="run", match="Infinity in summary histogram"
    ),
    histogram("strings", ["a"], "string", fails="build"),
    Case(
        "histogram/family",
        ("HistogramSummary",),
        lambda tf: inside(tf, lambda: tf.summary.histogram("h", [1.0], family="f")),
    ),
    image("floats", PIXELS, "float32"),
    image("halves", PIXELS[:2], "float16"),
    image("bytes", np.arange(12).reshape(1, 2, 2, 3), "uint8"),
    image("grey", PIXELS[..., :1], "float32"),
    image("channels", PIXELS[..., :2], "float32", fails="run", match="last dim 1, 3, or 4"),
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
