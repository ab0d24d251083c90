"""Shapes, views, casts and checks."""

import numpy as np
from op_cases import Case

F = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
I32 = np.array([[1, -2, 3], [4, 5, -6]], np.int32)


def fed(dtype, shape):
    return lambda tf: tf.placeholder(getattr(tf, dtype), shape, name="x")


X = fed("float32", [None, 3, None])
ANY = fed("float32", None)
FEED = {"x:0": F}

CASES = [
    Case("identity/python", ("Identity",), lambda tf: tf.identity(3.0)),
    Case("identity/string", ("Identity",), lambda tf: tf.identity(tf.constant(["a"]))),
    Case("identity/int", ("Identity",), lambda tf: tf.identity(tf.constant(I32), name="i")),
    Case("identity_n", ("IdentityN",), lambda tf: tf.identity_n([1.0, [2, 3]])),
    Case("identity_n/one", ("IdentityN",), lambda tf: tf.identity_n([tf.constant(1.0)])),
    Case("stop_gradient", ("StopGradient",), lambda tf: tf.stop_gradient([1.0, 2.0])),
    Case(
        "prevent_gradient",
        ("PreventGradient",),
        lambda tf: tf.raw_ops.PreventGradient(input=tf.constant(I32), message="no"),
    ),
    Case(
        "prevent_gradient/floats",
        ("PreventGradient",),
        lambda tf: tf.raw_ops.PreventGradient(input=tf.constant(F), message="no"),
    ),
    Case(
        "snapshot",
        ("Snapshot",),
        lambda tf: tf.raw_ops.Snapshot(input=tf.constant(F)),
    ),
    Case("reshape/known", ("Reshape",), lambda tf: tf.reshape(tf.constant(I32), [3, 2])),
    Case("reshape/infer", ("Reshape",), lambda tf: tf.reshape(tf.constant(I32), [-1, 2])),
    Case("reshape/flat", ("Reshape",), lambda tf: tf.reshape(tf.constant(F), [-1])),
    # TensorFlow leaves an unused constant behind, its first reading of the empty list.
    Case("reshape/scalar", ("Reshape",), lambda tf: tf.reshape([[5]], []), graph=False),
    Case("reshape/int64", ("Reshape",), lambda tf: tf.reshape([1, 2], np.array([2, 1]))),
    Case("reshape/empty", ("Reshape",), lambda tf: tf.reshape(tf.zeros([0, 3]), [3, 0])),
    Case("reshape/unknown", ("Reshape",), lambda tf: tf.reshape(X(tf), [-1, 12]), feeds=FEED),
    Case("reshape/any", ("Reshape",), lambda tf: tf.reshape(ANY(tf), [4, -1]), feeds=FEED),
    Case(
        "reshape/by_tensor",
        ("Reshape", "Pack"),
        lambda tf: tf.reshape(
            X(tf), [tf.shape(tf.get_default_graph().get_tensor_by_name("x:0"))[0], -1]
        ),
        feeds=FEED,
    ),
    Case(
        "reshape/fed_shape",
        ("Reshape",),
        lambda tf: tf.reshape(tf.constant(F), tf.placeholder(tf.int64, [2], name="x")),
        feeds={"x:0": np.array([6, -1])},
    ),
    Case(
        "reshape/of_transposed",
        ("Reshape", "Transpose"),
        lambda tf: tf.reshape(tf.transpose(tf.constant(I32)), [6]),
    ),
    Case("squeeze/all", ("Squeeze",), lambda tf: tf.squeeze(tf.constant([[[1], [2]]]))),
    Case("squeeze/axis", ("Squeeze",), lambda tf: tf.squeeze(tf.constant([[[1], [2]]]), [0])),
    Case("squeeze/int", ("Squeeze",), lambda tf: tf.squeeze(tf.constant([[[1], [2]]]), -1)),
    Case("squeeze/dims", ("Squeeze",), lambda tf: tf.squeeze([[7.0]], squeeze_dims=[0, 1])),
    Case(
        "squeeze/unknown",
        ("Squeeze",),
        lambda tf: tf.squeeze(ANY(tf)),
        feeds={"x:0": F.reshape(2, 1, 12)},
    ),
    Case("expand_dims/front", ("ExpandDims",), lambda tf: tf.expand_dims(tf.constant(I32), 0)),
    Case("expand_dims/last", ("ExpandDims",), lambda tf: tf.expand_dims(tf.constant(I32), -1)),
    Case("expand_dims/scalar", ("ExpandDims",), lambda tf: tf.expand_dims(3.0, 0)),
    Case("expand_dims/dim", ("ExpandDims",), lambda tf: tf.expand_dims([1, 2], dim=1)),
    Case("expand_dims/unknown", ("ExpandDims",), lambda tf: tf.expand_dims(X(tf), 1), feeds=FEED),
    Case("expand_dims/any", ("ExpandDims",), lambda tf: tf.expand_dims(ANY(tf), -2), feeds=FEED),
    Case("transpose/matrix", ("Transpose",), lambda tf: tf.transpose(tf.constant(I32))),
    Case("transpose/perm", ("Transpose",), lambda tf: tf.transpose(tf.constant(F), [2, 0, 1])),
    Case("transpose/vector", ("Transpose",), lambda tf: tf.transpose([1, 2])),
    Case(
        "transpose/unknown", ("Transpose",), lambda tf: tf.transpose(X(tf), [0, 2, 1]), feeds=FEED
    ),
    Case(
        "transpose/any",
        ("Transpose", "Rank", "Range"),
        lambda tf: tf.transpose(ANY(tf)),
        feeds=FEED,
    ),
    Case(
        "transpose/fed_perm",
        ("Transpose",),
        lambda tf: tf.transpose(tf.constant(F), tf.placeholder(tf.int32, [3], name="x")),
        feeds={"x:0": np.int32([1, 0, 2])},
    ),
    Case("broadcast_to/scalar", ("BroadcastTo",), lambda tf: tf.broadcast_to(1.5, [2, 2])),
    Case("broadcast_to/row", ("BroadcastTo",), lambda tf: tf.broadcast_to([1, 2, 3], [2, 3])),
    Case(
        "broadcast_to/column", ("BroadcastTo",), lambda tf: tf.broadcast_to([[1], [2]], [2, 2, 3])
    ),
    Case(
        "broadcast_to/fed",
        ("BroadcastTo",),
        lambda tf: tf.broadcast_to([1.0], tf.placeholder(tf.int32, [2], name="x")),
        feeds={"x:0": np.int32([2, 3])},
    ),
    Case("shape/known", ("Const",), lambda tf: tf.shape(tf.constant(F))),
    Case("shape/python", ("Const",), lambda tf: tf.shape([[1, 2]])),
    Case("shape/unknown", ("Shape",), lambda tf: tf.shape(X(tf)), feeds=FEED),
    Case("shape/int64", ("Shape",), lambda tf: tf.shape(X(tf), out_type=tf.int64), feeds=FEED),
    Case("shape/any", ("Shape",), lambda tf: tf.shape(ANY(tf), name="s"), feeds=FEED),
    Case("shape/of_scalar", ("Shape",), lambda tf: tf.shape(ANY(tf)), feeds={"x:0": np.float32(3)}),
    Case("shape_n", ("ShapeN",), lambda tf: tf.shape_n([tf.constant(F), X(tf)]), feeds=FEED),
    Case("shape_n/one", ("ShapeN",), lambda tf: tf.shape_n([X(tf)]), feeds=FEED),
    Case("size/known", ("Const",), lambda tf: tf.size(tf.constant(F))),
    Case("size/unknown", ("Size",), lambda tf: tf.size(X(tf)), feeds=FEED),
    Case("size/int64", ("Size",), lambda tf: tf.size(ANY(tf), out_type=tf.int64), feeds=FEED),
    Case("rank/known", ("Const",), lambda tf: tf.rank(X(tf)), feeds=FEED),
    Case("rank/unknown", ("Rank",), lambda tf: tf.rank(ANY(tf)), feeds=FEED),
    Case("cast/float_int", ("Cast",), lambda tf: tf.cast(tf.constant([1.9, -1.9]), tf.int32)),
    Case("cast/int_float", ("Cast",), lambda tf: tf.cast(tf.constant(I32), tf.float64)),
    Case("cast/same", ("Const",), lambda tf: tf.cast(tf.constant(I32), tf.int32)),
    Case("cast/bool", ("Cast",), lambda tf: tf.cast(tf.constant([0.0, 0.5, np.nan]), tf.bool)),
    Case("cast/from_bool", ("Cast",), lambda tf: tf.cast([True, False], tf.float32)),
    Case("cast/half", ("Cast",), lambda tf: tf.cast([0.1, 70000.0], tf.float16)),
    Case("cast/narrow", ("Cast",), lambda tf: tf.cast([300, -1], tf.uint8)),
    Case("cast/double", ("Cast",), lambda tf: tf.cast(np.array([0.1, 1e300]), tf.float32)),
    Case("cast/real", ("Cast",), lambda tf: tf.cast(tf.constant([1 + 2j]), tf.float32)),
    Case("cast/python", ("Cast",), lambda tf: tf.cast(1, tf.float32)),
    Case("cast/unknown", ("Cast",), lambda tf: tf.cast(ANY(tf), tf.int64), feeds=FEED),
    Case(
        "cast/op_same",
        ("Cast",),
        lambda tf: tf.raw_ops.Cast(x=tf.constant(I32), DstT=tf.int32),
    ),
    Case("to_float", ("Cast",), lambda tf: tf.to_float(tf.constant(I32))),
    Case("to_double", ("Cast",), lambda tf: tf.to_double(tf.constant(I32))),
    Case("to_int32", ("Cast",), lambda tf: tf.to_int32([1.5, 2.5])),
    Case("to_int64", ("Cast",), lambda tf: tf.to_int64([1.5, -2.5])),
    Case("bitcast/same", ("Bitcast",), lambda tf: tf.bitcast(tf.constant([1.0, -2.0]), tf.int32)),
    Case("bitcast/narrow", ("Bitcast",), lambda tf: tf.bitcast(tf.constant([1.0]), tf.uint8)),
    Case("bitcast/scalar", ("Bitcast",), lambda tf: tf.bitcast(tf.constant(1.0), tf.int16)),
    Case(
        "bitcast/widen",
        ("Bitcast",),
        lambda tf: tf.bitcast(tf.constant([[1, 2], [3, 4]], tf.int32), tf.int64),
    ),
    Case(
        "ensure_shape",
        ("EnsureShape",),
        lambda tf: tf.ensure_shape(X(tf), [2, None, 4]),
        feeds=FEED,
    ),
    Case(
        "ensure_shape/any",
        ("EnsureShape",),
        lambda tf: tf.ensure_shape(ANY(tf), [2, 3, 4]),
        feeds=FEED,
    ),
    Case("check_numerics", ("CheckNumerics",), lambda tf: tf.check_numerics(tf.constant(F), "m")),
]
CASES += [
    Case(
        "reshape/misfit",
        ("Reshape",),
        lambda tf: tf.reshape(tf.constant(I32), [4, 2]),
        fails="build",
        match="[2,3]",
    ),
    Case(
        "reshape/uneven",
        ("Reshape",),
        lambda tf: tf.reshape(tf.constant(I32), [4, -1]),
        fails="build",
        match="[4,?]",
    ),
    Case(
        "reshape/run",
        ("Reshape",),
        lambda tf: tf.reshape(ANY(tf), [5, -1]),
        feeds=FEED,
        fails="run",
        match="5",
    ),
    Case(
        "squeeze/longer",
        ("Squeeze",),
        lambda tf: tf.squeeze(tf.constant(I32), [1]),
        fails="build",
        match="3",
    ),
    Case(
        "expand_dims/far",
        ("ExpandDims",),
        lambda tf: tf.expand_dims(tf.constant(I32), 4),
        fails="build",
        match="4",
    ),
    Case(
        "transpose/short",
        ("Transpose",),
        lambda tf: tf.transpose(tf.constant(I32), [0]),
        fails="build",
        match="[2,3]",
    ),
    Case(
        "broadcast_to/misfit",
        ("BroadcastTo",),
        lambda tf: tf.broadcast_to([1, 2, 3], [2, 2]),
        fails="build",
        match="[3] vs. [2,2]",
    ),
    Case(
        "ensure_shape/misfit",
        ("EnsureShape",),
        lambda tf: tf.ensure_shape(ANY(tf), [2, 3, 5]),
        feeds=FEED,
        fails="run",
        match="compatible",
    ),
    Case(
        "ensure_shape/build",
        ("EnsureShape",),
        lambda tf: tf.ensure_shape(X(tf), [2, 4]),
        fails="build",
    ),
    Case(
        "check_numerics/nan",
        ("CheckNumerics",),
        lambda tf: tf.check_numerics(tf.constant([1.0, np.nan]), "weights"),
        fails="run",
        match="weights : Tensor had NaN values",
    ),
    Case(
        "check_numerics/inf",
        ("CheckNumerics",),
        lambda tf: tf.check_numerics(tf.constant([-np.inf, 1.0]), "weights"),
        fails="run",
        match="Inf",
    ),
]


CUBE = np.arange(24.0).reshape(2, 3, 4)
for tag, more in (
    ("rows", {"seq_axis": 1, "batch_axis": 0}), ("columns", {"seq_dim": 2, "batch_dim": 0}),
    ("time-major", {"seq_axis": 0, "batch_axis": 1}),
):  # fmt: skip
    lengths = [2, 0, 1] if tag == "time-major" else [3, 2]
    CASES.append(
        Case(
            f"ReverseSequence-{tag}",
            ("ReverseSequence",),
            lambda tf, m=more, n=lengths: tf.reverse_sequence(tf.constant(F), n, **m),
        )
    )
CASES.append(Case("ReverseSequence-double", ("ReverseSequence",), lambda tf: tf.reverse_sequence(
    tf.placeholder("float64", name="x"), tf.constant([1, 2], "int64"), 1, name="r"),
    feeds={"x:0": CUBE}))  # fmt: skip
CASES.append(Case("ReverseSequence-too-long", ("ReverseSequence",), lambda tf: tf.reverse_sequence(
    tf.constant(CUBE), tf.placeholder("int32", [2], name="n"), 1), feeds={"n:0": [4, 1]},
    fails="run", match="seq_lens(0)"))  # fmt: skip
