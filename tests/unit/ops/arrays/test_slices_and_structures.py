"""IndexedSlices, nested structures and integers where tensors are taken, here and on TensorFlow."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from both_engines import both

pytestmark = pytest.mark.tensorflow

Pair = collections.namedtuple("Pair", ["x", "y"])


def slices(tf: Any, shaped: bool = True) -> Any:
    shape = [tf.constant([3, 2])] if shaped else []
    return tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([0, 2]), *shape)


def fed_slices(tf: Any, shaped: bool = True) -> Any:
    shape = [tf.placeholder(tf.int32, [2])] if shaped else []
    return tf.IndexedSlices(
        tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None]), *shape
    )


def whether(tf: Any) -> Any:
    return tf.placeholder_with_default(True, [])


def plain(value: Any) -> Any:
    """A fetched value without the classes of the engine it comes from."""
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    return None if value is None else np.asarray(value).tolist()


def run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return plain(session.run(fetches, feeds))


ROWS = np.array([[1.0, 2.0]], np.float32)
FETCHED: dict[str, Callable[[Any], Any]] = {
    "converted": lambda tf: tf.convert_to_tensor(slices(tf)),
    "converted without a shape": lambda tf: tf.convert_to_tensor(slices(tf, shaped=False)),
    "converted to another type": lambda tf: tf.convert_to_tensor(slices(tf), tf.int32),
    "an operand": lambda tf: tf.constant(2.0) * slices(tf),
    "an argument": lambda tf: tf.reduce_sum(slices(tf)),
    "one of several": lambda tf: tf.add_n([slices(tf), tf.ones([3, 2])]),
    "negated": lambda tf: -slices(tf),
    "negated without a shape": lambda tf: -slices(tf, shaped=False),
    "tf.negative": lambda tf: tf.negative(slices(tf)),
    "identity": lambda tf: tf.identity(slices(tf)),
    "in cond": lambda tf: tf.cond(whether(tf), lambda: slices(tf), lambda: -slices(tf)),
    "in cond without a shape": lambda tf: tf.cond(
        whether(tf), lambda: slices(tf, shaped=False), lambda: -slices(tf, shaped=False)
    ),
    "in cond beside a tensor": lambda tf: tf.cond(
        whether(tf), lambda: [slices(tf), tf.constant(1)], lambda: [slices(tf), tf.constant(2)]
    ),
    "in cond against a tensor": lambda tf: tf.cond(
        whether(tf), lambda: slices(tf), lambda: tf.ones([3, 2])
    ),
    "in while_loop": lambda tf: tf.while_loop(
        lambda i, _: i < 2,
        lambda i, s: (i + 1, tf.IndexedSlices(s.values * 2.0, s.indices, s.dense_shape)),
        (0, slices(tf)),
    )[1],
    "in tuple": lambda tf: tf.tuple([slices(tf), tf.constant(1)]),
    "in group": lambda tf: tf.group(slices(tf)),
    "as grad_ys": lambda tf: tf.gradients(
        v := tf.Variable(tf.ones([3, 2])), [v], grad_ys=[slices(tf)]
    ),
}


@pytest.mark.parametrize("name", FETCHED)
def test_slices(tf: Any, name: str) -> None:
    ours, theirs = both(tf, lambda engine: run(engine, FETCHED[name](engine)))
    assert ours == theirs


def test_what_waits_for_slices(tf: Any) -> None:
    def program(engine: Any) -> Any:
        rows = slices(engine)
        with engine.control_dependencies([rows]):
            return [op.name for op in engine.no_op().control_inputs], str(rows)

    ours, theirs = both(tf, program)
    assert ours == theirs
    assert ours[0] == ["Const_1"]


@pytest.mark.parametrize("shaped", [True, False])
def test_slices_are_fed(tf: Any, shaped: bool) -> None:
    """With a tuple of arrays, or with what a run gave for slices."""

    def program(engine: Any) -> Any:
        rows = fed_slices(engine, shaped)
        arrays = (ROWS, [1], [3, 2]) if shaped else (ROWS, [1])
        with engine.Session() as session:
            first = session.run(rows, {rows: arrays})
            return plain(first), plain(session.run(rows, {rows: first}))

    ours, theirs = both(tf, program)
    assert ours == theirs
    assert ours[0] == ours[1]


FEEDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "flat": lambda a, b, c: {(a, b): (1, 2), c: 3},
    "nested": lambda a, b, c: {(a, (b, c)): (1, (2, 3))},
    "nested, by names": lambda *_: {("a:0", ("b:0", "c:0")): (1, (2, 3))},
    "nested lists": lambda a, b, c: {(a, (b, c)): [1, [2, 3]]},
    "nested otherwise": lambda a, b, c: {(a, (b, c)): ((1, 2), 3)},
    "named": lambda a, b, c: {Pair(a, Pair(b, c)): Pair(1, Pair(2, 3))},
    "a dict": lambda a, b, c: {(a, b): {"x": 1, "y": 2}, c: 3},
    "one": lambda a, b, c: {(a,): 1, b: 2, c: 3},
    "too few": lambda a, b, c: {(a, (b, c)): (1, 2)},
    "an array": lambda a, b, c: {(a, b, c): np.array([1, 2, 3])},
}


@pytest.mark.parametrize("name", FEEDS)
def test_nested_keys_of_feeds(tf: Any, name: str) -> None:
    def program(engine: Any) -> Any:
        a, b, c = (engine.placeholder(engine.float32, [], name=n) for n in "abc")
        with engine.Session() as session:
            return [float(v) for v in session.run([a + 0, b + 0, c + 0], FEEDS[name](a, b, c))]

    ours, theirs = both(tf, program)
    assert ours == theirs
    assert ours in ([1.0, 2.0, 3.0], ValueError)


VARIABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "values": lambda d: d.values(),
    "dict": lambda d: {"only": d["a"]},
    "nested": lambda d: [[d["b"]], (d["a"],)],
    "one": lambda d: d["a"],
}


@pytest.mark.parametrize("name", VARIABLES)
def test_what_is_trained(tf: Any, name: str) -> None:
    def program(engine: Any) -> Any:
        made = {"a": engine.Variable(1.0), "b": engine.Variable(2.0)}
        step = engine.train.GradientDescentOptimizer(0.1).minimize(
            made["a"] * made["b"], var_list=VARIABLES[name](made)
        )
        with engine.Session() as session:
            session.run(engine.global_variables_initializer())
            session.run(step)
            return plain(session.run([made["a"], made["b"]]))

    ours, theirs = both(tf, program)
    assert ours == theirs
    assert ours[1] != 1.0


def test_values_of_dicts(tf: Any) -> None:
    def program(engine: Any) -> Any:
        tensors = {"a": engine.constant([3.0]), "b": engine.constant([4.0])}
        group = engine.group(tensors.values())
        return run(engine, engine.add_n(tensors.values())), len(group.control_inputs)

    ours, theirs = both(tf, program)
    assert ours == theirs == ([7.0], 2)


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "integers": lambda tf: tf.gradients((x := tf.constant(1)) * 2, x),
    "an integer variable": lambda tf: tf.gradients((x := tf.Variable(1)) * 2, x),
    "to integers": lambda tf: tf.gradients(tf.cast(x := tf.constant(1.0), tf.int32) * 2, x),
    "from integers": lambda tf: tf.gradients(tf.cast(x := tf.constant(1), tf.float32) * 2.0, x),
    "through integers": lambda tf: tf.gradients(
        tf.cast(tf.cast(x := tf.constant(1.0), tf.int32), tf.float32) * x, x
    ),
    "both": lambda tf: tf.gradients(
        [(x := tf.constant(1.0)) * 2.0, (i := tf.constant(1)) * 2], [x, i]
    ),
    "itself": lambda tf: tf.gradients(x := tf.constant(1), x),
    "booleans": lambda tf: tf.gradients(tf.logical_not(x := tf.constant(True)), x),
    "argmax": lambda tf: tf.gradients(tf.argmax(x := tf.constant([1.0, 2.0])), x),
    "weighed": lambda tf: tf.gradients(
        (x := tf.constant(1)) * 2, x, grad_ys=tf.constant(1)
    ),
    "zeros": lambda tf: tf.gradients(
        (x := tf.constant(1)) * 2, x, unconnected_gradients="zero"
    ),
    "strings": lambda tf: tf.gradients(tf.string_join([x := tf.constant("a"), x]), x),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_integers(tf: Any, name: str) -> None:
    def program(engine: Any) -> Any:
        found = GRADIENTS[name](engine)
        return [None if g is None else (g.dtype.name, run(engine, g)) for g in found]

    ours, theirs = both(tf, program)
    assert ours == theirs
