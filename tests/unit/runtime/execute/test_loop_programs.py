"""Loops that run as one written-out function: the same as node by node."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.errors import InvalidArgumentError
from stepscope.options import RunOptions


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def _squares() -> Any:
    """Sums of squares, with the steps in a TensorArray."""
    _, total, array = tf.while_loop(
        lambda i, *_: i < 5,
        lambda i, s, a: (i + 1, s + i * i, a.write(i, s)),
        [0, 0, tf.TensorArray(tf.int32, 5)],
    )
    return [total, array.stack()]


def _nested() -> Any:
    x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3))

    def outer(i: Any, s: Any) -> Any:
        _, inner = tf.while_loop(lambda j, _: j < i, lambda j, t: (j + 1, t * 0.5 + x), [0, s])
        return i + 1, inner + 1.0

    return list(tf.while_loop(lambda i, _: i < 4, outer, [0, x]))


def _swapped() -> Any:
    """Each variable becomes what the other one was."""
    return list(tf.while_loop(lambda i, *_: i < 3, lambda i, a, b: (i + 1, b, a), [0, 1, 2]))[1:]


def _gradients() -> Any:
    w = tf.Variable([[0.5, 0.1], [0.2, 0.3]])
    h = tf.while_loop(
        lambda i, _: i < 6, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, tf.ones([3, 2])]
    )[1]
    first = tf.gradients(tf.reduce_sum(h), w)[0]
    return [h, first, tf.gradients(tf.reduce_sum(first * first), w)[0]]


def _never() -> Any:
    return [tf.while_loop(lambda i: i < 0, lambda i: [i + 1], [tf.constant(7)])]


def _assigned() -> Any:
    """A reference variable that the loop changes, read in it."""
    v = tf.Variable(1.0, use_resource=False)

    def body(i: Any, s: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(v, 1.0)]):
            return i + 1, s + v

    return [tf.while_loop(lambda i, _: i < 3, body, [0, 0.0])[1]]


PROGRAMS = (_squares, _nested, _swapped, _gradients, _never, _assigned)


def _run(build: Any, level: int) -> tuple[Any, Any]:
    metadata = stepscope.RunMetadata()
    with tf.Graph().as_default(), tf.Session() as session:
        fetches = build()
        session.run(tf.global_variables_initializer())
        options = RunOptions(trace_level=level) if level else None
        found = session.run(fetches, options=options, run_metadata=metadata if level else None)
    return found, metadata


@pytest.mark.parametrize("build", PROGRAMS)
def test_values_and_rows_are_those_of_node_by_node(build: Any) -> None:
    written, program = _run(build, 0), _run(build, RunOptions.SOFTWARE_TRACE)
    # With every allocation noted, nodes are executed one by one.
    nodes = _run(build, RunOptions.FULL_TRACE)
    for values in (written[0], program[0]):
        for found, expected in zip(values, nodes[0], strict=True):
            np.testing.assert_array_equal(found, expected)
    rows, expected_rows = program[1].ops, nodes[1].ops
    assert Counter(rows.name) == Counter(expected_rows.name)
    assert (np.asarray(rows.end_ns) >= np.asarray(rows.start_ns)).all()


def test_the_op_that_fails_in_a_loop_is_named() -> None:
    def body(i: Any) -> Any:
        with tf.control_dependencies([tf.Assert(i < 3, [i], name="small")]):
            return i + 1

    last = tf.while_loop(lambda i: i < 10, body, [0])
    with tf.Session() as session, pytest.raises(InvalidArgumentError) as raised:
        session.run(last)
    assert raised.value.op is not None
    assert "small" in raised.value.op.name


def test_a_conditional_in_a_loop_takes_the_branch() -> None:
    total = tf.while_loop(
        lambda i, _: i < 6,
        lambda i, s: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: s + i, lambda: s)),
        [0, 0],
    )[1]
    with tf.Session() as session:
        assert session.run(total) == 0 + 2 + 4
