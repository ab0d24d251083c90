"""How much ran at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope
from analysed_runs import CPU0, CPU1, run_of
from random_examples import examples
from stepscope.analysis import parallelism

TWO = run_of(
    ("a", "A", [], 1, 0, 0, 40, CPU0),
    ("b", "B", [], 2, 0, 10, 60, CPU1),
    ("c", "C", [], 1, 20, 80, 100, CPU0),
    names={1: "main", 2: "worker"},
)


def test_threads_and_devices_with_their_idle_time():
    result = parallelism(TWO, parts=10)
    lanes = {lane.name: lane for lane in result.rows}
    assert list(lanes) == ["main 1", "worker 2", CPU0, CPU1]
    main = lanes["main 1"]
    assert (main.ops, main.busy_ns, main.idle_waiting_ns, main.idle_nothing_ns) == (2, 60, 40, 0)
    assert main.busy == (1, 1, 1, 1, 0, 0, 0, 0, 1, 1)
    worker = lanes["worker 2"]
    # Idle until 10 while "b" itself was ready, and from 60 to 80 while "c" was.
    assert (worker.busy_ns, worker.idle_waiting_ns, worker.idle_nothing_ns) == (50, 30, 20)
    assert worker.fraction == 0.5


def test_time_by_how_many_ran_at_once():
    result = parallelism(TWO)
    assert result.length_ns == 100
    assert result.at_once == (20, 50, 30)
    assert result.average == 1.1


def test_ops_that_waited_with_what_was_in_their_way():
    waits = parallelism(TWO).waits
    assert [(w.name, w.waited_ns, w.blocked_by) for w in waits] == [("c", 60, "a"), ("b", 10, "")]


def test_a_call_and_what_runs_inside_it_are_one_at_a_time():
    run = run_of(("call", "Call", [], 1, 0, 0, 100), ("body", "Neg", [], 1, 10, 10, 90))
    assert parallelism(run).at_once == (0, 100)


def test_no_ops_and_several_runs():
    assert parallelism(stepscope.RunMetadata()).rows == ()
    with pytest.raises(ValueError, match="takes one run and was given 2"):
        parallelism([TWO, TWO])


spans = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 30), st.integers(0, 100), st.integers(0, 60)),
    min_size=1,
    max_size=30,
)


@examples(200)
@given(spans)
def test_times_add_up(rows):
    run = run_of(
        *(
            (f"n{i}", "Op", [], thread, max(0, start - wait), start, start + length)
            for i, (thread, wait, start, length) in enumerate(rows)
        )
    )
    result = parallelism(run, parts=7)
    assert sum(result.at_once) == result.length_ns
    for lane in result.rows:
        assert lane.busy_ns + lane.idle_waiting_ns + lane.idle_nothing_ns == result.length_ns
        assert min(lane.idle_waiting_ns, lane.idle_nothing_ns) >= 0
        if result.length_ns:
            filled = sum(lane.busy) * result.length_ns / 7
            assert filled == pytest.approx(lane.busy_ns, abs=0.01 * result.length_ns)
