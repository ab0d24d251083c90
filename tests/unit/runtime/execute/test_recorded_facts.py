"""Runs of one plan are recorded over one object of facts."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def traced(session, fetches, feeds=None, level=1):
    metadata = tf.RunMetadata()
    session.run(fetches, feeds, options=tf.RunOptions(trace_level=level), run_metadata=metadata)
    return metadata


@pytest.mark.parametrize("level", [1, 3])
def test_runs_of_a_plan_share_its_facts(level):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.add(x, x, name="y")
    with tf.Session() as session:
        first = traced(session, y, {x: [1, 2]}, level).ops
        second = traced(session, y, {x: [3, 4]}, level).ops
    assert first.facts is second.facts
    assert first.name.tolist() == second.name.tolist()
    assert first.facts.names.values[first.node].tolist() == first.name.tolist()


def test_facts_know_source_lines_and_static_outputs():
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    line = inspect.currentframe().f_lineno + 1
    tf.add(x, x, name="y")
    with tf.Session() as session:
        facts = traced(session, "y:0", {x: np.ones((2, 3))}).ops.facts
    sources = dict(zip(facts.names.values, facts.sources.values, strict=True))
    assert sources["y"] == f"{__file__}:{line}"
    assert sources["_arg_x_0_0"] == f"{__file__}:{line - 2}"
    assert sources["_SOURCE"] == ""
    node = np.flatnonzero(facts.names.values == "y").astype(np.int32)
    outputs = facts.outputs_of(node)
    assert list(outputs.shape) == [(2, 3)]
    assert outputs.bytes.tolist() == [24]


def test_a_shape_only_the_run_can_tell_is_the_runs():
    x = tf.placeholder(tf.int32, [4], name="x")
    y = tf.where(tf.greater(x, 0), name="y")
    with tf.Session() as session:
        few = traced(session, y, {x: [0, 0, 0, 7]}, level=3).ops
        more = traced(session, y, {x: [1, 0, 5, 7]}, level=3).ops
    assert few.facts is more.facts
    assert few.output_bytes[few.name == "y"].tolist() == [8]
    assert more.output_bytes[more.name == "y"].tolist() == [24]
    node = few.node[few.name == "y"]
    assert few.facts.outputs_of(node).bytes.tolist() == [0]


def test_loops_are_rows_over_the_same_nodes():
    i = tf.while_loop(lambda i: i < 3, lambda i: tf.add(i, 1, name="next"), [0])
    with tf.Session() as session:
        ops = traced(session, i).ops
        again = traced(session, i).ops
    assert ops.facts is again.facts
    assert len(np.unique(ops.node[ops.name == "while/next"])) == 1
    assert np.count_nonzero(ops.name == "while/next") == 3


def test_spans_stand_below_the_nodes():
    def doubled(value):
        with stepscope.annotate("twice"):
            return value + value

    y = tf.py_func(doubled, [tf.constant(2.0)], tf.float32, name="y")
    with tf.Session() as session:
        ops = traced(session, y, level=3).ops
    assert ops.name[-1] == "twice"
    assert ops.label[-1] == "twice = Annotation()"
    assert ops.device[-1] == ops.device[ops.name == "y"][0]
    assert ops.step.tolist() == [ops.step[0]] * len(ops)
    assert ops.output_bytes[ops.name == "y"].tolist() == [4]


def test_the_same_program_has_the_same_key_again():
    def key():
        with tf.Graph().as_default(), tf.Session() as session:
            return traced(session, tf.add(1.0, 2.0, name="y"), level=3).ops.facts.key

    first, second = [key() for _ in range(2)]
    assert first == second
