"""Integers bit by bit."""

import numpy as np
from op_cases import Case

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
LEFT, RIGHT = [0, 1, 5, 100, 127], [3, 7, 1, 0, 90]


def both(name, dtype):
    values = np.array(LEFT, dtype), np.array(RIGHT, dtype)
    return lambda tf: getattr(tf.bitwise, name)(*map(tf.constant, values))


CASES = [
    *[Case(f"bits/{name} {dtype}", (op_type,), both(name, dtype))
      for name, op_type in (("bitwise_and", "BitwiseAnd"), ("bitwise_or", "BitwiseOr"),
                            ("bitwise_xor", "BitwiseXor"), ("left_shift", "LeftShift"),
                            ("right_shift", "RightShift")) for dtype in TYPES],
    *[Case(f"bits/invert {dtype}", ("Invert",),
           lambda tf, d=dtype: tf.bitwise.invert(tf.constant(np.array(LEFT, d))))
      for dtype in TYPES],
    Case("bits/negative", ("RightShift", "LeftShift"), lambda tf: [
        tf.bitwise.right_shift([-9, 9], [1, 40]), tf.bitwise.left_shift(-9, [[2], [-1]], name="n"),
        tf.bitwise.invert([[7]])]),
    Case("bits/fed", ("BitwiseAnd", "LeftShift"), lambda tf: [
        tf.bitwise.bitwise_and(tf.placeholder(tf.int32, [None], "x"), [6]),
        tf.bitwise.left_shift(tf.placeholder(tf.int32, name="y"), 1)],
        {"x:0": [7, 8, 12], "y:0": [[1, 2]]}),
    Case("bits/of floats", (), lambda tf: tf.bitwise.invert([1.0]), fails="build",
         match="not in the list of allowed"),
]  # fmt: skip
