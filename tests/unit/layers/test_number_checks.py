"""Checks for NaN and infinity, beside TensorFlow's."""

from __future__ import annotations

from typing import Any

import pytest

import stepscope.tf1 as tf1


def said(tf: Any, fed: float) -> str:
    """What a run with all checks says where it fails: the first line of the message."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.sqrt(tf.log(x, name="logarithm"), name="root")
        check = tf.add_check_numerics_ops()
        try:
            return f"{check.name} {session.run([y, check], {x: fed})[1]}"
        except tf.errors.InvalidArgumentError as error:
            found = [line for line in str(error).splitlines() if "Tensor had" in line]
            return found[0].strip()


@pytest.mark.tensorflow
@pytest.mark.parametrize("fed", [2.0, 0.5, 0.0, float("inf")])
def test_the_first_op_without_a_number_is_named(tf: Any, fed: float) -> None:
    ours, theirs = said(tf1, fed), said(tf, fed)
    assert ours == theirs


@pytest.mark.tensorflow
def test_one_tensor_is_checked(tf: Any) -> None:
    found = []
    for engine in (tf1, tf):
        with engine.Graph().as_default() as graph, engine.Session(graph=graph) as session:
            x = engine.placeholder(engine.float32, [None], name="x")
            checked = engine.verify_tensor_all_finite(x, "not a number")
            names = [op.name for op in graph.get_operations()]
            with pytest.raises(engine.errors.InvalidArgumentError, match="not a number"):
                session.run(checked, {x: [float("nan")]})
            found.append((names, session.run(checked, {x: [1.0]}).tolist()))
    assert found[0] == found[1]


def test_conditionals_cannot_be_checked() -> None:
    with tf1.Graph().as_default():
        tf1.cond(tf1.placeholder(tf1.bool, []), lambda: tf1.constant(1.0), lambda: tf1.zeros([]))
        with pytest.raises(ValueError, match="not compatible with TensorFlow control flow"):
            tf1.add_check_numerics_ops()
