"""Nodes that wait for each other: the error names them, where TensorFlow counts them."""

from __future__ import annotations

from typing import Any

import pytest

import stepscope.tf1 as tf
from stepscope.errors import InvalidArgumentError
from stepscope.options import ConfigProto


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def test_a_cycle_of_control_edges_is_named() -> None:
    a = tf.constant(1.0, name="a")
    b = tf.add(a, 1.0, name="b")
    c = tf.add(b, 1.0, name="c")
    a.op._add_control_input(c.op)
    with tf.Session() as session, pytest.raises(InvalidArgumentError, match="a -> b -> c -> a"):
        session.run(c)


def test_a_cycle_between_devices_is_named() -> None:
    with tf.device("/cpu:0"):
        a = tf.constant(1.0, name="a")
    with tf.device("/cpu:1"):
        b = tf.add(a, 1.0, name="b")
    a.op._add_control_input(b.op)
    config = ConfigProto(device_count={"CPU": 2})
    with tf.Session(config=config) as session, pytest.raises(InvalidArgumentError, match="cycle"):
        session.run(b)


def test_a_cycle_in_a_graph_def_is_named() -> None:
    with tf.Graph().as_default() as made:
        x = tf.constant(1.0, name="x")
        tf.negative(tf.add(x, 1.0, name="p"), name="q")
        message = made.as_graph_def()
    next(n for n in message.node if n.name == "p").input[1] = "q"
    with pytest.raises(InvalidArgumentError, match=r"(p -> q -> p|q -> p -> q)"):
        tf.import_graph_def(message, name="")
