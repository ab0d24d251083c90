"""Further dtypes and shapes of op types that their family's own rows try with one.

`test_op_coverage` says which op types are in want of a row.
"""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
F = np.arange(1.0, 13.0).reshape(3, 4)
V = np.array([2.0, -1.0, 0.5])
FLOATS = ("float16", "float32", "float64")


def row(op, tag, build, **more):
    CASES.append(Case(f"{op}/{tag}", (op,), build, **{"tol": 2e-6} | more))


def raw(op, tag, /, **arguments):
    """A row of one node: arrays and pairs of (value, dtype) become constants."""
    more = {k[1:]: arguments.pop(k) for k in list(arguments) if k.startswith("_")}

    def build(tf):
        given = {k: constant(tf, v) for k, v in arguments.items()}
        result = getattr(tf.raw_ops, op)(**given)
        return list(result) if isinstance(result, (list, tuple)) else result

    row(op, tag, build, **more)


def constant(tf, value):
    if isinstance(value, np.ndarray):
        return tf.constant(value)
    return tf.constant(*value) if isinstance(value, tuple) else value


for dtype in ("float64", "float16"):
    raw("Add", dtype, x=(F, dtype), y=(F[0], dtype))
    raw("Div", dtype, x=(F, dtype), y=(F[0], dtype))
    raw("Inv", dtype, x=(F, dtype), _tol=2e-3 if dtype == "float16" else 1e-6)
    raw("CheckNumerics", dtype, tensor=(V, dtype), message="m")
    raw("ClipByValue", dtype, t=(F, dtype), clip_value_min=(2, dtype), clip_value_max=(9, dtype))
    raw("Snapshot", dtype, input=(V, dtype))
    raw("PreventGradient", dtype, input=(V, dtype), message="no")
    raw("EnsureShape", dtype, input=(F, dtype), shape=[None, 4])
raw("ClipByValue", "vectors", t=F, clip_value_min=F - 1, clip_value_max=F * 0 + 5)
raw("CheckNumerics", "scalar", tensor=(1.5, "float32"), message="m")
for op in ("All", "Any"):
    raw(op, "int64", input=F > 5, axis=(np.array([1]), "int64"), keep_dims=True)
raw("BatchMatMul", "float64", x=F.reshape(3, 2, 2), y=F.reshape(3, 2, 2) - 3, adj_y=True)
for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    for dtype in ("int8", "uint8", "int64"):
        raw(op, dtype, x=np.arange(6).reshape(2, 3).astype(dtype), y=np.array([1, 2, 4], dtype))
for dtype in ("int8", "uint8", "int64"):
    raw("Invert", dtype, x=np.arange(6).reshape(2, 3).astype(dtype))
raw("ComplexAbs", "complex64", x=(np.array([3 + 4j, -1j]), "complex64"), Tout="float32")
raw("Concat", "vectors", concat_dim=0, values=[V, V + 1])
ROW = F.reshape(1, 1, 3, 4).astype("float32")
raw("FusedBatchNormGradV2", "one-row", y_backprop=ROW, x=ROW**2, scale=ROW[0, 0, 0],
    reserve_space_1=ROW[0, 0, 1], reserve_space_2=ROW[0, 0, 2], is_training=False)  # fmt: skip
for dtype in ("float64", "int32"):
    raw("Gather", dtype, params=(F, dtype), indices=(np.array([[2], [0]]), "int64"))
    raw("PlaceholderWithDefault", dtype, input=(F, dtype), shape=[3, None])
    raw("UniqueWithCounts", dtype, x=(np.array([1, 1, 2, 1]), dtype))
for dtype in ("float64", "int32"):
    raw("MatrixDiagV3", dtype, diagonal=(V, dtype), k=(1, "int32"), num_rows=(4, "int32"),
        num_cols=(4, "int32"), padding_value=(7, dtype))  # fmt: skip
IMAGES = np.sin(np.arange(48.0)).reshape(1, 4, 4, 3)
SQUARES = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
row("MaxPoolGradGrad", "float64", lambda tf: tf.raw_ops.MaxPoolGradGrad(
    orig_input=tf.constant(IMAGES),
    orig_output=tf.raw_ops.MaxPool(input=tf.constant(IMAGES), **SQUARES),
    grad=tf.constant(np.cos(IMAGES)), **SQUARES))  # fmt: skip
raw("PadV2", "float64", input=V, paddings=[[1, 2]], constant_values=(0.5, "float64"))
raw("ReverseV2", "float64", tensor=F.reshape(3, 2, 2), axis=[0, 2])
row("Print", "float64", lambda tf: tf.raw_ops.Print(
    input=tf.constant(V), data=[tf.constant([1])], message="v", first_n=1))  # fmt: skip
row("PyFuncStateless", "float64", lambda tf: tf.py_func(np.sort, [V], tf.float64, stateful=False),
    graph=False)  # The token numbers the functions of the process.  # fmt: skip
row("TruncatedNormal", "float64", lambda tf: tf.truncated_normal([2, 3], dtype="float64"),
    values=False)  # fmt: skip
raw("TensorSummaryV2", "floats", tag="t", tensor=F, serialized_summary_metadata=b"")
raw("TensorSummaryV2", "ints", tag="t", tensor=np.array([1, 2]), serialized_summary_metadata=b"")


# -- variables ---------------------------------------------------------------------------------


def updated(op, start, arguments, resource=True):
    """The variable after the update."""

    def build(tf):
        v = tf.Variable(start, name="v", use_resource=resource)
        held = {"resource" if resource else "ref": v.handle if resource else v}
        result = getattr(tf.raw_ops, op)(**held, **arguments)
        with tf.control_dependencies([result]):
            return v.read_value()

    # The names of variables' nodes are the variables' rows; no gradient goes through an update.
    return {"build": build, "init": True, "graph": False, "grad": False}


COUNTS = np.arange(12).reshape(3, 2, 2)
for dtype in ("int32", "float64"):
    start = COUNTS.astype(dtype)
    for op in ("AssignAddVariableOp", "AssignSubVariableOp"):
        row(op, dtype, **updated(op, start, {"value": start * 2}))
    for kind in ("Add", "Sub", "Update"):
        arguments = {"indices": np.array([[2], [0]]), "updates": start[:2, None] + 1}
        op = f"ResourceScatter{kind}"
        row(op, dtype, **updated(op, start, arguments))
        op = f"Scatter{kind}"
        row(op, dtype, **updated(op, start, arguments, resource=False))


def variable_read(dtype):
    def build(tf):
        v = tf.Variable(COUNTS.astype(dtype), name="v", use_resource=True)
        known = [3, 2, 2]
        return [
            tf.reshape(tf.raw_ops.ReadVariableOp(resource=v.handle, dtype=dtype), known),
            tf.reshape(tf.raw_ops.VariableShape(input=v.handle, out_type="int64"), [3]),
            tf.reshape(tf.raw_ops.ResourceGather(
                resource=v.handle, indices=tf.constant([[1]], "int64"), dtype=dtype), [1, 1, 2, 2]),
            tf.raw_ops.VarIsInitializedOp(resource=v.handle),
        ]  # fmt: skip

    return build


RESOURCES = ("ReadVariableOp", "VariableShape", "ResourceGather", "VarHandleOp")
CASES += [
    Case(f"resource/{dtype}", RESOURCES, variable_read(dtype), init=True, graph=False)
    for dtype in ("float64", "int32")
]
row("Variable", "float32", lambda tf: tf.shape(
    tf.raw_ops.Assign(ref=tf.raw_ops.Variable(shape=[2], dtype="float32"), value=[1.0, 2.0])),
    grad=False)  # fmt: skip
