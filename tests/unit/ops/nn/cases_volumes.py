"""Convolutions and pools of volumes."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
RANDOM = np.random.default_rng(11)
VOLUMES = RANDOM.normal(size=(2, 4, 5, 6, 3)).astype("float32")
FILTER = RANDOM.normal(size=(2, 3, 3, 3, 4)).astype("float32")
ODD = [1, 2, 1, 3, 1]
NONE = [None] * 5


def case(id, op_type, build, **more):
    CASES.append(Case(id, (op_type,), build, **{"tol": 2e-4} | more))


def convolved(tf, strides, padding, dtype="float32", **more):
    return tf.nn.conv3d(
        tf.constant(VOLUMES.astype(dtype)),
        tf.constant(FILTER.astype(dtype)),
        strides,
        padding,
        **more,
    )


for padding in ("SAME", "VALID"):
    for strides in ([1] * 5, [1, 2, 2, 2, 1], ODD):
        case(f"Conv3D-{padding}-{strides}", "Conv3D", lambda tf, s=strides, p=padding:
             convolved(tf, s, p))  # fmt: skip
case("Conv3D-float64", "Conv3D", lambda tf: convolved(tf, [1] * 5, "SAME", "float64"), tol=1e-9)
case("Conv3D-float16", "Conv3D", lambda tf: convolved(tf, [1] * 5, "SAME", "float16"), tol=2e-2)
case("Conv3D-named", "Conv3D", lambda tf: convolved(tf, [1] * 5, "SAME", name="c"))
case("Conv3D-plain", "Conv3D", lambda tf: tf.nn.conv3d(VOLUMES, filters=FILTER, strides=[1] * 5,
                                                       padding="SAME"))  # fmt: skip
case("Conv3D-fed", "Conv3D", lambda tf: tf.nn.conv3d(
    tf.placeholder("float32", [None, None, 5, None, 3], name="x"), tf.constant(FILTER), ODD,
    "SAME"), feeds={"x:0": VOLUMES})  # fmt: skip
case("Conv3D-unknown", "Conv3D", lambda tf: tf.nn.conv3d(
    tf.placeholder("float32", name="x"), tf.placeholder("float32", name="w"), ODD, "VALID"),
    feeds={"x:0": VOLUMES, "w:0": FILTER})  # fmt: skip
case("Conv3D-channels", "Conv3D", lambda tf: tf.nn.conv3d(
    tf.constant(VOLUMES), tf.constant(FILTER[:, :, :, :2]), ODD, "SAME"),
    fails="build", match="3 and 2")  # fmt: skip
case("Conv3D-images", "Conv3D", lambda tf: tf.nn.conv3d(
    tf.constant(VOLUMES[0]), tf.constant(FILTER), ODD, "SAME"),
    fails="build", match="rank 5")  # fmt: skip
case("Conv3D-too-small", "Conv3D", lambda tf: tf.nn.conv3d(
    tf.constant(VOLUMES[:, :1]), tf.constant(FILTER), ODD, "VALID"),
    fails="build", match="Negative dimension")  # fmt: skip

SLOPES = RANDOM.normal(size=(2, 2, 5, 2, 4)).astype("float32")
case("Conv3DBackpropInputV2", "Conv3DBackpropInputV2", lambda tf: tf.nn.conv3d_transpose(
    tf.constant(SLOPES), tf.constant(FILTER), [2, 4, 5, 6, 3], ODD))  # fmt: skip
case("Conv3DBackpropInputV2-named", "Conv3DBackpropInputV2", lambda tf: tf.nn.conv3d_transpose(
    tf.constant(SLOPES), tf.constant(FILTER), tf.constant([2, 4, 5, 6, 3]), ODD,
    name="up"))  # fmt: skip
case("Conv3DBackpropInputV2-fed", "Conv3DBackpropInputV2", lambda tf: tf.nn.conv3d_transpose(
    tf.constant(SLOPES), tf.constant(FILTER), tf.placeholder("int32", [5], name="s"), ODD),
    feeds={"s:0": [2, 4, 5, 6, 3]})  # fmt: skip
case("Conv3DBackpropFilterV2", "Conv3DBackpropFilterV2", lambda tf: tf.nn.conv3d_backprop_filter(
    tf.constant(VOLUMES), [2, 3, 3, 3, 4], tf.constant(SLOPES), ODD, "SAME"))  # fmt: skip

# -- pools -------------------------------------------------------------------------------------

TIES = RANDOM.integers(0, 3, (2, 4, 5, 6, 3)).astype("float32")
for kind in ("max", "avg"):
    op_type = {"max": "MaxPool3D", "avg": "AvgPool3D"}[kind]
    for padding in ("SAME", "VALID"):
        for size, strides in ((2, 2), ([1, 2, 3, 2, 1], ODD), ([3, 1, 2], [1, 1, 1])):
            case(f"{op_type}-{padding}-{size}", op_type,
                 lambda tf, k=kind, n=size, s=strides, p=padding:
                 getattr(tf.nn, f"{k}_pool3d")(tf.constant(TIES), n, s, p), tol=1e-6)  # fmt: skip
    case(f"{op_type}-named", op_type, lambda tf, k=kind: getattr(tf.nn, f"{k}_pool3d")(
        tf.constant(TIES), 2, 2, "VALID", name="pool"), tol=1e-6)  # fmt: skip
    case(f"{op_type}-fed", op_type, lambda tf, k=kind: getattr(tf.nn, f"{k}_pool3d")(
        tf.placeholder("float32", [None, None, 5, 6, None], name="x"), 2, 2, "SAME"),
        feeds={"x:0": VOLUMES}, tol=1e-6)  # fmt: skip
case("AvgPool3DGrad", "AvgPool3DGrad", lambda tf: tf.raw_ops.AvgPool3DGrad(
    orig_input_shape=tf.constant([2, 4, 5, 6, 3]), grad=tf.constant(VOLUMES[:, :2, :3, :3]),
    ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME"), tol=1e-6)  # fmt: skip


def largest(tf):
    x = tf.constant(TIES)
    return x, tf.nn.max_pool3d(x, 2, 2, "SAME")


def back(tf):
    x, top = largest(tf)
    return tf.raw_ops.MaxPool3DGrad(
        orig_input=x, orig_output=top, grad=tf.constant(VOLUMES[:, :2, :3, :3]),
        ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME",
    )  # fmt: skip


def twice(tf, volumes=TIES, slopes=VOLUMES):
    x = tf.constant(volumes)
    return tf.raw_ops.MaxPool3DGradGrad(
        orig_input=x, orig_output=tf.nn.max_pool3d(x, 2, 2, "SAME"), grad=tf.constant(slopes),
        ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME",
    )  # fmt: skip


case("MaxPool3DGrad", "MaxPool3DGrad", back, tol=1e-6)
case("MaxPool3DGradGrad", "MaxPool3DGradGrad", twice, tol=1e-6)
case("MaxPool3DGradGrad-small", "MaxPool3DGradGrad",
     lambda tf: twice(tf, TIES[:1, :3, :, 1:, :2], VOLUMES[:1, :3, :, 1:, :2]),
     tol=1e-6)  # fmt: skip
