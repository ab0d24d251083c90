"""Python functions as nodes. The tokens count up per process, so graphs are never the same."""

import numpy as np
from op_cases import Case

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def raises(error):
    def function(_x):
        raise error

    return lambda tf: tf.py_func(function, [X], tf.float32)


def returns(value, kind="float32"):
    return lambda tf: tf.py_func(lambda: value, [], getattr(tf, kind))


def row(name, build, op_type="PyFunc", **keywords):
    return Case(f"py_func/{name}", (op_type,), build, graph=False, **keywords)


def bad(name, build, match):
    return Case(f"py_func/{name}", (), build, fails="run", match=match)


CASES = [
    row("one", lambda tf: tf.py_func(lambda x: x * 2, [X], tf.float32)),
    row("stateless", lambda tf: tf.py_func(np.sin, [X], tf.float32, stateful=False),
        "PyFuncStateless"),
    row("writes", lambda tf: tf.py_func(lambda x: x.__iadd__(1), [X], tf.float32)),
    row("several", lambda tf: tf.py_func(lambda x, y: (x + y, np.int64(7)), [X, 1.0],
        [tf.float32, tf.int64])),
    row("a list of one", lambda tf: tf.py_func(lambda x: [x], [X], [tf.float32])),
    row("numpy_function", lambda tf: tf.numpy_function(lambda x: x.sum(), [X], tf.float32)),
    row("python int", returns(3, "int64")),
    row("python bool", returns(True, "bool")),
    row("text", returns("abc", "string")),
    row("texts", returns(np.array(["abc", "d"]), "string")),
    row("bytes in", lambda tf: tf.py_func(lambda s: s + b"!", [b"hi"], tf.string)),
    row("texts in", lambda tf: tf.py_func(lambda s: s[::-1], [["a", "b"]], tf.string)),
    row("scalar in", lambda tf: tf.py_func(lambda x: type(x).__name__, [1.5], tf.string)),
    row("nothing", lambda tf: tf.py_func(lambda: None, [], [])),
    bad("ValueError", raises(ValueError("bad")), "ValueError: bad"),
    bad("KeyError", raises(KeyError("k")), "KeyError: 'k'"),
    bad("wrong dtype", returns(np.float64(1.5)), "is float64, but expects float32"),
    bad("python float", returns(1.5, "int32"), "but expects int32"),
    bad("too many", returns((1.0, 2.0)), "returns 2 values, but expects to see 1 values."),
    bad("too few", returns(None), "returns 0 values, but expects to see 1 values."),
    bad("an object", returns(object()), "is of Python objects (object), but expects float32"),
]  # fmt: skip
