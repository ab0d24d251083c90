"""What noting a run costs where it stands is what a lull is charged."""

from __future__ import annotations

import doctest
import gc
import math
import weakref

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf1
from stepscope.metadata.stored.step_summaries import Level
from stepscope.recorder import crowding
from stepscope.recorder.budget import Budget
from stepscope.recorder.controller import Controller, Lull
from stepscope.recorder.keeping import Keep, Keeper
from stepscope.recorder.kept_runs import KeptRuns
from stepscope.recorder.lanes import RunLane
from stepscope.store import Store

AROUND_NS = 40_000
"""Far more than noting costs in a loop of its own."""


@pytest.fixture
def runs(tmp_path):
    keeper = Keeper(Keep(), memory=1 << 20, disk=1 << 20)
    with Store(tmp_path) as store:
        runs = KeptRuns(store, Controller(Budget(0.01), keeper))
        yield runs
        runs.close()


def lull(level: Level) -> Lull:
    return Lull(level, 10**12, 1000, math.inf, math.inf)


@pytest.mark.parametrize("level", [Level.LENGTH, Level.COUNT])
def test_runs_of_a_lull_are_charged_what_those_cost_that_were_timed(runs, level):
    runs.ended(runs.begins("train"))
    lane = runs.lane("train")
    lane.open(lull(level), runs.clock())
    for number in range(100):
        began = lane.begins()
        assert lane.to_time == (number < 7)
        lane.ended(began, "embedded")
        if number < 7:
            lane.timed(AROUND_NS * 100 if number == 1 else AROUND_NS)  # one was held up
            lane.to_time = number < 6
    before = runs.control.budget.spent_ns
    assert runs.unwritten_ns >= 0  # adds up what was noted
    assert runs.control.budget.spent_ns - before >= 100 * AROUND_NS
    assert runs.control.budget.spent_ns - before < 200 * AROUND_NS


def test_one_run_that_was_held_up_does_not_end_the_noting_of_lengths(runs):
    lane = runs.lane("train")
    lane.open(lull(Level.LENGTH), runs.clock())
    lane.timed(10_000_000)
    assert lane.cost_ns(Level.LENGTH, 1_000) == 30_000
    for _ in range(8):
        lane.timed(50_000)
    assert lane.cost_ns(Level.LENGTH, 1_000) == 1.25 * 50_000


def test_a_run_that_is_told_of_does_not_say_what_noting_one_costs(runs):
    runs.ended(runs.begins("train"))
    lane = runs.lane("train")
    lane.open(Lull(Level.LENGTH, 10**12, 0, 0.0, math.inf), runs.clock())
    lane.ended(lane.begins(), "embedded")  # longer than nothing: it is told of
    lane.timed(200_000)
    assert lane.cost_ns(Level.LENGTH, 1e12) == 1e12
    lane.open(lull(Level.LENGTH), runs.clock())
    lane.ended(lane.begins(), "embedded")
    lane.timed(8_000)
    assert lane.cost_ns(Level.LENGTH, 1e12) == 1.25 * 8_000


def test_after_a_run_that_was_recorded_the_next_is_decided_on(runs):
    runs.ended(runs.begins("train"))
    lane = runs.lane("train")
    lane.open(lull(Level.COUNT), runs.clock())
    assert lane.begins()
    runs.control.budget.credit = 1e12
    runs.control.budget.share = math.inf
    assert runs.begins("train").level is Level.DETAIL
    assert not lane.begins()


def test_on_a_crowded_machine_the_processors_time_counts_for_more(tmp_path):
    keeper = Keeper(Keep(), memory=1 << 20, disk=1 << 20)
    with Store(tmp_path) as store:
        runs = KeptRuns(store, Controller(Budget(0.01), keeper), crowding=lambda _now: 20.0)
        runs.ended(runs.begins("train"))
        lane = runs.lane("train")
        lane.open(lull(Level.LENGTH), runs.clock())
        for _ in range(100):
            lane.ended(lane.begins(), "embedded")
            lane.timed(AROUND_NS)
        before = runs.control.budget.spent_ns
        assert runs.unwritten_ns >= 0  # adds up what was noted
        assert runs.control.budget.spent_ns - before >= 20 * 100 * AROUND_NS
        runs.close()


def test_the_worked_example():
    assert doctest.testmod(crowding).failed == 0


def test_where_the_system_tells_nothing_nothing_is_crowded():
    assert crowding.Crowding(lambda: None)(0) == 1.0


def test_what_the_store_made_the_program_wait_is_charged(runs):
    runs.ended(runs.begins("train"))
    before = runs.control.budget.spent_ns
    runs._store.waited_ns += 3_000_000_000
    for _ in range(2):
        runs.ended(runs.begins("train"))
    assert 3_000_000_000 <= runs.control.budget.spent_ns - before < 6_000_000_000


def test_the_embedded_engine_times_what_it_does_in_lulls(tmp_path):
    with tf1.Graph().as_default(), stepscope.Recorder(tmp_path, budget="0.001%") as recorder:
        total = tf1.reduce_sum(tf1.constant(np.ones(8, np.float32)))
        with tf1.Session() as session:
            for _ in range(200):
                session.run(total)
        (lane,) = recorder._runs._lanes.values()
    assert any(lane.cost_ns(level, 1e12) < 1e12 for level in (Level.COUNT, Level.LENGTH))


@pytest.fixture
def total():
    """A session, and a fetch of it."""
    with tf1.Graph().as_default():
        fetch = tf1.reduce_sum(tf1.constant(np.ones(8, np.float32)))
        with tf1.Session() as session:
            yield lambda: session.run(fetch)


def test_a_session_keeps_nothing_of_a_recorder_that_is_over(tmp_path, total):
    with stepscope.Recorder(tmp_path, budget="0.001%") as recorder:
        for _ in range(50):
            total()
        gone = weakref.ref(recorder._runs)
    del recorder
    total()
    gc.collect()
    assert gone() is None


def test_two_recorders_count_the_same_runs(tmp_path, total):
    with stepscope.Recorder(tmp_path / "a", budget="0.001%") as first:
        for _ in range(50):
            total()
        with stepscope.Recorder(tmp_path / "b", budget="0.001%") as second:
            for _ in range(50):
                total()
        for _ in range(50):
            total()
    assert [one.runs for one in first.summary().summaries] == [150]
    assert [one.runs for one in second.summary().summaries] == [50]


def test_a_recorder_that_raises_in_a_lull_is_dropped_and_the_run_goes_on(
    tmp_path, total, monkeypatch
):
    with stepscope.Recorder(tmp_path, budget="0.001%"):
        for _ in range(50):
            total()

        def broken(*_: object) -> None:
            raise ValueError("broken")

        monkeypatch.setattr(RunLane, "ended", broken)
        with pytest.warns(RuntimeWarning, match="raised ValueError: broken; it sees no more runs"):
            assert total() == 8
        assert total() == 8
