"""Depthwise, separable, transposed, grouped and one-dimensional convolutions, and LRN."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
RANDOM = np.random.default_rng(23)
IMAGES = RANDOM.normal(size=(2, 5, 6, 3))
EACH = RANDOM.normal(size=(3, 2, 3, 2))
POINT = RANDOM.normal(size=(1, 1, 6, 4))
MADE = RANDOM.normal(size=(2, 3, 3, 6))
WIDE = RANDOM.normal(size=(2, 7, 3))


def case(id, op_types, build, tol=5e-6, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, tol=tol, **more))


def const(tf, value, dtype="float32"):
    return tf.constant(value, dtype)


# -- depthwise and separable -------------------------------------------------------------------

for padding in ("SAME", "VALID"):
    for stride in (1, 2):
        for dtype in ("float32", "float64"):
            case(f"depthwise-{padding}-{stride}-{dtype}", "DepthwiseConv2dNative",
                 lambda tf, p=padding, s=stride, d=dtype: tf.nn.depthwise_conv2d(
                     const(tf, IMAGES, d), const(tf, EACH, d), [1, s, s, 1], p))  # fmt: skip
case("depthwise-one-each", "DepthwiseConv2dNative", lambda tf: tf.nn.depthwise_conv2d(
    const(tf, IMAGES), const(tf, EACH[..., :1]), [1, 1, 1, 1], "SAME", name="d"))  # fmt: skip
case("depthwise-explicit", "DepthwiseConv2dNative", lambda tf: tf.nn.depthwise_conv2d_native(
    const(tf, IMAGES), const(tf, EACH), [1, 1, 1, 1],
    [[0, 0], [1, 2], [0, 1], [0, 0]]))  # fmt: skip
case("depthwise-fed", "DepthwiseConv2dNative", lambda tf: tf.nn.depthwise_conv2d(
    tf.placeholder("float32", [None, None, None, 3], name="x"), const(tf, EACH), [1, 1, 1, 1],
    "VALID"), feeds={"x:0": IMAGES})  # fmt: skip
case("depthwise-channels", (), lambda tf: tf.nn.depthwise_conv2d(
    const(tf, IMAGES), tf.zeros([2, 2, 2, 1]), [1, 1, 1, 1], "SAME"), fails="build")  # fmt: skip
BACK = {"strides": [1, 2, 2, 1], "padding": "SAME"}
for dtype in ("float32", "float64"):
    case(f"depthwise-to-input-{dtype}", "DepthwiseConv2dNativeBackpropInput",
         lambda tf, d=dtype: tf.nn.depthwise_conv2d_native_backprop_input(
             [2, 5, 6, 3], const(tf, EACH, d), const(tf, MADE, d), **BACK))  # fmt: skip
    case(f"depthwise-to-filter-{dtype}", "DepthwiseConv2dNativeBackpropFilter",
         lambda tf, d=dtype: tf.nn.depthwise_conv2d_native_backprop_filter(
             const(tf, IMAGES, d), [3, 2, 3, 2], const(tf, MADE, d), **BACK))  # fmt: skip
case("separable", ("DepthwiseConv2dNative", "Conv2D"), lambda tf: tf.nn.separable_conv2d(
    const(tf, IMAGES), const(tf, EACH), const(tf, POINT), [1, 2, 2, 1], "SAME"))  # fmt: skip
case("separable-named", ("DepthwiseConv2dNative", "Conv2D"), lambda tf: tf.nn.separable_conv2d(
    const(tf, IMAGES, "float64"), const(tf, EACH, "float64"), const(tf, POINT, "float64"),
    [1, 1, 1, 1], "VALID", name="s"))  # fmt: skip

# -- transposed, grouped, one-dimensional ------------------------------------------------------

for padding, height, width in (("SAME", 5, 6), ("VALID", 8, 6)):
    for dtype in ("float32", "float64"):
        case(f"conv2d_transpose-{padding}-{dtype}", "Conv2DBackpropInput",
             lambda tf, p=padding, h=height, w=width, d=dtype: tf.nn.conv2d_transpose(
                 const(tf, MADE, d), const(tf, RANDOM_TURNED, d), [2, h, w, 4], [1, 2, 2, 1],
                 p))  # fmt: skip
RANDOM_TURNED = RANDOM.normal(size=(3, 2, 4, 6))
case("conv2d_transpose-one-stride", "Conv2DBackpropInput", lambda tf: tf.nn.conv2d_transpose(
    const(tf, MADE), const(tf, RANDOM_TURNED), [2, 6, 6, 4], 2, name="t"))  # fmt: skip
case("conv2d_transpose-of-a-tensor", "Conv2DBackpropInput", lambda tf: tf.nn.conv2d_transpose(
    tf.placeholder("float32", [2, None, None, 6], name="x"), const(tf, RANDOM_TURNED),
    tf.constant([2, 3, 3, 4]), [1, 1, 1, 1]), feeds={"x:0": MADE})  # fmt: skip
case("conv2d_backprop_input", "Conv2DBackpropInput", lambda tf: tf.nn.conv2d_backprop_input(
    [2, 5, 6, 4], const(tf, RANDOM_TURNED), const(tf, MADE), [1, 2, 2, 1], "SAME"))  # fmt: skip
case("conv2d_backprop_filter", "Conv2DBackpropFilter", lambda tf: tf.nn.conv2d_backprop_filter(
    const(tf, IMAGES), [3, 2, 3, 6], const(tf, MADE), [1, 2, 2, 1], "SAME"))  # fmt: skip
for dtype in ("float32", "float64"):
    case(f"Conv2D-groups-{dtype}", "Conv2D", lambda tf, d=dtype: tf.nn.conv2d(
        const(tf, MADE, d), const(tf, EACH[:, :, :, [0, 1, 0, 1]] * [1, 2, 3, 4], d),
        [1, 1, 2, 1], "SAME"), grad=False)  # TensorFlow's CPU has none of these.  # fmt: skip
case("Conv2D-groups-features", (), lambda tf: tf.nn.conv2d(
    const(tf, MADE), tf.zeros([2, 2, 3, 5]), 1, "SAME"), fails="build",
    match="number of groups")  # fmt: skip
for padding, stride in (("SAME", 1), ("VALID", 2)):
    case(f"conv1d-{padding}", "Conv2D", lambda tf, p=padding, s=stride: tf.nn.conv1d(
        const(tf, WIDE), const(tf, EACH[0]), s, p))  # fmt: skip
case("conv1d-fed", "Conv2D", lambda tf: tf.nn.conv1d(
    tf.placeholder("float64", [None, None, 3], name="x"), const(tf, EACH[0], "float64"), 1,
    "VALID", name="c"), feeds={"x:0": WIDE})  # fmt: skip

# -- local response normalization --------------------------------------------------------------

case("lrn", "LRN", lambda tf: tf.nn.lrn(const(tf, MADE)))
case("lrn-settings", "LRN", lambda tf: tf.nn.local_response_normalization(
    const(tf, MADE[:1]), 2, bias=2.0, alpha=1e-1, beta=0.75, name="norm"))  # fmt: skip
case("lrn-half", "LRN", lambda tf: tf.nn.lrn(const(tf, MADE, "float16"), 1, beta=0.75),
     tol=4e-3)  # fmt: skip
case("lrn-fed", "LRN", lambda tf: tf.nn.lrn(tf.placeholder("float32", name="x"), 1),
     feeds={"x:0": IMAGES})  # fmt: skip
for dtype, tol in (("float32", 5e-6), ("float16", 4e-3)):
    case(f"LRNGrad-{dtype}", "LRNGrad", lambda tf, d=dtype: tf.raw_ops.LRNGrad(
        input_grads=const(tf, MADE, d), input_image=const(tf, MADE * 2, d),
        output_image=tf.nn.lrn(const(tf, MADE * 2, d), 2), depth_radius=2),
        grad=False, tol=tol)  # TensorFlow has none.  # fmt: skip
