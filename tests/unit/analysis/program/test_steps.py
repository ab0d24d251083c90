"""How long steps took, and what was different in those that took long."""

import numpy as np
import pytest

import stepscope.tf1 as tf
from analysed_runs import run_of
from stepscope import Recorder
from stepscope.analysis import steps
from stepscope.analysis.program.run_kinds import asked_for
from stepscope.metadata import Status, iter_runs

MS = 1_000_000


def run(*, step=1.0, input_ms=2.0, wait_ms=0.0, after_ms=0.0, **parts):
    """A step that takes an element, works on thread 7, waits, and ends; in milliseconds."""
    ends = [input_ms, input_ms + step]
    began = ends[1] + wait_ms
    rows = [
        ("next", "IteratorGetNext", [], 7, 0, 0, ends[0]),
        ("net/MatMul", "MatMul", ["next"], 7, ends[0], ends[0], ends[1]),
        ("net/Relu", "Relu", ["net/MatMul"], 7, ends[1], began, began + 0.1),
        ("last", "NoOp", ["net/Relu"], 7, *[began + 0.1 + after_ms] * 2, began + 0.2 + after_ms),
    ]
    rows = [(*row[:4], *(int(at * MS) for at in row[4:])) for row in rows]
    return run_of(*rows, sources=lambda: {"net/MatMul": "net.py:7"}, **parts)


def named(what, *runs):
    return [(f"run_{number + 1:06d} {what}", one) for number, one in enumerate(runs)]


def test_the_first_run_is_apart_from_the_rest():
    found = steps(named("train_step", run(step=900), *[run(step=1 + i / 100) for i in range(11)]))
    (row,) = found
    assert (row.key, row.runs, row.rest, found.runs) == ("train_step", 12, 11, 12)
    assert (row.first_ns, row.first_run) == (int(902.2 * MS), 0)
    lengths = np.array(row.lengths_ns[1:])
    assert (row.median_ns, row.worst_ns, row.worst_run) == (np.median(lengths), lengths.max(), 11)
    assert row.p90_ns == pytest.approx(np.percentile(lengths, 90))
    assert (row.trend, row.outliers, row.far, row.failed) == (0.0, (), 0, 0)
    assert sum(row.lengths_ns) == row.total_ns == found.total_ns


def test_a_single_run_has_no_rest():
    (row,) = steps(named("train_step", run()))
    assert (row.first_ns, row.median_ns, row.worst_ns, row.worst_run) == (3_200_000, 0, 0, -1)


@pytest.mark.parametrize(
    ("different", "kind", "op", "more"),
    [
        ({"input_ms": 30}, "op", "next", 28.0),
        ({"step": 21}, "op", "net/MatMul", 20.0),
        ({"wait_ms": 15}, "wait", "net/Relu", 15.0),
        ({"after_ms": 9}, "outside", "", 9.0),
    ],
)
def test_what_was_different_in_a_run_that_took_long(different, kind, op, more):
    usual = [run(step=1 + i % 3 / 10) for i in range(9)]
    (row,) = steps(named("train_step", *usual, run(**different), *usual))
    assert (row.far, row.worst_run) == (1, 9)
    (outlier,) = row.outliers
    assert (outlier.run, outlier.ns) == (9, row.worst_ns)
    cause = outlier.causes[0]
    assert (cause.kind, cause.op) == (kind, op)
    assert cause.more_ns == pytest.approx(more * MS, abs=MS)
    assert cause.line == ("net.py:7" if op == "net/MatMul" else "")


def test_a_trend_is_said_where_it_is_no_chance():
    (row,) = steps(named("s", *[run(step=1 + i / 10) for i in range(40)]))
    assert row.trend == pytest.approx(2.6 / 3.9)
    (row,) = steps(named("s", *[run(step=1 + i * 7 % 5 / 10) for i in range(40)]))
    assert row.trend == 0.0


def test_runs_that_failed_are_counted_and_not_measured():
    failed = run(step=500, status=Status("INTERNAL"))
    (row,) = steps(named("train_step", run(), run(), failed))
    assert (row.runs, row.failed, len(row.lengths_ns)) == (3, 1, 2)


def test_runs_are_named_by_what_ran_or_by_what_the_graph_was_run_for():
    init = run_of(
        ("a/Assign", "Assign", [], 7, 0, 0, 5), ("init", "NoOp", ["^a/Assign"], 7, 5, 5, 6)
    )
    train = run_of(
        ("loss", "Mean", [], 7, 0, 0, 5),
        ("_retval_loss_0_0", "_Retval", ["loss"], 7, 5, 5, 6),
        ("train_op", "NoOp", ["^loss"], 7, 6, 6, 7),
    )
    runs = [("run_000001", init), ("run_000002 Session.run", train), ("run_000003 f", train)]
    assert {row.key for row in steps(runs)} == {"run(init)", "Session.run(train_op, loss)", "f"}


def test_the_order_of_fetches_plays_no_part_in_the_name_of_a_run(tmp_path):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        mean = tf.negative(x, name="mean")
        other = tf.square(x, name="b/other")
        train = tf.group(tf.abs(x, name="inner"), name="zz_train")
    with Recorder(tmp_path, budget="off") as recorder, tf.Session(graph=graph) as session:
        for fetches in ([other, train, mean], {"a": mean, "b": [train, other]}):
            session.run(fetches, {x: 1.0})
    name = "Session.run(zz_train, b/other, mean)"
    assert {one.kind: one.runs for one in recorder.summary().summaries} == {name: 2}
    assert [(row.key, row.runs) for row in steps(list(iter_runs(recorder.file)))] == [(name, 2)]


def test_of_many_fetches_some_are_named():
    names = [f"out_{i}" for i in range(5)]
    assert asked_for(names, ["Neg"] * 5, [f"{name} = Neg()" for name in names]) == (
        "out_0, out_1, out_2 and 2 more"
    )


def test_eager_code_is_as_long_as_its_ops_ran():
    apart = run_of(("A", "A", [], 7, 0, 0, 10), ("B", "B", [], 7, 0, 1000, 1020))
    (row,) = steps([("run_000001 eager code", apart)])
    assert row.first_ns == 30
