"""The op types that gradients are made of."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, **more))


for tag, a, b in (
    ("row", [2, 3], [3]), ("columns", [2, 1], [1, 3]), ("scalar", [], [2, 2]), ("same", [2], [2]),
    ("ones", [1, 1], [1]), ("rank3", [2, 1, 3], [4, 1]), ("none", [0, 3], [1]),
):  # fmt: skip
    case(f"BroadcastGradientArgs-{tag}", "BroadcastGradientArgs",
         lambda tf, a=a, b=b: tf.raw_ops.BroadcastGradientArgs(
             s0=tf.constant(a, "int32"), s1=tf.constant(b, "int32")))  # fmt: skip
case("BroadcastGradientArgs-int64", "BroadcastGradientArgs",
     lambda tf: tf.raw_ops.BroadcastGradientArgs(
         s0=tf.constant([1, 3], "int64"), s1=tf.constant([2, 3], "int64")))  # fmt: skip

Y, DY = [[0.5, -0.25, 0.75], [0.1, 2.0, 0.9]], [[1.0, -2.0, 0.5], [3.0, 0.0, -1.5]]
for op in ("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"):
    for dtype in ("float32", "float64", "float16"):
        case(f"{op}-{dtype}", op, lambda tf, o=op, d=dtype: getattr(tf.raw_ops, o)(
            y=tf.constant(Y, d), dy=tf.constant(DY, d)), tol=2e-6)  # fmt: skip
    case(f"{op}-complex", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        y=tf.constant([0.5 + 1j, -2j]), dy=tf.constant([1 - 1j, 2 + 0.5j])), tol=2e-6)  # fmt: skip
    case(f"{op}-scalar", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        y=tf.constant(0.5), dy=tf.constant(2.0)), tol=2e-6)  # fmt: skip
    case(f"{op}-fed", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        y=tf.placeholder("float32", [None, 3], name="y"), dy=tf.constant(DY)),
        feeds={"y:0": Y}, tol=2e-6)  # fmt: skip

X = [[-3.0, -0.5, 0.0], [0.75, 2.0, 8.0]]
for op, second in (
    ("ReluGrad", "features"), ("Relu6Grad", "features"), ("EluGrad", "outputs"),
    ("SeluGrad", "outputs"), ("SoftplusGrad", "features"), ("SoftsignGrad", "features"),
    ("LeakyReluGrad", "features"),
):  # fmt: skip
    for dtype in ("float32", "float64", "float16"):
        case(f"{op}-{dtype}", op, lambda tf, o=op, s=second, d=dtype: getattr(tf.raw_ops, o)(
            gradients=tf.constant(DY, d), **{s: tf.constant(X, d)}), tol=2e-6)  # fmt: skip
    case(f"{op}-fed", op, lambda tf, o=op, s=second: getattr(tf.raw_ops, o)(
        gradients=tf.placeholder("float32", name="g"), **{s: tf.constant(X)}),
        feeds={"g:0": DY}, tol=2e-6)  # fmt: skip
case("LeakyReluGrad-alpha", "LeakyReluGrad", lambda tf: tf.raw_ops.LeakyReluGrad(
    gradients=tf.constant(DY), features=tf.constant(X), alpha=0.5))  # fmt: skip

case("BiasAddGrad", "BiasAddGrad", lambda tf: tf.raw_ops.BiasAddGrad(out_backprop=tf.constant(DY)))
for data_format in ("NHWC", "NCHW"):
    case(f"BiasAddGrad-{data_format}", "BiasAddGrad",
         lambda tf, f=data_format: tf.raw_ops.BiasAddGrad(
             out_backprop=tf.constant(np.arange(24.0).reshape(2, 3, 2, 2)),
             data_format=f))  # fmt: skip
case("BiasAddGrad-fed", "BiasAddGrad", lambda tf: tf.raw_ops.BiasAddGrad(
    out_backprop=tf.placeholder("float32", [None, 3], name="x")), feeds={"x:0": X})  # fmt: skip

STRIDED = "StridedSliceGrad"
for tag, shape, spec, dy in (
    ("front", [4, 3], ([0, 1], [2, 3], [1, 1], {}), np.ones((2, 2))),
    ("steps", [5], ([4], [0], [-2], {}), np.arange(1.0, 3.0)),
    ("shrunk", [3, 2], ([1], [2], [1], {"shrink_axis_mask": 1}), np.arange(1.0, 3.0)),
    ("masked", [3, 2], ([1, 0], [0, 0], [1, 1], {"begin_mask": 2, "end_mask": 3}),
     np.arange(1.0, 5.0).reshape(2, 2)),
    ("new-axis", [2], ([0, 0], [0, 2], [1, 1], {"new_axis_mask": 1}), np.ones((1, 2))),
    ("ellipsis", [2, 3], ([0, 1], [0, 2], [1, 1], {"ellipsis_mask": 1}), np.ones((2, 1))),
):  # fmt: skip
    case(f"{STRIDED}-{tag}", STRIDED, lambda tf, h=shape, s=spec, y=dy: tf.raw_ops.StridedSliceGrad(
        shape=tf.constant(h), begin=tf.constant(s[0]), end=tf.constant(s[1]),
        strides=tf.constant(s[2]), dy=tf.constant(y), **s[3]))  # fmt: skip

for mode in ("REFLECT", "SYMMETRIC"):
    case(f"MirrorPadGrad-{mode}", "MirrorPadGrad", lambda tf, m=mode: tf.raw_ops.MirrorPadGrad(
        input=tf.constant(np.arange(35.0).reshape(5, 7)), paddings=[[1, 1], [2, 2]],
        mode=m))  # fmt: skip
    case(f"MirrorPadGrad-{mode}-fed", "MirrorPadGrad", lambda tf, m=mode: tf.raw_ops.MirrorPadGrad(
        input=tf.placeholder("float32", [None, 4], name="x"), paddings=[[0, 1], [1, 0]], mode=m),
        feeds={"x:0": np.arange(12.0).reshape(3, 4)})  # fmt: skip

ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
for tag, ids in (("rows", [0, 2, 0]), ("negative", [1, -1, 1]), ("one", [3, 3, 3])):
    case(f"UnsortedSegmentSum-{tag}", "UnsortedSegmentSum",
         lambda tf, i=ids: tf.math.unsorted_segment_sum(tf.constant(ROWS), i, 4))  # fmt: skip
case("UnsortedSegmentSum-elements", "UnsortedSegmentSum", lambda tf: tf.math.unsorted_segment_sum(
    tf.constant(ROWS, "float64"), tf.constant([[0, 1], [1, 1], [0, 2]], "int64"), 3))  # fmt: skip
case("UnsortedSegmentSum-ints", "UnsortedSegmentSum", lambda tf: tf.math.unsorted_segment_sum(
    tf.constant([1, 2, 3]), [0, 0, 1], 2))  # fmt: skip
case("UnsortedSegmentSum-none", "UnsortedSegmentSum", lambda tf: tf.math.unsorted_segment_sum(
    tf.zeros([0, 2]), tf.zeros([0], "int32"), 2))  # fmt: skip
case("UnsortedSegmentSum-fed", "UnsortedSegmentSum", lambda tf: tf.math.unsorted_segment_sum(
    tf.placeholder("float32", [None, 2], name="x"), tf.placeholder("int32", [None], name="i"),
    tf.placeholder("int32", [], name="n")),
    feeds={"x:0": ROWS, "i:0": [1, 0, 1], "n:0": 2})  # fmt: skip
case("UnsortedSegmentSum-outside", "UnsortedSegmentSum", lambda tf: tf.math.unsorted_segment_sum(
    tf.constant(ROWS), tf.constant([0, 1, 2]), 2), fails="run", match="out of range")  # fmt: skip
case("ListDiff", "ListDiff", lambda tf: tf.raw_ops.ListDiff(
    x=tf.constant([1, 2, 3, 2, 5]), y=tf.constant([2, 9])))  # fmt: skip
case("ListDiff-int64", "ListDiff", lambda tf: tf.raw_ops.ListDiff(
    x=tf.constant([1, 2], "int64"), y=tf.constant([], "int64"), out_idx=tf.int64))  # fmt: skip
case("InvertPermutation", "InvertPermutation", lambda tf: tf.invert_permutation([2, 0, 1]))
case("InvertPermutation-fed", "InvertPermutation", lambda tf: tf.invert_permutation(
    tf.placeholder("int64", name="p")), feeds={"p:0": [1, 2, 0]})  # fmt: skip
case("InvertPermutation-not-one", "InvertPermutation", lambda tf: tf.invert_permutation(
    tf.placeholder("int32", [2], name="p")), feeds={"p:0": [1, 1]}, fails="run",
    match="not a permutation")  # fmt: skip

CUBE = np.arange(1.0, 13.0).reshape(2, 3, 2)
for tag, more in (
    ("plain", {}), ("exclusive", {"exclusive": True}), ("reverse", {"reverse": True}),
    ("both", {"exclusive": True, "reverse": True}),
):  # fmt: skip
    for axis in (0, -2):
        case(f"Cumprod-{tag}-axis{axis}", "Cumprod", lambda tf, m=more, a=axis: tf.cumprod(
            tf.constant(CUBE), a, **m), tol=1e-6)  # fmt: skip
case("Cumprod-ints", "Cumprod", lambda tf: tf.cumprod(tf.constant([2, 3, 4]), name="c"))
case("Complex", "Complex", lambda tf: tf.complex(tf.constant([1.0, 2.0]), tf.constant([3.0, -4.0])))
case("Complex-double", "Complex", lambda tf: tf.complex(tf.constant([1.0], "float64"),
     tf.constant(2.0, "float64"), name="c"))  # fmt: skip
case("Complex-halves", "Complex", lambda tf: tf.complex(tf.constant([1.0], "float16"),
     tf.constant([1.0], "float16")), fails="build")  # fmt: skip

SQUARE = np.arange(12.0).reshape(3, 4)
for k in (0, 1, -2):
    case(f"MatrixDiagPartV3-{k}", "MatrixDiagPartV3",
         lambda tf, k=k: tf.matrix_diag_part(tf.constant(SQUARE), k=k))  # fmt: skip
case("MatrixDiagPartV3-batch", "MatrixDiagPartV3", lambda tf: tf.matrix_diag_part(
    tf.placeholder("float32", [None, 2, 2], name="m")),
    feeds={"m:0": np.arange(12.0).reshape(3, 2, 2)})  # fmt: skip
