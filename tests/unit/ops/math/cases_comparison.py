"""Comparisons, logic, choosing by condition."""

from __future__ import annotations

from op_cases import Case

NAN = float("nan")
CASES: list[Case] = []


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, **more))


X, Y = [[1.0, 2.0, NAN], [4.0, -0.0, 6.0]], [[1.0, 3.0, NAN], [3.0, 0.0, 6.0]]
for op, name in (
    ("Less", "less"),
    ("LessEqual", "less_equal"),
    ("Greater", "greater"),
    ("GreaterEqual", "greater_equal"),
    ("Equal", "equal"),
    ("NotEqual", "not_equal"),
):
    for dtype in ("float32", "float64"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, d=dtype: getattr(tf, n)(
            tf.constant(X, d), tf.constant(Y, d)))  # fmt: skip
    for dtype in ("int32", "int64", "uint8"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, d=dtype: getattr(tf, n)(
            tf.constant([1, 2, 3], d), tf.constant([[2], [3]], d)))  # fmt: skip
    case(f"{op}-constant", op, lambda tf, n=name: getattr(tf, n)(tf.constant(X), 2.0, name="c"))
    case(f"{op}-scalars", op, lambda tf, n=name: getattr(tf, n)(tf.constant(1), 2))
    case(f"{op}-none", op, lambda tf, n=name: getattr(tf, n)(tf.zeros([0, 2]), 2.0))

for name in ("equal", "not_equal"):
    op = {"equal": "Equal", "not_equal": "NotEqual"}[name]
    case(f"{op}-string", op, lambda tf, n=name: getattr(tf, n)(tf.constant(["a", "b"]), "a"))
    case(f"{op}-string-scalars", op, lambda tf, n=name: getattr(tf, n)(tf.constant("a"), "a"))
    case(f"{op}-bool", op, lambda tf, n=name: getattr(tf, n)(tf.constant([True, False]), True))
    case(f"{op}-clashing-shapes", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        x=tf.constant([1, 2]), y=tf.constant([1, 2, 3]),
        incompatible_shape_error=False))  # fmt: skip
    case(f"{op}-lenient", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        x=tf.constant([1, 2]), y=tf.constant([[1], [3]]),
        incompatible_shape_error=False))  # fmt: skip
    case(f"{op}-lenient-fed", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        x=tf.placeholder("int32", [None], name="x"), y=tf.constant([1, 2, 3]),
        incompatible_shape_error=False), feeds={"x:0": [1, 2]})  # fmt: skip
    case(f"{op}-clash", op, lambda tf, n=name: getattr(tf, n)([1, 2], [1, 2, 3]),
         fails="build", match="Dimensions must be equal, but are 2 and 3")  # fmt: skip

for tag, build, op in (
    ("lt", lambda x: x < 2, "Less"), ("le", lambda x: x <= 2, "LessEqual"),
    ("gt", lambda x: x > 2, "Greater"), ("ge", lambda x: x >= 2, "GreaterEqual"),
    ("reflected", lambda x: 2 > x, "Less"),  # noqa: SIM300
):  # fmt: skip
    case(f"operator-{tag}", op, lambda tf, b=build: b(tf.constant(X)))

A, B = [[True, False], [True, True]], [True, False]
case("LogicalAnd", "LogicalAnd", lambda tf: tf.logical_and(tf.constant(A), tf.constant(B)))
case("LogicalOr", "LogicalOr", lambda tf: tf.logical_or(tf.constant(A), tf.constant(B)))
case("LogicalNot", "LogicalNot", lambda tf: tf.logical_not(tf.constant(A)))
case("LogicalNot-scalar", "LogicalNot", lambda tf: tf.logical_not(tf.constant(True)))
case("LogicalAnd-constant", "LogicalAnd", lambda tf: tf.logical_and(tf.constant(A), True))
case("logical_xor", ("LogicalOr", "LogicalNot"),
     lambda tf: tf.logical_xor(tf.constant(A), tf.constant(B)))  # fmt: skip
case("logical-of-ints", "LogicalAnd", lambda tf: tf.logical_and(1, 0), fails="build", match="bool")
for tag, build, op in (
    ("and", lambda a, b: a & b, "LogicalAnd"), ("or", lambda a, b: a | b, "LogicalOr"),
    ("xor", lambda a, b: a ^ b, "LogicalOr"), ("invert", lambda a, b: ~a, "LogicalNot"),
    ("rand", lambda a, b: True & a, "LogicalAnd"), ("rxor", lambda a, b: True ^ a, "LogicalOr"),
):  # fmt: skip
    case(f"operator-{tag}", op, lambda tf, f=build: f(tf.constant(A), tf.constant(B)))
for tag, build, op in (
    ("and", lambda a: a & 6, "BitwiseAnd"),
    ("or", lambda a: a | 6, "BitwiseOr"),
    ("xor", lambda a: a ^ 6, "BitwiseXor"),
):
    case(f"operator-bits-{tag}", op, lambda tf, f=build: f(tf.constant([5, -2])))

T, E = [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]
case("Select", "Select", lambda tf: tf.where(tf.constant(A), tf.constant(T), tf.constant(E)))
case("Select-rows", "Select", lambda tf: tf.where([True, False], T, E, name="w"))
case("Select-scalar", "Select", lambda tf: tf.where(tf.constant(True), [1, 2], [3, 4]))
case("Select-strings", "Select", lambda tf: tf.where([True, False], ["a", "b"], ["c", "d"]))
case("Select-fed", "Select", lambda tf: tf.where(tf.placeholder("bool", name="c"), T, E),
     feeds={"c:0": [True, False]})  # fmt: skip
case("Select-wrong-rows", "Select", lambda tf: tf.where([True, False, True], T, E),
     fails="build", match="3 and 2")  # fmt: skip
case("Select-two-shapes", "Select", lambda tf: tf.where([True, False], [1.0, 2.0], [1.0]),
     fails="build", match="(2,)")  # fmt: skip
case("SelectV2", "SelectV2", lambda tf: tf.where_v2(tf.constant(A), tf.constant(T), 0.0))
case("SelectV2-broadcast", "SelectV2", lambda tf: tf.where_v2([[True], [False]], T, [9.0, 9.5]))
case("SelectV2-scalars", "SelectV2", lambda tf: tf.where_v2(True, tf.constant(1), tf.constant(2)))
case("Where", "Where", lambda tf: tf.where(tf.constant(A)))
case("Where-floats", "Where", lambda tf: tf.where(tf.constant([[0.0, 1.5], [2.0, 0.0]])))
case("Where-nothing", "Where", lambda tf: tf.where(tf.constant([False, False])))
case("Where-fed", "Where", lambda tf: tf.where(tf.placeholder("bool", name="c")),
     feeds={"c:0": [[[True]], [[False]]]})  # fmt: skip
case("where-half", "Select", lambda tf: tf.where([True], [1.0]), fails="build", match="both")
