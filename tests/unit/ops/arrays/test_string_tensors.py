"""Strings come out as bytes, one by one and in arrays, whatever they went through; as TensorFlow's.

An array of one string that lies in an array prints and compares like the string, so that types are
looked at; and some strings end in zeros, which NumPy's own type of strings drops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1

pytestmark = pytest.mark.tensorflow

ENDS = [b"a\0", b"bb", b""]


def queue(tf: Any, rows: Any, take: Callable[[Any], Any], kind: str = "FIFOQueue") -> Any:
    """What `take` gets out of a queue that the rows were put in."""
    more = {} if kind == "FIFOQueue" else {"min_after_dequeue": 0}
    made = getattr(tf, kind)(capacity=10, dtypes=[tf.string], shapes=[np.shape(rows)[1:]], **more)
    with tf.control_dependencies([made.enqueue_many([rows])]):
        return take(made)


def array(tf: Any, **more: Any) -> Any:
    return tf.TensorArray(tf.string, 3, clear_after_read=False, **more)


FEED = {"fed:0": ENDS}
CASES: dict[str, Callable[[Any], Any]] = {
    "dequeue": lambda tf: queue(tf, ENDS, lambda q: q.dequeue()),
    "dequeue_many": lambda tf: queue(tf, ENDS, lambda q: q.dequeue_many(2)),
    "dequeue_many of one": lambda tf: queue(tf, ENDS, lambda q: q.dequeue_many(1)),
    "dequeue_many of none": lambda tf: queue(tf, ENDS, lambda q: q.dequeue_many(0)),
    "dequeue_up_to": lambda tf: queue(tf, ENDS, lambda q: q.dequeue_up_to(3)),
    "vectors": lambda tf: queue(tf, [ENDS, ENDS], lambda q: q.dequeue()),
    "vectors, many": lambda tf: queue(tf, [ENDS, ENDS], lambda q: q.dequeue_many(2)),
    "vectors of one": lambda tf: queue(tf, [["a"], ["b"]], lambda q: q.dequeue_many(2)),
    "joined": lambda tf: queue(
        tf, ENDS, lambda q: tf.string_join([q.dequeue_many(3), tf.constant("z")])
    ),
    "shuffled": lambda tf: queue(
        tf, [b"a\0"] * 3, lambda q: q.dequeue_many(3), "RandomShuffleQueue"
    ),
    "to a function": lambda tf: tf.py_func(
        lambda values: b"|".join([type(v).__name__.encode() + v for v in values]),
        [queue(tf, ENDS, lambda q: q.dequeue_many(3))],
        tf.string,
    ),
    "function of one": lambda tf: tf.py_func(lambda: b"a\0", [], tf.string),
    "function of text": lambda tf: tf.py_func(lambda: "ü", [], tf.string),
    "function of many": lambda tf: tf.py_func(lambda: (ENDS,), [], tf.string),
    "function of array": lambda tf: tf.py_func(lambda: np.array(ENDS, object), [], tf.string),
    "function of its input": lambda tf: tf.py_func(lambda v: v, [tf.constant(b"a\0")], tf.string),
    "stack": lambda tf: tf.stack([tf.constant(b"a\0"), tf.constant(b"b")]),
    "unstack": lambda tf: tf.unstack(tf.constant(ENDS)),
    "concat": lambda tf: tf.concat([tf.constant(ENDS), tf.constant(ENDS)], 0),
    "gather": lambda tf: tf.gather(tf.constant(ENDS), 0),
    "gather_nd": lambda tf: tf.gather_nd(tf.constant([ENDS, ENDS]), [0, 0]),
    "index": lambda tf: tf.constant(ENDS)[0],
    "slice": lambda tf: tf.constant(ENDS)[1:],
    "column": lambda tf: tf.constant([ENDS, ENDS])[:, 0],
    "reshape": lambda tf: tf.reshape(tf.constant([b"a\0"]), []),
    "split": lambda tf: tf.split(tf.constant(ENDS), 3),
    "where": lambda tf: tf.where(tf.constant(True), tf.constant(b"a\0"), tf.constant(b"b")),
    "cond": lambda tf: tf.cond(
        tf.placeholder_with_default(True, []), lambda: tf.constant(b"a\0"), lambda: tf.constant("")
    ),
    "while_loop": lambda tf: tf.while_loop(
        lambda i, _: i < 2,
        lambda i, text: (i + 1, tf.string_join([text, tf.constant(b"\0")])),
        [0, tf.constant("a")],
    )[1],
    "TensorArray.stack": lambda tf: array(tf).unstack(tf.constant(ENDS)).stack(),
    "TensorArray.gather": lambda tf: array(tf).unstack(tf.constant(ENDS)).gather([2, 0]),
    "TensorArray.read": lambda tf: array(tf).unstack(tf.constant(ENDS)).read(0),
    "TensorArray.write": lambda tf: (
        array(tf).write(0, b"a\0").write(1, b"b").write(2, b"").stack()
    ),
    "TensorArray of vectors": lambda tf: array(tf).unstack(tf.constant([ENDS] * 3)).stack(),
    "TensorArray.concat": lambda tf: array(tf).unstack(tf.constant([ENDS] * 3)).concat(),
    "feed": lambda tf: tf.identity(tf.placeholder(tf.string, name="fed")),
    "feed, one": lambda tf: tf.identity(tf.placeholder(tf.string, name="fed")[0]),
}  # fmt: skip


def described(value: Any) -> Any:
    """A value with the types of it and of what is in it."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, [(type(v), v) for v in value.flat]
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    return type(value), value


@pytest.mark.parametrize("name", CASES)
def test_strings(tf: Any, name: str) -> None:
    def run(engine: Any) -> Any:
        with engine.Graph().as_default(), engine.Session() as session:
            fetch = CASES[name](engine)
            return described(session.run(fetch, FEED if name.startswith("feed") else None))

    ours = run(tf1)
    assert ours == run(tf)
    assert "bytes" in str(ours) or "of none" in name


INPUTS: dict[str, Callable[[Any], Any]] = {
    "string_input_producer": lambda tf: tf.train.string_input_producer(
        ["a", "b"], shuffle=False
    ).dequeue_many(3),
    "batch": lambda tf: tf.train.batch(
        [tf.train.string_input_producer(["a", "b"], shuffle=False).dequeue()], 3
    ),
    "batch of many": lambda tf: tf.train.batch([tf.constant(ENDS)], 3, enqueue_many=True),
    "batch of vectors": lambda tf: tf.train.batch([tf.constant(ENDS), tf.constant("s")], 2),
    "shuffle_batch": lambda tf: tf.train.shuffle_batch([tf.constant(b"a\0")], 3, 10, 2),
    "slice_input_producer": lambda tf: tf.train.slice_input_producer(
        [tf.constant(ENDS), [1, 2, 3]], shuffle=False
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_strings_from_input_threads(tf: Any, name: str) -> None:
    def run(engine: Any) -> Any:
        with engine.Graph().as_default():
            fetch = INPUTS[name](engine)
            with engine.train.MonitoredSession() as session:
                return described(session.run(fetch))

    assert run(tf1) == run(tf)


def test_a_row_of_a_string_variable() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(tf1.constant(ENDS))
        session.run(variable.initializer)
        session.run(tf1.scatter_update(variable, 1, b"c\0"))
        assert described(session.run(variable))[2] == [
            (bytes, b"a\0"), (bytes, b"c\0"), (bytes, b"")
        ]  # fmt: skip


def test_elements_that_were_not_written() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        stacked = array(tf1, element_shape=[]).write(1, "b").stack()
        assert described(session.run(stacked))[2] == [(bytes, b""), (bytes, b"b"), (bytes, b"")]
