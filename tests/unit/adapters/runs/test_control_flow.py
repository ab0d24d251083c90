"""Branches and loops: a node that was passed over is not said to have run.

TensorFlow's own step stats of the same graph are the measure.
"""

from __future__ import annotations

import pytest
from models import counted

from stepscope.adapters import tensorflow as adapter
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

SOFTWARE = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)


def branch(tf, x):
    return tf.cond(
        tf.reduce_sum(x) > 1e9,
        lambda: tf.sin(x) * tf.constant([3.0, 4.0]),
        lambda: tf.tanh(x) + tf.constant([2.0, 5.0]),
    )


def constant_branches(tf, x):
    return tf.cond(
        tf.reduce_sum(x) > 1e9, lambda: tf.constant([3.0, 4.0]), lambda: tf.constant([2.0, 5.0])
    )


def one_of_three(tf, x):
    return tf.switch_case(
        tf.cast(tf.reduce_sum(x), tf.int32) - 2,
        [
            lambda: tf.sin(x),
            lambda: x * tf.constant([7.0, 8.0]),
            lambda: tf.cos(x) + tf.constant([1.0, 9.0]),
        ],
    )


def loop(tf, x):
    return tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, tf.sin(y) + 0.5), (0, x))[1]


def branch_in_nested_loops(tf, x):
    def inner(j, z):
        return j + 1, tf.cond(
            j > 1,
            lambda: z * tf.constant([1.0, 2.0]),
            lambda: tf.sin(z) + tf.constant([0.1, 0.2]),
        )

    def outer(i, y):
        return i + 1, tf.while_loop(lambda j, _: j < 3, inner, (0, y))[1]

    return tf.while_loop(lambda i, _: i < 4, outer, (0, x))[1]


PROGRAMS = (branch, constant_branches, one_of_three, loop, branch_in_nested_loops)


@pytest.fixture(params=[True, False], ids=["functional", "switches"])
def control_flow(request, tf):
    """Control flow as functions, and as TensorFlow 1 built it."""
    before = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if request.param else tf.disable_control_flow_v2)()
    yield
    (tf.enable_control_flow_v2 if before else tf.disable_control_flow_v2)()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.usefixtures("control_flow")
def test_sessions_execute_what_native_step_stats_say(tensorflow, tf, program):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [2])
        y = program(tensorflow, x)
    feed = {x: [1.0, 2.0]}
    with adapter.Session(graph=graph) as session:
        message, ours = tf.RunMetadata(), RunMetadata()
        traced = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
        session.native_run(y, feed, options=traced, run_metadata=message)
        session.run(y, feed, options=SOFTWARE, run_metadata=ours)
    assert counted(ours) == counted(RunMetadata.FromString(message.SerializeToString()))
    assert (ours.ops.end_ns - ours.ops.start_ns).max() < 100_000_000


@pytest.mark.parametrize("level", [RunOptions.SOFTWARE_TRACE, RunOptions.FULL_TRACE])
def test_functions_show_only_the_branch_taken(tensorflow, level):
    tf = tensorflow
    function = tf.function(lambda x: branch_in_nested_loops(tf, x))
    metadata = RunMetadata()
    adapter.run(
        function, tf.constant([1.0, 2.0]), options=RunOptions(trace_level=level),
        run_metadata=metadata,
    )  # fmt: skip
    found = {}
    for (name, op), count in counted(metadata).items():
        inside = name.rsplit("/cond/", 1)
        branch_of = [b for b in ("then", "else") if f"/{b}/_" in name]
        if branch_of and op in ("Const", "Sin", "Mul", "AddV2"):
            found[branch_of[0], op] = found.get((branch_of[0], op), 0) + count
        assert inside
    assert found == {
        ("then", "Const"): 4, ("then", "Mul"): 4,
        ("else", "Const"): 8, ("else", "Sin"): 8, ("else", "AddV2"): 8,
    }  # fmt: skip


def test_a_function_whose_branches_are_constants(tensorflow):
    tf = tensorflow
    function = tf.function(lambda x: constant_branches(tf, x))
    metadata = RunMetadata()
    adapter.run(function, tf.constant([1.0, 2.0]), options=SOFTWARE, run_metadata=metadata)
    names = " ".join(metadata.ops.name)
    assert "/else/_" in names
    assert "/then/_" not in names
