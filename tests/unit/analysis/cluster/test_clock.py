"""Clocks moved by known amounts are found within the stated error, and order is restored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope
from random_examples import examples
from simulated_cluster import (
    BEGIN,
    MS,
    SECOND,
    Clock,
    Rows,
    all_reduce_step,
    jittered,
    parameter_server_step,
)
from stepscope.analysis import clocks, steps
from stepscope.analysis.cluster.clock_bounds import hull, solve
from stepscope.analysis.cluster.messages import traffic
from stepscope.web.recordings import Recordings
from stepscope.web.run_sources import FilesSource

MOVED = {
    "+5 s": Clock(5 * SECOND),
    "-5 s": Clock(-5 * SECOND),
    "drifting 100 us/s": Clock(0, 100.0),
    "-5 s and drifting": Clock(-5 * SECOND, -100.0),
}


def training(moved: dict[str, Clock], seed: int, *, steps: int = 40, workers: int = 2):
    """Steps of about a quarter of a second, with delays of 0.1 to 2 ms."""
    begin = BEGIN
    for step in range(steps):
        rows, end = parameter_server_step(
            begin,
            workers,
            moved,
            work=jittered(seed * 1000 + step, 3 * MS, 9 * MS),
            delay=jittered(seed * 2000 + step, MS // 10, 2 * MS),
        )
        yield rows, step
        begin = end + 250 * MS


def runs_of(steps):
    return [rows.metadata(step) for rows, step in steps]


def difference(found, task: str, true: int) -> float:
    """The estimated difference of a task's clock from the first's, where the first is true."""
    row = next(row for row in found.rows if row.task == task)
    return row.offset_ns + row.drift_ppm * 1e-6 * (true - found.base_ns)


@pytest.mark.parametrize("moved", MOVED)
def test_moved_clocks_are_found_within_the_stated_error(moved):
    within = 0
    for seed in range(20):
        steps = list(training({"worker:1": MOVED[moved]}, seed))
        found = clocks(runs_of(steps))
        row = found.rows[2]
        assert (row.task, row.found) == ("worker:1", "measured")
        assert row.error_ns < 2 * MS
        ends = (BEGIN, max(end for rows, _ in steps for *_, end in rows.sent))
        within += all(
            abs(difference(found, "worker:1", true) - MOVED[moved].difference(true)) <= row.error_ns
            for true in ends
        )
        drift = abs(row.drift_ppm - MOVED[moved].ppm)
        assert drift <= row.drift_error_ppm
    assert within >= 19


@pytest.mark.parametrize("moved", MOVED)
def test_after_correction_no_message_arrives_before_it_was_sent(moved):
    steps = list(training({"ps:0": Clock(SECOND, 30.0), "worker:1": MOVED[moved]}, 7))
    runs = runs_of(steps)
    before = [m.received_ns - m.sent_ns for run in runs for m in traffic(run.ops).messages]
    assert min(before) < 0
    after = [
        message.received_ns - message.sent_ns
        for run in clocks(runs).apply(runs)
        for message in traffic(run.metadata.ops).messages
    ]
    assert len(after) == len(before) == 40 * 4
    assert min(after) >= 0


def test_collectives_alone_relate_clocks_to_the_exchange_even_with_a_straggler():
    moved = {"worker:2": Clock(-5 * SECOND, 100.0)}
    late = {"worker:2": 60 * MS}
    begin, runs = BEGIN, []
    for step in range(30):
        rows, end = all_reduce_step(
            begin, 3, moved, work=lambda task: late.get(task, 5 * MS), exchange=MS,
            skew=jittered(step, 0, MS // 2),
        )  # fmt: skip
        runs.append(rows.metadata(step))
        begin = end + 300 * MS
    found = clocks(runs)
    assert found.reference == "worker:0"
    assert [row.found for row in found.rows] == ["reference", "measured", "measured"]
    assert found.rows[2].error_ns < 2 * MS
    for true in (BEGIN, begin):
        error = difference(found, "worker:2", true) - moved["worker:2"].difference(true)
        assert abs(error) <= found.rows[2].error_ns


def test_a_broadcast_says_only_that_nobody_has_it_before_it_was_sent():
    rows = Rows({"worker:1": Clock(-SECOND)})
    rows.op("worker:0", "CollectiveBcastSend", "CollectiveBcastSend", BEGIN, BEGIN + MS)
    for task, end in (("worker:1", 40 * MS), ("worker:2", 2 * MS)):
        rows.op(task, "CollectiveBcastRecv", "CollectiveBcastRecv", BEGIN, BEGIN + end)
    found = clocks(rows.metadata())
    assert [row.found for row in found.rows] == ["reference", "one-sided", "one-sided"]
    assert found.rows[1].offset_ns == pytest.approx(-SECOND + 40 * MS, abs=MS)
    assert found.rows[2].offset_ns == 0


def test_a_task_that_nothing_constrains_is_said_and_left_alone():
    rows, _ = parameter_server_step(BEGIN, 1, {"worker:9": Clock(SECOND)})
    rows.op("worker:9", "alone", "MatMul", BEGIN, BEGIN + MS)
    run = rows.metadata()
    found = clocks(run)
    assert found.unconstrained == ("worker:9",)
    row = found.rows[-1]
    assert (row.offset_ns, row.error_ns, row.constraints) == (0, None, 0)
    (corrected,) = found.apply(run)
    assert corrected.metadata.ops.start_ns.max() == BEGIN + SECOND


def test_messages_one_way_only_ask_for_the_least_correction():
    rows, _ = parameter_server_step(BEGIN, 1, {"worker:0": Clock(-5 * SECOND)})
    only_read = rows.metadata().ops[[0, 1, 2, 3, 4]]
    run = stepscope.RunMetadata()
    run.record(stepscope.metadata.Recording(engine="simulated", ops=lambda: only_read))
    row = clocks(run).rows[1]
    assert (row.found, row.error_ns) == ("one-sided", None)
    assert -5 * SECOND < row.offset_ns < -5 * SECOND + MS


def test_a_clock_that_was_set_in_the_middle_is_called_contradictory():
    runs = [
        parameter_server_step(BEGIN + i * SECOND, 1, {"worker:0": Clock(i // 5 * 40 * MS)})[0]
        for i in range(10)
    ]
    row = clocks([rows.metadata(step) for step, rows in enumerate(runs)]).rows[1]
    assert row.found == "contradictory"
    assert row.error_ns > 5 * MS


def test_tasks_are_related_through_others_and_errors_add_up():
    moved = {"worker:0": Clock(), "worker:1": Clock(-2 * SECOND), "z_server:0": Clock(3 * SECOND)}
    runs = [
        parameter_server_step(BEGIN + i * SECOND, 2, moved, server="z_server:0")[0].metadata(i)
        for i in range(5)
    ]
    found = clocks(runs)
    assert [row.task for row in found.rows] == list(moved)
    reference, other, server = found.rows
    assert reference.found == "reference"
    for row in (other, server):
        assert abs(row.offset_ns - moved[row.task].offset_ns) <= row.error_ns
    assert other.error_ns > server.error_ns


def test_one_task_needs_no_correction():
    rows, _ = parameter_server_step(BEGIN, 1)
    run = rows.metadata()
    only = run.ops[[0, 1]]
    run.record(stepscope.metadata.Recording(engine="simulated", ops=lambda: only))
    found = clocks(run)
    assert [row.found for row in found.rows] == ["reference"]
    assert found.correct(run) is run
    assert clocks([]).rows == ()


lines = st.tuples(st.integers(-(10**10), 10**10), st.floats(-2e-4, 2e-4))
places = st.lists(st.tuples(st.integers(0, 10**11), st.integers(0, 10**7)), min_size=1)


@examples(150)
@given(line=lines, upper=places, lower=places)
def test_the_true_line_is_always_within_the_bounds(line, upper, lower):
    offset, drift = line

    def at(x: int) -> float:
        return offset + drift * x

    above = [(BEGIN + x, round(at(x)) + 1 + gap) for x, gap in upper]
    below = [(BEGIN + x, round(at(x)) - 1 - gap) for x, gap in lower]
    bounds = solve(above, below)
    assert bounds.slack_ns == 0
    for end, low, estimate, high in zip(
        (bounds.start, bounds.end), bounds.lowest, bounds.estimate, bounds.highest, strict=True
    ):
        true = at(end - BEGIN)
        assert low - 1 <= true <= high + 1
        assert abs(estimate - true) <= bounds.error_ns + 1
    span = max(bounds.end - bounds.start, 1)
    first, last = bounds.estimate
    for points, sign in ((above, 1), (below, -1)):
        for x, bound in points:
            value = first + (last - first) * (x - bounds.start) / span
            assert sign * (bound - value) >= -1


@given(points=st.lists(st.tuples(st.integers(-100, 100), st.integers(-100, 100)), min_size=1))
def test_a_hull_bounds_as_its_points_do(points):
    kept = hull(points, 1)
    assert set(kept) <= set(points)
    assert hull(kept, 1) == kept
    for slope in range(-5, 6):
        tightest = min(bound - slope * x for x, bound in points)
        assert min(bound - slope * x for x, bound in kept) == tightest


def test_what_limits_a_cluster_is_found_by_one_clock(tmp_path, said):
    runs = runs_of(training({"worker:1": Clock(5 * SECOND)}, 3, steps=12))
    for number, run in enumerate(runs):
        run.save(tmp_path / f"run_{number:06}" / "run_metadata.pb")
    as_they_are = runs_of(training({}, 3, steps=12))
    wanted = steps(as_they_are).rows[0].median_ns
    assert steps(runs).rows[0].median_ns > 5 * SECOND
    assert said("steps", tmp_path)["rows"][0]["median_ns"] == pytest.approx(wanted, abs=3 * MS)
    found = said("info", tmp_path)["verdict"]["rows"][0]["step"]
    assert found["median_ns"] == pytest.approx(wanted, abs=3 * MS)
    survey = Recordings(FilesSource([tmp_path])).survey
    assert survey.verdict.rows[0].step.median_ns == found["median_ns"]
