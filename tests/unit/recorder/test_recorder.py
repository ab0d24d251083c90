"""`stepscope.Recorder` on the embedded engine: what is in the store afterwards."""

from __future__ import annotations

import itertools
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope import errors
from stepscope.metadata.stored.step_summaries import Level
from stepscope.recorder.controller import Lull
from stepscope.recorder.lanes import COUNTED, RunLane, ThreadTimes


@pytest.fixture
def program():
    """A session with two kinds of steps, and one that fails where it is fed a 0."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 8], name="x")
        doubled = tf.multiply(x, 2.0, name="doubled")
        tf.reduce_sum(tf.matmul(doubled, tf.ones([8, 4])), name="total")
        tf.check_numerics(1.0 / x, "not a number", name="checked")
        with tf.Session() as session:
            yield lambda what, value=1.0: session.run(
                f"{what}:0", {x: np.full([2, 8], value, np.float32)}
            )


def test_every_step_is_counted_and_some_are_kept(tmp_path, program):
    with stepscope.Recorder(tmp_path / "recorded", budget="off") as recorder:
        for _ in range(300):
            program("total")
        for _ in range(7):
            program("doubled")
    found = recorder.summary()
    steps = {summary.kind: summary for summary in found.summaries}
    assert {kind: summary.runs for kind, summary in steps.items()} == {
        "Session.run(total)": 300, "Session.run(doubled)": 7,
    }  # fmt: skip
    assert steps["Session.run(total)"].lengths.count == 300
    runs = stepscope.load(recorder.file)
    assert len(runs) == len(found.kept) < 150
    of_total = [kept for kept in found.kept if kept.kind == "Session.run(total)"]
    numbers = {reason: [k.number for k in of_total if reason in k.reasons] for reason in REASONS}
    assert numbers["first"] == [1, 2, 3]
    assert numbers["latest"] == [296, 297, 298, 299, 300]
    assert len(numbers["slowest"]) == 5
    assert len(numbers["sample"]) == 20
    assert recorder.problem is None


REASONS = ("first", "latest", "slowest", "sample")


def test_sums_are_those_of_the_runs_that_were_noted(tmp_path, program):
    with stepscope.Recorder(tmp_path, budget="off", keep={"first": 10, "sample": 100}) as recorder:
        for _ in range(25):
            program("total")
    (summary,) = recorder.summary().summaries
    # The first stand for themselves, all others for those that were not noted.
    (slow,) = [{k.number for k in recorder.summary().kept if "trigger" in k.reasons}]
    apart = slow | set(range(1, 11))
    ops = {n: run.ops for n, run in enumerate(stepscope.load(recorder.file), 1)}
    assert (summary.apart_runs, summary.noted_runs) == (len(apart), 25 - len(apart))
    for sums, runs in (
        (summary.apart, [ops[n] for n in apart]),
        (summary.ops, [ops[n] for n in ops.keys() - apart]),
    ):
        for place, (name, total) in enumerate(zip(sums.name, sums.total_ns.tolist(), strict=True)):
            rows = [(run.end_ns - run.start_ns)[run.name == name] for run in runs]
            assert total == sum(int(one.sum()) for one in rows)
            assert sums.calls[place] == sum(len(one) for one in rows)
        assert sums.batch_own_ns.sum() == sums.own_ns.sum()


def test_a_failed_run_is_kept_with_the_op_that_failed(tmp_path, program):
    with stepscope.Recorder(tmp_path) as recorder:
        for _ in range(50):
            program("checked")
        with pytest.raises(errors.InvalidArgumentError):
            program("checked", 0.0)
    (kept,) = [kept for kept in recorder.summary().kept if "failed" in kept.reasons]
    assert kept.number == 51
    assert "ended with INVALID_ARGUMENT" in kept.why
    (failed,) = [run for run in stepscope.load(recorder.file) if not run.status.ok]
    assert failed.status.code == "INVALID_ARGUMENT"


def test_each_run_says_what_was_given_up_of_it(tmp_path, program):
    with stepscope.Recorder(tmp_path, budget="1%", keep={"first": 100}) as recorder:
        for _ in range(60):
            program("total")
    level_of = {kept.number: kept.level for kept in recorder.summary().kept}
    from stepscope.metadata import iter_runs

    for run in iter_runs(recorder.file):
        level = level_of[int(run.name[4:10])]
        said = [loss.what for loss in run.metadata.completeness.losses]
        if level is Level.DETAIL:
            assert said == []
        elif level is Level.TIMES:
            assert said == ["memory and shapes"]
            assert len(run.metadata.ops)
        else:
            assert said == ["op executions"]
            assert "the budget of 1%" in run.metadata.completeness.losses[0].reason
            assert run.metadata.recorded().call.ended_ns > run.metadata.recorded().call.started_ns
    assert Level.DETAIL in level_of.values()


def test_what_was_before_is_kept_when_somebody_asks(tmp_path, program):
    with stepscope.Recorder(
        tmp_path, budget="off", keep={"first": 0, "latest": 0, "slowest": 0, "sample": 0}
    ) as recorder:
        for _ in range(5):
            program("total")
        recorder.keep("the loss is not a number")
        os.kill(os.getpid(), signal.SIGUSR2)
        for _ in range(5):
            program("total")
    found = recorder.summary()
    assert [kept.number for kept in found.kept] == [1, 2, 3, 4, 5]
    assert found.kept[0].why == "before: the loss is not a number; before: signal SIGUSR2"
    assert [why for why, _ in found.triggered] == ["the loss is not a number", "signal SIGUSR2"]
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def test_memory_over_a_bound_triggers(tmp_path, program):
    with stepscope.Recorder(tmp_path, budget="off", triggers=["memory 100 B"]) as recorder:
        program("total")
        program("doubled")
    (run, *_) = [kept for kept in recorder.summary().kept if "trigger" in kept.reasons]
    assert run.why.startswith("held ")


def test_the_store_stays_within_its_bound(tmp_path, program):
    largest = 0

    def size(file: Path) -> int:
        return file.stat().st_size if file.suffix.endswith(("stepscope", "-wal")) else 0

    with stepscope.Recorder(
        tmp_path, budget="off", disk="400 KB", keep={"first": 10_000, "sample": 0}
    ) as recorder:
        for _ in range(2000):
            program("total")
            largest = max(largest, sum(map(size, tmp_path.glob("*.stepscope*[!e]"))))
    assert max(largest, size(recorder.file)) <= 400 << 10
    found = recorder.summary()
    assert found.dropped["Session.run(total)", "first"] > 100
    assert found.summaries[0].runs == 2000
    assert {"slowest", "latest"} <= {reason for kept in found.kept for reason in kept.reasons}


def test_no_file_is_left_beside_the_store_and_no_thread(tmp_path, program):
    import threading

    before = set(threading.enumerate())
    with stepscope.Recorder(tmp_path, triggers=[f"file {tmp_path / 'now'}"]) as recorder:
        for _ in range(100):
            program("total")
        threads = set(threading.enumerate()) - before
    assert list(tmp_path.iterdir()) == [recorder.file]
    for thread in threads:
        thread.join()


def test_an_error_of_the_program_keeps_what_was_before_it(tmp_path, program):
    recorder = stepscope.Recorder(tmp_path)

    def fails():
        with recorder:
            program("total")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    (why, _) = recorder.summary().triggered[0]
    assert why == "the program raised ZeroDivisionError"


def test_a_recorder_is_entered_once(tmp_path):
    recorder = stepscope.Recorder(tmp_path)
    with pytest.raises(errors.StepscopeError, match="enter the Recorder first"):
        _ = recorder.file
    with recorder, stepscope.Graph().as_default() as graph, stepscope.Session() as session:
        session.run(graph.create_op("NoOp", [], [], name="nothing"))
    with pytest.raises(errors.StepscopeError, match="entered once"), recorder:
        pass


def test_a_directory_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "taken").write_text("")
    with (
        pytest.raises(errors.StepscopeError, match="cannot be used to record in"),
        stepscope.Recorder(Path(tmp_path, "taken")),
    ):
        pass


def test_in_a_lull_every_run_is_counted_and_what_is_slow_or_fails_is_told(tmp_path, program):
    with stepscope.Recorder(tmp_path, budget="0.001%", keep={"slowest": 0}) as recorder:
        for _ in range(3000):
            program("checked")
        with pytest.raises(errors.InvalidArgumentError):
            program("checked", 0.0)
    found = recorder.summary()
    (summary,) = found.summaries
    assert summary.runs == 3001
    assert sum(summary.at[level] for level in (Level.COUNT, Level.LENGTH)) > 2900
    (failed,) = [kept for kept in found.kept if "failed" in kept.reasons]
    assert failed.number == 3001


def test_a_lull_that_only_counts_ends_when_runs_take_far_longer_than_before():
    lane = RunLane("step", ThreadTimes(), itertools.count(1), lambda _: None, lambda _: None)
    lane.open(Lull(Level.COUNT, 10**9, 1000, math.inf, math.inf), now=1000)
    assert lane.begins() == COUNTED
    lane.expire(before=1000)
    assert lane.begins() == COUNTED
    lane.expire(before=1001)
    assert lane.begins() == 0


def test_a_hook_opens_a_recorder_with_its_loop_and_closes_it(tmp_path):
    recorder = stepscope.Recorder(tmp_path)
    with tf.Graph().as_default():
        tf.multiply(2.0, 3.0, name="product")
        from stepscope.programs.trace_hook import TraceHook

        with tf.train.MonitoredSession(hooks=[TraceHook(recorder=recorder)]) as session:
            assert recorder.is_open
            for _ in range(7):
                session.run("product:0")
    assert not recorder.is_open
    steps = {summary.kind: summary.runs for summary in recorder.summary().summaries}
    assert steps["Session.run(product)"] == 7


def test_a_hook_without_a_schedule_or_a_recorder_is_refused():
    with pytest.raises(TypeError, match=r"recorder=stepscope\.Recorder"):
        stepscope.TraceHook()
