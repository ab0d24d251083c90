"""Matrix products."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, **more))


def values(*shape, dtype="float32"):
    return (np.arange(int(np.prod(shape))).reshape(shape) % 7 - 2).astype(dtype)


for dtype in ("float32", "float64", "float16", "int32", "int64", "complex64"):
    case(f"MatMul-{dtype}", "MatMul", lambda tf, d=dtype: tf.matmul(
        values(2, 3, dtype=d), values(3, 4, dtype=d)))  # fmt: skip
    case(f"BatchMatMulV2-{dtype}", "BatchMatMulV2", lambda tf, d=dtype: tf.matmul(
        values(5, 2, 3, dtype=d), values(5, 3, 4, dtype=d)))  # fmt: skip
for flip_a in (False, True):
    for flip_b in (False, True):
        a, b = ((3, 2) if flip_a else (2, 3)), ((4, 3) if flip_b else (3, 4))
        tag = f"{'t' if flip_a else 'n'}{'t' if flip_b else 'n'}"
        case(f"MatMul-{tag}", "MatMul", lambda tf, a=a, b=b, p=flip_a, q=flip_b: tf.matmul(
            values(*a), values(*b), transpose_a=p, transpose_b=q))  # fmt: skip
        case(f"MatMul-adjoint-{tag}", "MatMul", lambda tf, a=a, b=b, p=flip_a, q=flip_b: tf.matmul(
            values(*a), values(*b), adjoint_a=p, adjoint_b=q, name="m"))  # fmt: skip
        case(f"BatchMatMulV2-{tag}", "BatchMatMulV2",
             lambda tf, a=a, b=b, p=flip_a, q=flip_b: tf.matmul(
                 values(6, *a), values(6, *b), transpose_a=p, transpose_b=q))  # fmt: skip
case("MatMul-no-inner", "MatMul", lambda tf: tf.matmul(values(2, 0), values(0, 3)))
case("MatMul-no-rows", "MatMul", lambda tf: tf.matmul(values(0, 2), values(2, 3)))
case("MatMul-lists", "MatMul", lambda tf: tf.matmul([[1.0, 2.0]], [[3], [4]]))
case("MatMul-operator", "MatMul", lambda tf: tf.constant(values(2, 3)) @ tf.constant(values(3, 2)))
case("MatMul-operator-array", "MatMul", lambda tf: tf.constant(values(2, 3)) @ values(3, 2))
case("MatMul-fed", "MatMul", lambda tf: tf.matmul(
    tf.placeholder("float32", [None, 3], name="x"), values(3, 2)),
    feeds={"x:0": values(4, 3)})  # fmt: skip
case("BatchMatMulV2-broadcast", "BatchMatMulV2",
     lambda tf: tf.matmul(values(5, 1, 2, 3), values(4, 3, 2)))  # fmt: skip
case("BatchMatMulV2-adjoint-complex", "BatchMatMulV2", lambda tf: tf.matmul(
    values(2, 2, 3, dtype="complex64") * np.complex64(1j), values(2, 4, 3, dtype="complex64"),
    adjoint_b=True))  # fmt: skip
case("BatchMatMulV2-unknown-rank", "BatchMatMulV2", lambda tf: tf.matmul(
    tf.placeholder("float32", name="x"), values(3, 2)), feeds={"x:0": values(4, 3)})  # fmt: skip
case("MatMul-adjoint-complex", ("MatMul", "Conj"), lambda tf: tf.matmul(
    tf.constant(values(2, 3, dtype="complex64") * np.complex64(1j)),
    tf.constant(values(4, 3, dtype="complex64")), adjoint_b=True))  # fmt: skip
case("BatchMatMul", "BatchMatMul", lambda tf: tf.raw_ops.BatchMatMul(
    x=tf.constant(values(2, 2, 3)), y=tf.constant(values(2, 3, 1)), adj_x=False))  # fmt: skip

for tag, a, b, axes in (
    ("matrix-vector", (2, 3), (3,), 1),
    ("outer", (2, 3), (2, 2), 0),
    ("lists", (2, 3), (4, 3), [[1], [1]]),
    ("ints", (2, 3), (4, 3), [1, 1]),
    ("two", (2, 3, 4), (4, 3, 5), [[1, 2], [1, 0]]),
    ("negative", (2, 3, 4), (4, 3, 5), [[-1], [0]]),
):
    case(f"tensordot-{tag}", "MatMul", lambda tf, a=a, b=b, x=axes: tf.tensordot(
        tf.constant(values(*a)), tf.constant(values(*b)), x))  # fmt: skip
# TensorFlow leaves a stray constant behind when the result is a scalar.
case("tensordot-all", "MatMul", lambda tf: tf.tensordot(
    tf.constant(values(2, 3)), tf.constant(values(2, 3)), 2), graph=False)  # fmt: skip
case("tensordot-fed", ("MatMul", "GatherV2"), lambda tf: tf.tensordot(
    tf.placeholder("float32", [None, 2, 3], name="x"), tf.constant(values(3, 4)), 1),
    feeds={"x:0": values(5, 2, 3)})  # fmt: skip

case("MatMul-inner-clash", "MatMul", lambda tf: tf.matmul(values(2, 3), values(2, 3)),
     fails="build", match="Dimensions must be equal, but are 3 and 2")  # fmt: skip
case("MatMul-inner-clash-fed", "MatMul", lambda tf: tf.matmul(
    tf.placeholder("float32", [2, None], name="x"), values(2, 3)), feeds={"x:0": values(2, 3)},
    fails="run", match="3")  # fmt: skip
case("MatMul-vector", "MatMul", lambda tf: tf.matmul([1.0, 2.0], [[1.0], [2.0]]),
     fails="build", match="rank 2 but is rank 1")  # fmt: skip
case("MatMul-both-flips", "MatMul",
     lambda tf: tf.matmul(values(2, 2), values(2, 2), transpose_a=True, adjoint_a=True),
     fails="build", match="transpose")  # fmt: skip
