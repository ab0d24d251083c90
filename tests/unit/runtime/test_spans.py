"""The user's own spans inside runs of the embedded engine."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf

FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)


def work(x):
    with stepscope.annotate("outer"), stepscope.annotate("inner"):
        return x + 1


def traced(fetches, **config):
    metadata = stepscope.RunMetadata()
    with stepscope.Session(config=stepscope.ConfigProto(**config)) as session:
        session.run(fetches, options=FULL, run_metadata=metadata)
    return metadata.ops


@pytest.mark.parametrize("pool", [-1, 0])
def test_spans_nest_inside_the_op_they_are_in(pool):
    with tf.Graph().as_default():
        y = tf.py_func(work, [tf.constant(np.ones(3))], tf.float64)
        z = [y, tf.py_func(work, [tf.constant(np.ones(3))], tf.float64)]
        metadata = stepscope.RunMetadata()
        options = stepscope.RunOptions(trace_level=3, inter_op_thread_pool=pool)
        with stepscope.Session() as session:
            session.run(z, options=options, run_metadata=metadata)
    ops = metadata.ops
    spans = {n: np.flatnonzero(ops.name == n) for n in ("outer", "inner")}
    assert [len(rows) for rows in spans.values()] == [2, 2]
    for outer, inner in zip(spans["outer"], spans["inner"], strict=True):
        assert ops.op[outer] == ops.op[inner] == "Annotation"
        around = np.flatnonzero((ops.op == "PyFunc") & (ops.thread == ops.thread[outer]))
        assert any(
            ops.start_ns[p] <= ops.start_ns[outer] <= ops.start_ns[inner]
            and ops.end_ns[inner] <= ops.end_ns[outer] <= ops.end_ns[p]
            for p in around
        )
        assert ops.device[outer].endswith("CPU:0")
    back = stepscope.RunMetadata.FromString(metadata.SerializeToString())
    assert sorted(back.ops.name[back.ops.op == "Annotation"]) == ["inner"] * 2 + ["outer"] * 2


def test_as_a_decorator_from_many_threads():
    @stepscope.annotate("step")
    def square(x):
        return x * x

    with tf.Graph().as_default():
        nodes = [tf.py_func(square, [tf.constant(float(i))], tf.float32) for i in range(8)]
        ops = traced(nodes, inter_op_parallelism_threads=4)
    assert (ops.name == "step").sum() == 8


def test_outside_of_a_traced_run_nothing_is_recorded():
    with tf.Graph().as_default(), stepscope.Session() as session:
        y = tf.py_func(work, [tf.constant(np.ones(3))], tf.float64)
        metadata = stepscope.RunMetadata()
        session.run(y, run_metadata=metadata)
        with stepscope.annotate("outside"):
            pass
        assert len(metadata.ops) == 0
        session.run(y, options=FULL, run_metadata=metadata)
    assert "outside" not in metadata.ops.name


def test_a_run_inside_a_run_notes_its_own():
    inner_metadata = stepscope.RunMetadata()

    def nested(x):
        with tf.Graph().as_default(), stepscope.Session() as session:
            y = tf.py_func(work, [tf.constant(np.ones(3))], tf.float64)
            options = stepscope.RunOptions(trace_level=3, inter_op_thread_pool=-1)
            session.run(y, options=options, run_metadata=inner_metadata)
        with stepscope.annotate("after"):
            return x

    with tf.Graph().as_default():
        metadata = stepscope.RunMetadata()
        y = tf.py_func(nested, [tf.constant(1.0)], tf.float32)
        with stepscope.Session() as session:
            options = stepscope.RunOptions(trace_level=3, inter_op_thread_pool=-1)
            session.run(y, options=options, run_metadata=metadata)
    assert [n for n, o in zip(metadata.ops.name, metadata.ops.op, strict=True)
            if o == "Annotation"] == ["after"]  # fmt: skip
    assert (inner_metadata.ops.op == "Annotation").sum() == 2


def test_a_failed_run_keeps_its_spans():
    def fails(x):
        with stepscope.annotate("before it failed"):
            raise ValueError("no")

    with tf.Graph().as_default(), stepscope.Session() as session:
        y = tf.py_func(fails, [tf.constant(1.0)], tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError) as failed:
            session.run(y, options=FULL)
    assert "before it failed" in failed.value.run_metadata.ops.name
    assert threading.active_count() < 50


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_span_needs_a_name(name):
    with pytest.raises(TypeError, match="takes a name"):
        stepscope.annotate(name)
