"""The chain of ops and waits that decided a run's length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope
import stepscope.tf1 as tf
from analysed_runs import CPU0, CPU1, T0, run_of
from random_examples import examples
from stepscope.analysis import critical_path
from stepscope.analysis.execution.edges import Edges

DIAMOND = run_of(
    ("a", "Source", [], 1, 0, 0, 10),
    ("fast", "Neg", ["a"], 1, 10, 12, 20),
    ("slow", "MatMul", ["a"], 2, 10, 15, 60),
    ("join", "Add", ["fast", "slow"], 1, 60, 61, 70),
)


def parts(path):
    return [(p.kind, p.name, p.start_ns - T0, p.end_ns - T0) for p in path.rows]


def test_a_diamond_goes_through_its_slow_side():
    path = critical_path(DIAMOND)
    assert path.names == ("a", "slow", "join")
    assert parts(path) == [
        ("executing", "a", 0, 10),
        ("scheduled", "slow", 10, 15),
        ("executing", "slow", 15, 60),
        ("scheduled", "join", 60, 61),
        ("executing", "join", 61, 70),
    ]
    assert path.length_ns == 70
    assert path.by_kind == {"executing": 64, "scheduled": 6}


def test_a_faster_op_saves_a_tenth_only_where_no_other_path_is_as_long():
    saved = {s.name: s.saved_ns for s in critical_path(DIAMOND).savings}
    assert saved == {"slow": 4, "a": 1, "join": 1}
    even = run_of(
        ("a", "Source", [], 1, 0, 0, 100),
        ("left", "Neg", ["a"], 1, 100, 100, 1100),
        ("right", "Neg", ["a"], 2, 100, 100, 1090),
        ("join", "Add", ["left", "right"], 1, 1100, 1100, 1200),
    )
    saved = {s.name: s.saved_ns for s in critical_path(even).savings}
    assert saved == {"left": 10, "a": 10, "join": 10}


def test_an_op_that_waited_for_its_thread_names_what_ran_there():
    run = run_of(
        ("long", "MatMul", [], 1, 0, 0, 100),
        ("ready", "Neg", [], 1, 5, 100, 103),
    )
    (first, wait, last) = critical_path(run).rows
    assert (first.kind, first.ns) == ("waiting", 5)
    assert (wait.kind, wait.blocked_by, wait.ns) == ("scheduled", "long", 95)
    assert (last.kind, last.name, last.ns) == ("executing", "ready", 3)


def test_on_one_thread_the_path_is_the_work_not_the_order():
    """A variable that is read late, because the thread had other things to do, decided nothing."""
    run = run_of(
        ("x", "Neg", [], 1, 0, 0, 50),
        ("y", "MatMul", ["x"], 1, 50, 50, 90),
        ("bias", "VariableV2", [], 1, 0, 90, 91),
        ("read", "Identity", ["bias"], 1, 91, 91, 93),
        ("sum", "BiasAdd", ["y", "read"], 1, 93, 93, 100),
    )
    path = critical_path(run)
    assert path.names == ("x", "y", "sum")
    assert path.by_kind == {"executing": 97, "scheduled": 3}
    (wait,) = [part for part in path.rows if part.kind == "scheduled"]
    assert (wait.name, wait.blocked_by) == ("sum", "read")


def test_eager_ops_follow_each_other_on_their_thread():
    run = run_of(
        ("MatMul", "MatMul", [], 7, 0, 0, 100),
        ("MatMul_1", "MatMul", [], 7, 110, 110, 200),
        ("beside", "Exp", [], 8, 0, 0, 150),
        ("Sum", "Sum", [], 7, 205, 205, 300),
    )
    path = critical_path(run)
    assert path.names == ("MatMul", "MatMul_1", "Sum")
    assert path.by_kind == {"executing": 285, "waiting": 15}
    saved = {s.name: s.saved_ns for s in path.savings}
    assert saved == {"MatMul": 10, "MatMul_1": 9, "Sum": 10}


def test_queues_and_transfers_are_told_apart_from_work():
    run = run_of(
        ("q", "QueueDequeueV2", [], 1, 0, 0, 50, CPU0),
        ("x/_2", "_Send", ["q"], 1, 50, 50, 52, CPU0),
        ("x/_3", "_Recv", [], 2, 0, 50, 70, CPU1),
        ("y", "Neg", ["x/_3"], 2, 70, 70, 80, CPU1),
    )
    path = critical_path(run)
    assert path.names == ("q", "x/_2", "x/_3", "y")
    assert path.by_kind == {"queue": 50, "transfer": 20, "executing": 10}
    ordered = run_of(
        ("q", "QueueDequeueV2", [], 1, 0, 0, 50, CPU0),
        ("x/_2", "_Send", ["q"], 1, 50, 50, 52, CPU0),
        ("x/_3", "_Recv", [], 2, 52, 52, 70, CPU1),
        ("y", "Neg", ["x/_3:0", "^q"], 2, 70, 70, 80, CPU1),
    )
    path = critical_path(ordered)
    assert path.names == ("q", "x/_2", "x/_3", "y")
    assert path.by_kind == {"queue": 50, "transfer": 20, "executing": 10}


def test_each_turn_of_a_loop_follows_the_one_before():
    run = run_of(
        ("next", "NextIteration", ["add"], 1, 0, 0, 1),
        ("add", "Add", ["next"], 1, 1, 1, 10),
        ("next", "NextIteration", ["add"], 1, 10, 10, 11),
        ("add", "Add", ["next"], 1, 11, 11, 20),
    )
    assert critical_path(run).names == ("next", "add", "next", "add")


def test_a_real_run_of_the_embedded_engine():
    with tf.Graph().as_default(), stepscope.Session() as session:
        x = tf.constant(np.ones((300, 300), np.float32))
        chain = x
        for _ in range(5):
            chain = tf.matmul(chain, x)
        small = tf.reduce_sum(tf.nn.relu(x))
        total = tf.reduce_sum(chain) + small
        metadata = stepscope.RunMetadata()
        session.run(total, options=stepscope.RunOptions(trace_level=3), run_metadata=metadata)
    path = critical_path(metadata)
    types = [part.op for part in path.rows if part.kind == "executing"]
    assert [op for op in types if op == "MatMul"] == ["MatMul"] * 5
    assert path.length_ns == sum(part.ns for part in path.rows)


def test_no_ops_and_several_runs():
    assert critical_path(stepscope.RunMetadata()).rows == ()
    with pytest.raises(ValueError, match="takes one run and was given 2"):
        critical_path([DIAMOND, DIAMOND])


@st.composite
def simulated_runs(draw):
    """Ops on a few threads, each begun after its inputs and after what ran on its thread."""
    count = draw(st.integers(1, 25))
    ends, free, rows = {}, {}, []
    for number in range(count):
        inputs = draw(st.lists(st.sampled_from(range(number)), max_size=3)) if number else []
        thread = draw(st.integers(1, 3))
        ready = max((ends[i] for i in inputs), default=0)
        start = max(ready, free.get(thread, 0)) + draw(st.integers(0, 5))
        end = start + draw(st.integers(0, 50))
        ends[number] = free[thread] = end
        rows.append((f"n{number}", "Op", [f"n{i}" for i in inputs], thread, ready, start, end))
    return run_of(*rows)


@examples(200)
@given(simulated_runs())
def test_the_path_is_one_of_the_graph_and_fills_the_run(run):
    path = critical_path(run)
    ops = run.ops
    longest = int((ops.end_ns - ops.start_ns).max())
    whole = int(ops.end_ns.max() - min(ops.start_ns.min(), ops.scheduled_ns.min()))
    assert longest <= path.length_ns == whole
    assert sum(part.ns for part in path.rows) == whole
    edges = Edges.of(ops)
    inputs = {ops.name[r]: {ops.name[b] for b in edges.before[r]} for r in range(len(ops))}
    for before, after in zip(path.names, path.names[1:], strict=False):
        assert before in inputs[after]
    for first, second in zip(path.rows, path.rows[1:], strict=False):
        assert first.end_ns == second.start_ns
    for saving in path.savings:
        assert 0 <= saving.saved_ns <= 0.1 * whole + 1
