"""Arithmetic of one and two tensors."""

from __future__ import annotations

import numpy as np
from op_cases import Case

NAN, INF = float("nan"), float("inf")
FLOATS = ("float32", "float64")
INTS = ("int32", "int64")

CASES: list[Case] = []


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, **more))


def pair(op, function, dtypes, x, y, tag="", **more):
    """One binary op over dtypes, and with broadcasting, rank 0 and no elements."""
    for dtype in dtypes:
        case(
            f"{op}{tag}-{dtype}",
            op,
            lambda tf, d=dtype: function(tf)(tf.constant(x, d), tf.constant(y, d)),
            **more,
        )


def shapes(op, function, dtype):
    for tag, a, b in (
        ("row", (2, 3), (3,)), ("column", (2, 1), (1, 3)), ("scalar", (), (2, 2)),
        ("scalars", (), ()), ("none", (0, 3), (3,)), ("rank3", (2, 1, 3), (4, 1)),
    ):  # fmt: skip
        first = np.arange(1, 1 + int(np.prod(a)), dtype=dtype).reshape(a)
        second = (np.arange(int(np.prod(b)), dtype=dtype).reshape(b) % 3 + 1).astype(dtype)
        case(
            f"{op}-{tag}",
            op,
            lambda tf, x=first, y=second: function(tf)(tf.constant(x), tf.constant(y)),
        )


REAL_X, REAL_Y = [[1.5, -2.25, 0.0], [NAN, INF, 7.0]], [[0.5, 3.0, 0.0], [1.0, -2.0, -INF]]
INT_X, INT_Y = [[7, -7, 7], [-7, 0, 100]], [[2, 2, -2], [-2, 5, 7]]

for op, name, with_ints in (
    ("AddV2", "add", True),
    ("Sub", "subtract", True),
    ("Mul", "multiply", True),
    ("Maximum", "maximum", True),
    ("Minimum", "minimum", True),
    ("SquaredDifference", "squared_difference", True),
    ("RealDiv", "realdiv", False),
    ("FloorDiv", "floor_div", True),
    ("TruncateDiv", "truncatediv", True),
    ("FloorMod", "floormod", True),
    ("TruncateMod", "truncatemod", True),
    ("DivNoNan", "div_no_nan", False),
    ("Pow", "pow", False),
    ("Atan2", "atan2", False),
):
    # TensorFlow has no half-precision kernel of its own for TruncateMod.
    halves = () if op == "TruncateMod" else ("float16",)
    pair(op, lambda tf, n=name: getattr(tf, n), (*FLOATS, *halves), REAL_X, REAL_Y)
    shapes(op, lambda tf, n=name: getattr(tf, n), np.float32)
    if with_ints:
        pair(op, lambda tf, n=name: getattr(tf, n), INTS, INT_X, INT_Y, tag="-whole")

for op in ("Div", "Mod"):
    case(f"{op}-float32", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        x=tf.constant([5.5, -5.5]), y=tf.constant([2.0, 2.0])))  # fmt: skip
    case(f"{op}-int32", op, lambda tf, o=op: getattr(tf.raw_ops, o)(
        x=tf.constant(INT_X), y=tf.constant(INT_Y)))  # fmt: skip
case("Add-float32", "Add", lambda tf: tf.raw_ops.Add(x=tf.constant([1.0]), y=tf.constant([2.0])))
case("Add-string", "Add", lambda tf: tf.constant(["a", "b"]) + "c")
case("Add-string-scalars", "Add", lambda tf: tf.add(tf.constant("a"), tf.constant("b")))
for small in ("int8", "uint8", "int16"):
    case(f"AddV2-{small}-wraps", "AddV2", lambda tf, d=small: tf.constant([100, 127], d)
         + tf.constant([100, 3], d))  # fmt: skip
case("Sub-uint8-wraps", "Sub", lambda tf: tf.constant([1], "uint8") - tf.constant([2], "uint8"))
case("Mul-complex", "Mul", lambda tf: tf.constant([1 + 2j]) * tf.constant([3 - 1j]))
case("SquaredDifference-complex", "SquaredDifference",
     lambda tf: tf.squared_difference(tf.constant([1 + 2j]), tf.constant([0j])))  # fmt: skip
case("Pow-int32", "Pow", lambda tf: tf.pow(tf.constant([2, -3, 0]), tf.constant([3, 3, 0])))
case("Pow-scalar-exponent", "Pow", lambda tf: tf.pow(tf.constant([1.0, 2.0]), 2))
case("FloorDiv-int-fed-divisor", "FloorDiv",
     lambda tf: tf.floordiv(tf.constant([7, -7]), tf.placeholder("int32", [2], name="y")),
     feeds={"y:0": [2, 2]})  # fmt: skip
case("FloorDiv-tenth", "FloorDiv", lambda tf: tf.floordiv(tf.constant([1.0]), 0.1))

# Operators, with constants on either side.
X = [[1.5, -2.0], [3.0, 4.0]]
for tag, build, ops in (
    ("add", lambda x: x + 1.0, "AddV2"), ("radd", lambda x: 1 + x, "AddV2"),
    ("sub", lambda x: x - 1, "Sub"), ("rsub", lambda x: 1 - x, "Sub"),
    ("mul", lambda x: x * 2, "Mul"), ("rmul", lambda x: 2 * x, "Mul"),
    ("truediv", lambda x: x / 2, "RealDiv"), ("rtruediv", lambda x: 2 / x, "RealDiv"),
    ("floordiv", lambda x: x // 2, "FloorDiv"), ("rfloordiv", lambda x: 2 // x, "FloorDiv"),
    ("mod", lambda x: x % 2, "FloorMod"), ("rmod", lambda x: 2 % x, "FloorMod"),
    ("pow", lambda x: x ** 2, "Pow"), ("rpow", lambda x: 2 ** x, "Pow"),
    ("neg", lambda x: -x, "Neg"), ("abs", lambda x: abs(x), "Abs"),
    ("array-left", lambda x: np.ones((2, 2), np.float32) + x, "AddV2"),
    ("twice", lambda x: x * x + x * x, ("Mul", "AddV2")),
):  # fmt: skip
    case(f"operator-{tag}", ops, lambda tf, b=build: b(tf.constant(X)))
case("operator-int-truediv", ("Cast", "RealDiv"), lambda tf: tf.constant([1, 2]) / 2)
case("operator-int-rtruediv", ("Cast", "RealDiv"), lambda tf: 3 / tf.constant([1, 2]))
case("operator-int8-truediv", "RealDiv", lambda tf: tf.constant([1, 2], "int8") / 2)
case("operator-bool-mul", ("Mul", "Cast"),
     lambda tf: tf.constant([True, True]) * tf.constant([True, False]))  # fmt: skip
case("operator-names-count-up", "AddV2", lambda tf: [tf.constant(1.0) + 1.0 + 2.0, tf.constant(2)])
case("divide", "RealDiv", lambda tf: tf.divide(tf.constant(X), 2.0))
case("divide-ints", "RealDiv", lambda tf: tf.divide(3, 2))
case("truediv-named", "RealDiv", lambda tf: tf.truediv(tf.constant([3]), 2, name="half"))
case("div-float", "RealDiv", lambda tf: tf.div(tf.constant(X), 2.0))
case("div-int", "FloorDiv", lambda tf: tf.div(tf.constant([-5, 5]), 3))
case("floordiv-python", "FloorDiv", lambda tf: tf.floordiv(-5, 3))
case("mod-python", "FloorMod", lambda tf: tf.mod(-5, 3))
case("add-named", "AddV2", lambda tf: tf.add(tf.constant(X), 1.0, name="sum"))
case("maximum-value", "Maximum", lambda tf: tf.maximum(tf.constant(X), 1.0))
case("inside-a-scope", "AddV2", lambda tf: _scoped(tf))


def _scoped(tf):
    with tf.name_scope("layer"):
        return tf.constant(1.0) + tf.constant(2.0)


case("AddN-two", "AddN", lambda tf: tf.add_n([tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]))
case("AddN-three", "AddN", lambda tf: tf.add_n([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
case("AddN-scalars", "AddN", lambda tf: tf.add_n([tf.constant(1), tf.constant(2), tf.constant(3)]))
case("AddN-one", ("Const",), lambda tf: tf.add_n([tf.constant([1.0])]))
case("AddN-one-named", ("Identity",), lambda tf: tf.add_n([tf.constant([1.0])], name="only"))
case("AddN-one-raw", "AddN", lambda tf: tf.raw_ops.AddN(inputs=[tf.constant([1.0])]))
case("AddN-fed", "AddN", lambda tf: tf.add_n([tf.placeholder("float32", name="a"), [1.0], [2.0]]),
     feeds={"a:0": [5.0]})  # fmt: skip
case("clip_by_value", ("Minimum", "Maximum"), lambda tf: tf.clip_by_value(tf.constant(X), 0, 2.5))
case("clip_by_value-named", ("Minimum",),
     lambda tf: tf.clip_by_value(tf.constant([1, 5, -3]), 0, 3, name="clip"))  # fmt: skip
case("ClipByValue", "ClipByValue", lambda tf: tf.raw_ops.ClipByValue(
    t=tf.constant(X), clip_value_min=-1.0, clip_value_max=2.0))  # fmt: skip

# One tensor.
ANY = [[0.25, -0.5, 0.0], [1.0, 2.5, -3.5]]
EDGE = [NAN, INF, -INF, 0.5, 1.5, 2.5, -0.5]
for op, name, values in (
    ("Neg", "negative", ANY), ("Abs", "abs", ANY), ("Sign", "sign", EDGE),
    ("Square", "square", EDGE), ("Sqrt", "sqrt", EDGE), ("Rsqrt", "rsqrt", EDGE),
    ("Reciprocal", "reciprocal", ANY), ("Exp", "exp", EDGE), ("Expm1", "expm1", ANY),
    ("Log", "log", EDGE), ("Log1p", "log1p", ANY), ("Sin", "sin", ANY), ("Cos", "cos", ANY),
    ("Tan", "tan", ANY), ("Asin", "asin", ANY), ("Acos", "acos", ANY), ("Atan", "atan", EDGE),
    ("Sinh", "sinh", ANY), ("Cosh", "cosh", ANY), ("Tanh", "tanh", EDGE),
    ("Floor", "floor", EDGE), ("Ceil", "ceil", EDGE), ("Round", "round", EDGE),
    ("Rint", "rint", EDGE), ("Erf", "erf", [*ANY[0], NAN]), ("Erfc", "erfc", ANY),
    ("IsNan", "is_nan", EDGE), ("IsInf", "is_inf", EDGE), ("IsFinite", "is_finite", EDGE),
):  # fmt: skip
    for dtype in FLOATS if op == "Rint" else (*FLOATS, "float16"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, v=values, d=dtype: _named(tf, n)(
            tf.constant(v, d)), tol=2e-6 if dtype != "float64" else 1e-12)  # fmt: skip
    case(f"{op}-scalar", op, lambda tf, n=name: _named(tf, n)(tf.constant(0.75)), tol=2e-6)
    case(f"{op}-none", op, lambda tf, n=name: _named(tf, n)(tf.zeros([0, 2])))


def _named(tf, name):
    return getattr(tf, name, None) or getattr(tf.math, name)


case("Inv", "Inv", lambda tf: tf.raw_ops.Inv(x=tf.constant([2.0, 0.0])))
case("ComplexAbs", "ComplexAbs", lambda tf: tf.abs(tf.constant([3 + 4j])))
case("Conj", "Conj", lambda tf: tf.conj(tf.constant([3 + 4j, -1j])))
case("Real", "Real", lambda tf: tf.real(tf.constant([3 + 4j, -1j])))
case("Imag", "Imag", lambda tf: tf.imag(tf.constant(3 + 4j, "complex64"), name="i"))
case("real-of-reals", "Const", lambda tf: tf.real(tf.constant([3.0])))
case("sign-complex", ("ComplexAbs", "DivNoNan"), lambda tf: tf.sign(tf.constant([3 + 4j, 0j])))
case("Sign-complex", "Sign", lambda tf: tf.raw_ops.Sign(x=tf.constant([3 + 4j, 0j])))
case("Neg-int64", "Neg", lambda tf: -tf.constant([1, -2], "int64"))
case("Abs-int8", "Abs", lambda tf: abs(tf.constant([-5, 5], "int8")))
case("Square-int8-wraps", "Square", lambda tf: tf.square(tf.constant([100], "int8")))
case("Sign-int32", "Sign", lambda tf: tf.sign(tf.constant([-3, 0, 9])))
case("round-ints-are-themselves", "Const", lambda tf: tf.round(tf.constant([1, 2])))
case("Exp-of-list", "Exp", lambda tf: tf.exp([0.0, 1.0], name="e"))
case("Invert", "Invert", lambda tf: ~tf.constant([0, 5, -1]))
case("Log-fed", "Log", lambda tf: tf.log(tf.placeholder("float64", [None, 2], name="x")),
     feeds={"x:0": [[1.0, 2.0], [3.0, 0.0]]})  # fmt: skip

# Nothing is divided by zero where nothing is divided.
for _op in ("Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"):
    for _tag, _shape in (("none", [0]), ("rows", [2, 0])):
        case(f"zero-{_op}-of-{_tag}", _op, lambda tf, o=_op: getattr(tf.raw_ops, o)(
            x=tf.placeholder("int32", name="x"), y=tf.constant(0)),
            feeds={"x:0": np.zeros(_shape, np.int32)})  # fmt: skip

# Refused.
case("zero-divisor", "FloorDiv", lambda tf: tf.constant([1, 2]) // tf.constant([0, 1]),
     fails="run", match="Integer division by zero")  # fmt: skip
case("zero-modulus", "FloorMod", lambda tf: tf.constant([1, 2]) % tf.constant([0, 1]),
     fails="run", match="Integer division by zero")  # fmt: skip
case("zero-Div", "Div", lambda tf: tf.raw_ops.Div(x=tf.constant([1]), y=tf.constant([0])),
     fails="run", match="Integer division by zero")  # fmt: skip
case("negative-power", "Pow", lambda tf: tf.pow(tf.constant([2]), tf.constant([-1])),
     fails="run", match="Integers to negative integer powers are not allowed")  # fmt: skip
case("shapes-clash", "AddV2", lambda tf: tf.zeros([2]) + tf.zeros([3]),
     fails="build", match="Dimensions must be equal, but are 2 and 3")  # fmt: skip
case("shapes-clash-fed", "AddV2",
     lambda tf: tf.add(tf.placeholder("float32", [None], name="x"), [1.0, 2.0]),
     feeds={"x:0": [1.0, 2.0, 3.0]}, fails="run", match="3")  # fmt: skip
case("dtypes-clash", "Mul", lambda tf: tf.constant(2) * tf.constant(2.0),
     fails="build", match="float32")  # fmt: skip
case("float-for-int", "AddV2", lambda tf: tf.constant(2) + 1.5, fails="build", match="int32")
case("sqrt-of-ints", "Sqrt", lambda tf: tf.sqrt(tf.constant([4])), fails="build", match="int32")
case("true-quotient-of-two-types", "RealDiv", lambda tf: tf.constant(1) / tf.constant(1.0),
     fails="build", match="same dtype")  # fmt: skip
case("add_n-shapes", "AddN", lambda tf: tf.add_n([tf.zeros([2]), tf.zeros([3])]),
     fails="build", match="(2,)")  # fmt: skip
case("add_n-nothing", "AddN", lambda tf: tf.add_n([]), fails="build", match="at least one")
