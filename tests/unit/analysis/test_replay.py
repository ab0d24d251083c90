"""Replaying a recorded run: as it was, and with something changed."""

import doctest

import pytest

from analysed_runs import T0, run_of
from stepscope.analysis.replay import (
    ANY,
    Change,
    Work,
    WorkReader,
    ends,
    foretold,
    modelled,
    modelled_ns,
    of_gains,
    own_error,
    predict,
    replay,
    replay_error,
    serving_only,
)
from stepscope.metadata.program_notes import CallTime


def recorded(*rows, call=None, **parts):
    """Rows of (name, type, inputs, thread, start, end)."""
    full = [(name, kind, inputs, lane, at, at, end) for name, kind, inputs, lane, at, end in rows]
    return run_of(*full, call=call and CallTime(T0 + call[0], T0 + call[1], 7), **parts)


TWO_THREADS = (
    ("x", "Const", [], 7, 0, 1), ("left", "Tanh", ["x"], 7, 2, 12),
    ("right", "Exp", ["x"], 8, 4, 24), ("sum", "Add", ["left", "right"], 8, 25, 30),
)  # fmt: skip


def test_a_run_on_two_threads_is_as_long_as_it_was():
    assert WorkReader().read(recorded(*TWO_THREADS, call=(-10, 35))).replayed_ns() == 45


def test_a_run_is_foretold_by_the_others():
    def slower(by):
        rows = [(name, kind, reads, lane, at + (by if name == "sum" else 0),
                 end + (by if name == "sum" else 0))
                for name, kind, reads, lane, at, end in TWO_THREADS]  # fmt: skip
        return recorded(*rows, call=(-10, 35 + by))

    runs = [slower(by) for by in (0, 6, 12)]
    rows = replay(runs).rows
    assert [row.recorded_ns for row in rows] == [45, 51, 57]
    # `sum` is handed over in 1, 7 or 13 ns: of each run the mean of what the others took.
    assert [row.replayed_ns for row in rows] == [54, 51, 48]
    assert [row.error for row in rows] == [pytest.approx(9 / 45), 0, pytest.approx(9 / 57)]
    assert replay_error([WorkReader().read(run) for run in runs]) == pytest.approx(9 / 57)


def test_of_a_run_alone_no_delay_is_known():
    # 10 ns before the first op, 5 after the last, 1 from `right` to `sum`, 3 before `right`.
    (row,) = replay(recorded(*TWO_THREADS, call=(-10, 35))).rows
    assert (row.recorded_ns, row.replayed_ns) == (45, 26)
    assert row.error == pytest.approx(1 - 26 / 45)


def test_an_op_that_a_thread_was_woken_for_is_told_by_such():
    def run(lane, at):
        return recorded(("a", "Tanh", [], 7, 0, 10), ("b", "Neg", ["a"], lane, at, at + 10))

    # On the thread of `a` it began at once, on the other after 5 ns; the last one is of the second.
    rows = replay([run(7, 10), run(7, 10), run(8, 15), run(8, 15)]).rows
    assert [row.replayed_ns for row in rows] == [20, 20, 25, 25]


def test_runs_of_other_nodes_tell_nothing():
    other = recorded(("x", "Tanh", [], 7, 0, 10), ("y", "Neg", ["x"], 7, 90, 95))
    rows = replay([recorded(*TWO_THREADS), recorded(*TWO_THREADS), other]).rows
    assert [row.replayed_ns for row in rows] == [30, 30, 15]


@pytest.mark.parametrize(
    ("change", "length"),
    [
        (Change(times={"right": 0.5}), 35),
        (Change(times={"right": 0.1}), 33),  # then the other branch is the longer one
        (Change(times={"left": 0.0}), 45),  # it was not on the path
        (Change(without=frozenset({"right"})), 33),
        (Change(cut=frozenset({("right", "sum")})), 45),  # its thread is taken all the same
        (Change(around=0.0), 30),
    ],
)
def test_what_a_change_gains_depends_on_the_path(change, length):
    work = WorkReader().read(recorded(*TWO_THREADS, call=(-10, 35)))
    assert change.replayed_ns(work) == pytest.approx(length)


def test_independent_ops_run_side_by_side_on_more_threads():
    rows = [(f"op{i}", "Tanh", [], 7, 10 * i, 10 * i + 10) for i in range(4)]
    work = WorkReader().read(recorded(*rows))
    assert work.replayed_ns() == 40
    assert [Change(threads=n).replayed_ns(work) for n in (1, 2, 3, 4)] == [40, 20, 20, 10]


def test_an_op_that_waits_takes_no_thread():
    run = recorded(
        ("next", "IteratorGetNext", [], 7, 0, 50), ("other", "Tanh", [], 7, 5, 15),
        ("use", "Neg", ["next"], 7, 51, 60),
    )  # fmt: skip
    work = WorkReader().read(run)
    assert work.replayed_ns() == 60
    assert Change(times={"next": 0.1}).replayed_ns(work) == pytest.approx(25)


def test_a_receive_waits_for_its_send_and_not_from_its_own_beginning_on():
    run = recorded(
        ("a", "Tanh", [], 7, 0, 20), ("a/_1", "_Recv", [], 8, 1, 24),
        ("a/_0", "_Send", ["a"], 7, 21, 26), ("b", "Neg", ["a/_1"], 8, 25, 35),
    )  # fmt: skip
    work = WorkReader().read(run)
    assert work.replayed_ns() == 35
    assert Change(times={"a": 0.5}).replayed_ns(work) == 25
    assert Change(without=frozenset({"a/_0", "a/_1"})).replayed_ns(work) == pytest.approx(31, abs=1)


def test_a_call_is_over_when_its_ops_are():
    run = recorded(
        ("f", "StatefulPartitionedCall", [], 7, 0, 40), ("f/slow", "Tanh", [], 7, 2, 30),
        ("f/last", "Neg", ["f/slow"], 7, 31, 38), ("after", "Exp", ["f"], 7, 41, 50),
    )  # fmt: skip
    work = WorkReader().read(run)
    assert work.replayed_ns() == 50
    assert Change(times={"f/slow": 0.0}).replayed_ns(work) == 22


def test_nodes_that_ran_several_times_keep_their_order():
    rows = []
    for turn in range(3):
        at = 20 * turn
        rows += [
            ("body", "Tanh", ["next"], 7, at, at + 10),
            ("next", "Neg", ["body"], 7, at + 11, at + 19),
        ]
    work = WorkReader().read(recorded(*rows))
    assert work.replayed_ns() == 59
    assert Change(times={"body": 0.5}).replayed_ns(work) == 44


def test_ops_that_wait_for_each_other_are_an_error():
    with pytest.raises(ValueError, match="2 of 2 ops wait for each other"):
        ends(Work([1, 1], [0, 0], [[1], [0]], [0, 0]))


def test_a_thread_takes_its_own_op_first_if_that_comes_first():
    work = Work([5, 1, 1], [0, 0, 0], [[], [], []], [0, ANY, 0], workers=1)
    assert ends(work) == [5, 6, 7]


def test_what_serves_something_alone_ends_where_others_read():
    run = recorded(
        ("x", "Const", [], 7, 0, 1), ("hist", "HistogramSummary", ["x"], 7, 1, 2),
        ("sq", "Square", ["x"], 7, 2, 3), ("merged", "MergeSummary", ["hist", "sq"], 7, 3, 4),
        ("w", "AssignSub", ["x"], 7, 4, 5),
    )  # fmt: skip
    work = WorkReader().read(run)
    alone = serving_only(work, ["merged"], frozenset({"AssignSub"}))
    assert alone == {"merged", "hist", "sq"}


def test_the_interval_grows_with_what_is_not_known():
    steady = of_gains([10.0] * 10, [20.0] * 10, 0.0)
    spread = of_gains([5.0, 15.0] * 5, [20.0] * 10, 0.0)
    drifting = of_gains([10.0] * 10, [20.0] * 5 + [30.0] * 5, 0.0)
    missed = of_gains([10.0] * 10, [20.0] * 10, 0.3)
    assert steady.gain_ns == drifting.gain_ns == 10
    assert (steady.low_ns, steady.high_ns) == (9.5, 10.5)
    for wider in (spread, drifting, missed):
        assert wider.low_ns < steady.low_ns
        assert wider.high_ns > steady.high_ns


def test_a_prediction_is_of_runs_and_of_the_replay_s_own_error():
    reader = WorkReader()
    runs = [
        reader.read(
            recorded(("a", "Tanh", [], 7, 0, end), ("b", "Neg", ["a"], 7, end + 1, end + 9))
        )
        for end in range(10, 15)
    ]
    found = predict(runs, Change(times={"a": 0.0}).replayed_ns)
    assert (found.gain_ns, found.runs, found.error) == (12, 5, 0)
    assert replay_error(runs) == 0
    half = found.between(0.5, 0.75, 1.0)
    assert half.gain_ns == 9
    assert half.low_ns < 6 < half.high_ns


def test_a_thread_that_begins_fewer_receives_gets_to_its_op_earlier():
    run = recorded(
        ("a/_1", "_Recv", [], 7, 0, 60), ("b/_1", "_Recv", [], 7, 10, 62),
        ("c/_1", "_Recv", [], 7, 20, 64), ("x", "Tanh", [], 7, 40, 50),
    )  # fmt: skip
    work = WorkReader().read(run)
    assert work.replayed_ns() == 64
    # `x` began 40 ns after the run: each of the three, and `x`, took a fourth of that.
    gone = Change(without=frozenset({"a/_1", "b/_1", "c/_1"}))
    assert gone.replayed_ns(work) == pytest.approx(20)


@pytest.mark.parametrize("module", [foretold, modelled])
def test_the_worked_examples_are_true(module):
    assert doctest.testmod(module).failed == 0


def test_by_its_own_op_times_a_run_has_one_gap_and_one_number_per_thread_to_wake():
    # Gaps of 1, 1, 1 and 7 ns on the thread of `a`; `d` and `f` had to be woken for, 20 and 30 ns.
    run = recorded(
        ("a", "Tanh", [], 7, 0, 10), ("b", "Tanh", ["a"], 7, 11, 20),
        ("c", "Tanh", ["b"], 7, 21, 30), ("e", "Tanh", ["c"], 7, 31, 40),
        ("d", "Neg", ["a"], 8, 30, 35), ("f", "Neg", ["e"], 8, 70, 80),
        ("g", "Exp", ["e"], 7, 47, 50), call=(-5, 90),
    )  # fmt: skip
    (row,) = replay(run).rows
    assert row.recorded_ns == 95
    # `e` ends after 3 gaps of 1, at 40; the other thread takes 25 to wake, and `f` 10.
    assert row.modelled_ns == 15 + 40 + 25 + 10
    assert row.model_error == pytest.approx(5 / 95)


def test_a_pause_that_no_model_knows_is_an_error_of_the_model():
    rows = [(f"op{i}", "Tanh", [f"op{i - 1}"] if i else [], 7, 11 * i, 11 * i + 10)
            for i in range(9)]  # fmt: skip
    late = [(*row[:4], row[4] + 40, row[5] + 40) if n > 4 else row for n, row in enumerate(rows)]
    works = [WorkReader().read(recorded(*some)) for some in (rows, late)]
    assert [work.replayed_ns() for work in works] == [98, 138]  # with the delays as they were
    assert [modelled_ns(work) for work in works] == [98, 98]
    assert own_error(works) == pytest.approx(20 / 138)


def test_what_a_prediction_says_of_the_model_and_of_the_others_is_apart():
    def run(gap):
        return recorded(("a", "Tanh", [], 7, 0, 10), ("b", "Neg", ["a"], 7, 10 + gap, 20 + gap))

    works = [WorkReader().read(run(gap)) for gap in (0, 0, 10, 10)]
    found = predict(works, Change(times={"a": 0.0}).replayed_ns)
    assert found.model_error == own_error(works)
    assert found.error == replay_error(works) > 0
