"""Batch normalisation as one node."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
RANDOM = np.random.default_rng(5)
IMAGES = RANDOM.normal(2.0, 3.0, (3, 4, 2, 5))
SCALE, OFFSET = RANDOM.normal(size=5), RANDOM.normal(size=5)
MEAN, VARIANCE = RANDOM.normal(size=5), RANDOM.uniform(0.5, 2, 5)
BEFORE, AFTER, AGAIN = RANDOM.normal(size=(3, 3, 4, 2, 5))[:3]


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, **{"tol": 2e-5} | more))


def arranged(images, data_format):
    """Channels last by default; in rank 5 each image is a stack of one."""
    images = np.expand_dims(images, 1) if "D" in data_format else images
    return np.moveaxis(images, -1, 1) if data_format.startswith("NC") else images


def forward(tf, version, images=IMAGES, *, dtype="float32", running=False, **more):
    data = arranged(images, more.get("data_format", "NHWC"))
    given = [MEAN, VARIANCE] if running else [[], []]
    outputs = getattr(tf.raw_ops, version)(
        x=tf.constant(data, dtype),
        **{
            name: tf.constant(value, "float32")
            for name, value in zip(
                ("scale", "offset", "mean", "variance"), (SCALE, OFFSET, *given), strict=True
            )
        },
        **more,
    )
    return list(outputs)[:5]


def backward(tf, version, *, dtype="float32", **more):
    wire = more.get("data_format", "NHWC")
    if version.endswith("V3"):
        more["reserve_space_3"] = tf.constant(0.0)
    outputs = getattr(tf.raw_ops, version)(
        y_backprop=tf.constant(arranged(BEFORE, wire), dtype),
        x=tf.constant(arranged(IMAGES, wire), dtype),
        scale=tf.constant(SCALE, "float32"),
        reserve_space_1=tf.constant(IMAGES.mean((0, 1, 2)), "float32"),
        reserve_space_2=tf.constant(IMAGES.var((0, 1, 2)), "float32"),
        **more,
    )
    return list(outputs)[:3]


# Two versions share a kernel, so the second one has one row of each kind.
for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    back = op.replace("Norm", "NormGrad")
    few = op == "FusedBatchNormV2"
    for wire in ("NHWC",) if few else ("NHWC", "NCHW"):
        case(f"{op}-{wire}", op, lambda tf, o=op, w=wire: forward(tf, o, data_format=w))
        case(f"{back}-{wire}", back, lambda tf, o=back, w=wire: backward(tf, o, data_format=w))
        # What is beyond the result and the averages is not defined then.
        case(f"{op}-{wire}-inference", op, lambda tf, o=op, w=wire: forward(
            tf, o, running=True, is_training=False, data_format=w)[:1])  # fmt: skip
    case(f"{back}-inference", back, lambda tf, o=back: backward(tf, o, is_training=False))
    case(f"{op}-one-image", op, lambda tf, o=op: forward(tf, o, IMAGES[:1, :1, :1]), grad=False)
    case(f"{op}-none", op, lambda tf, o=op: forward(tf, o, IMAGES[:0])[:3], grad=False)
    case(f"{op}-matrix", op, lambda tf, o=op: forward(tf, o, IMAGES[0, 0]), fails="build",
         match="rank 4")  # fmt: skip
    case(f"{op}-channels", op, lambda tf, o=op: forward(tf, o, IMAGES[..., :4]), fails="build",
         match="4 and 5")  # fmt: skip
    if op != "FusedBatchNorm":
        case(f"{op}-float16", op, lambda tf, o=op: forward(tf, o, dtype="float16"), tol=5e-3)
        case(f"{back}-float16", back, lambda tf, o=back: backward(tf, o, dtype="float16"), tol=2e-2)
case("FusedBatchNorm-float64", "FusedBatchNorm", lambda tf: forward(
    tf, "FusedBatchNorm", dtype="float64"), fails="build")  # fmt: skip
for wire in ("NDHWC", "NCDHW"):
    case(f"FusedBatchNormV3-{wire}", "FusedBatchNormV3", lambda tf, w=wire: forward(
        tf, "FusedBatchNormV3", data_format=w))  # fmt: skip
case("FusedBatchNormV3-averaged", "FusedBatchNormV3", lambda tf: forward(
    tf, "FusedBatchNormV3", running=True, exponential_avg_factor=0.25, epsilon=0.5))  # fmt: skip

case("fused_batch_norm", "FusedBatchNormV3", lambda tf: tf.nn.fused_batch_norm(
    tf.constant(IMAGES, "float32"), tf.constant(SCALE, "float32"), OFFSET.astype("float32"),
    name="bn"))  # fmt: skip
case("fused_batch_norm-fed", "FusedBatchNormV3", lambda tf: tf.nn.fused_batch_norm(
    tf.placeholder("float32", [None, None, 2, 5], name="x"), SCALE.astype("float32"),
    OFFSET.astype("float32"), MEAN.astype("float32"), VARIANCE.astype("float32"), 0.01,
    is_training=False)[0], feeds={"x:0": IMAGES})  # fmt: skip
case("fused_batch_norm-no-mean", "FusedBatchNormV3", lambda tf: tf.nn.fused_batch_norm(
    tf.constant(IMAGES), SCALE, OFFSET, is_training=False), fails="build",
    match="mean=None")  # fmt: skip
