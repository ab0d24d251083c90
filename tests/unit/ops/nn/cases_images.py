"""Convolutions and pools."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
RANDOM = np.random.default_rng(11)
IMAGES = RANDOM.normal(size=(2, 5, 6, 3))
WEIGHTS = RANDOM.normal(size=(3, 2, 3, 4))


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, tol=5e-6, **more))


def images(tf, dtype="float32"):
    return tf.constant(IMAGES, dtype)


for padding in ("SAME", "VALID"):
    for strides in ([1, 1, 1, 1], [1, 2, 3, 1]):
        tag = f"{padding}-{strides[1]}{strides[2]}"
        for dtype in ("float32", "float64"):
            case(f"Conv2D-{tag}-{dtype}", "Conv2D", lambda tf, p=padding, s=strides, d=dtype:
                 tf.nn.conv2d(images(tf, d), tf.constant(WEIGHTS, d), s, p))  # fmt: skip
            case(f"MaxPool-{tag}-{dtype}", "MaxPool", lambda tf, p=padding, s=strides, d=dtype:
                 tf.nn.max_pool(images(tf, d), [1, 2, 3, 1], s, p))  # fmt: skip
            case(f"AvgPool-{tag}-{dtype}", "AvgPool", lambda tf, p=padding, s=strides, d=dtype:
                 tf.nn.avg_pool(images(tf, d), [1, 3, 2, 1], s, p, name="a"))  # fmt: skip
case("Conv2D-dilated", "Conv2D", lambda tf: tf.nn.conv2d(
    images(tf), tf.constant(WEIGHTS, "float32"), 1, "SAME", dilations=2),
    grad=False)  # TensorFlow's CPU has no gradient of these.  # fmt: skip
case("Conv2D-explicit", "Conv2D", lambda tf: tf.nn.conv2d(
    images(tf), tf.constant(WEIGHTS, "float32"), [1, 2],
    [[0, 0], [1, 2], [0, 1], [0, 0]], name="c"))  # fmt: skip
case("Conv2D-one-by-one", "Conv2D", lambda tf: tf.nn.conv2d(
    images(tf), tf.constant(WEIGHTS[:1, :1], "float32"), 1, "VALID"))  # fmt: skip
case("Conv2D-fed", "Conv2D", lambda tf: tf.nn.conv2d(
    tf.placeholder("float32", [None, None, None, 3], name="x"),
    tf.constant(WEIGHTS, "float32"), 1, "SAME"), feeds={"x:0": IMAGES})  # fmt: skip
case("Conv2D-channels", "Conv2D", lambda tf: tf.nn.conv2d(
    images(tf), tf.zeros([2, 2, 2, 1]), 1, "SAME"), fails="build")  # fmt: skip
case("Conv2D-too-small", "Conv2D", lambda tf: tf.nn.conv2d(
    images(tf), tf.zeros([6, 2, 3, 1]), 1, "VALID"), fails="build",
    match="Negative dimension size")  # fmt: skip
case("MaxPool-equal", "MaxPool", lambda tf: tf.nn.max_pool(
    tf.constant([[[[1.0], [1.0]], [[1.0], [1.0]]]]), 2, 2, "SAME"))  # fmt: skip
for size, padding in ((3, "VALID"), (3, "SAME")):
    case(f"MaxPool-depth-{padding}", "MaxPool", lambda tf, k=size, p=padding: tf.nn.max_pool(
        images(tf), [1, 1, 1, k], [1, 1, 1, k], p), grad=False)  # TensorFlow has none.  # fmt: skip
case("MaxPool-depth-fed", "MaxPool", lambda tf: tf.nn.max_pool(
    tf.placeholder("float32", [None, None, None, None], name="x"), [1, 1, 1, 2], [1, 1, 1, 2],
    "VALID"), feeds={"x:0": RANDOM.normal(size=(2, 2, 3, 4))}, grad=False)  # fmt: skip
for tag, size, strides, match in (
    ("both", [1, 2, 2, 3], [1, 2, 2, 3], "exactly one of pooling across depth"),
    ("strides", [1, 1, 1, 3], [1, 1, 1, 1], "depth window to equal the depth stride"),
    ("rest", [1, 1, 1, 2], [1, 1, 1, 2], "evenly divide the input depth"),
    ("batch", [2, 1, 1, 1], [2, 1, 1, 1], "not yet supported on the batch dimension"),
):
    case(f"MaxPool-depth-{tag}", "MaxPool", lambda tf, k=size, s=strides: tf.nn.max_pool(
        images(tf), k, s, "SAME"), fails="run", match=match)  # fmt: skip
case("MaxPool-depth-gradient", "MaxPoolGrad", lambda tf: tf.raw_ops.MaxPoolGrad(
    orig_input=images(tf), orig_output=tf.zeros([2, 5, 6, 1]), grad=tf.zeros([2, 5, 6, 1]),
    ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3], padding="SAME"),
    fails="run", match="not yet supported on the depth dimension")  # fmt: skip
case("AvgPool-batch", "AvgPool", lambda tf: tf.nn.avg_pool(
    images(tf), [2, 1, 1, 1], [2, 1, 1, 1], "SAME"), fails="run", match="batch")  # fmt: skip
case("MaxPool-fed", "MaxPool", lambda tf: tf.nn.max_pool(
    tf.placeholder("float32", [None, 5, 6, 3], name="x"), 2, 2, "SAME"),
    feeds={"x:0": IMAGES})  # fmt: skip
case("AvgPool-fed", "AvgPool", lambda tf: tf.nn.avg_pool(
    tf.placeholder("float32", [None, None, 6, 3], name="x"), 2, 2, "SAME"),
    feeds={"x:0": IMAGES})  # fmt: skip

POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
CONV = {"strides": [1, 2, 1, 1], "padding": "SAME"}
case("Conv2DBackpropInput", "Conv2DBackpropInput", lambda tf: tf.raw_ops.Conv2DBackpropInput(
    input_sizes=[2, 5, 6, 3], filter=tf.constant(WEIGHTS),
    out_backprop=tf.constant(RANDOM_OUT), **CONV))  # fmt: skip
case("Conv2DBackpropFilter", "Conv2DBackpropFilter", lambda tf: tf.raw_ops.Conv2DBackpropFilter(
    input=tf.constant(IMAGES), filter_sizes=[3, 2, 3, 4],
    out_backprop=tf.constant(RANDOM_OUT), **CONV))  # fmt: skip
RANDOM_OUT = RANDOM.normal(size=(2, 3, 6, 4))
POOLED = RANDOM.normal(size=(2, 3, 3, 3))


def largest(tf):
    return tf.nn.max_pool(images(tf), 2, 2, "SAME")


case("MaxPoolGrad", "MaxPoolGrad", lambda tf: tf.raw_ops.MaxPoolGrad(
    orig_input=images(tf), orig_output=largest(tf), grad=tf.constant(POOLED, "float32"),
    **POOL))  # fmt: skip
case("MaxPoolGradGrad", "MaxPoolGradGrad", lambda tf: tf.raw_ops.MaxPoolGradGrad(
    orig_input=images(tf), orig_output=largest(tf), grad=images(tf), **POOL))  # fmt: skip
case("AvgPoolGrad", "AvgPoolGrad", lambda tf: tf.raw_ops.AvgPoolGrad(
    orig_input_shape=[2, 5, 6, 3], grad=tf.constant(POOLED), **POOL))  # fmt: skip
