"""Workers that recorded into directories of their own, joined by step and task."""

from __future__ import annotations

import gc
import json
import tracemalloc

import pytest

from simulated_cluster import BEGIN, MS, SECOND, Clock, all_reduce_step, parameter_server_step
from stepscope.analysis import WorkerRuns, clocks, critical_path, network, workers_at
from stepscope.analysis.cluster.workers import SERVED
from stepscope.metadata import OpColumns, Recording, RunMetadata

TASKS = ("ps:0", "worker:0", "worker:1")


def directory_of(root, task):
    return root / task.replace(":", "_")


def write(root, task, number, metadata):
    place = directory_of(root, task) / f"run_{number:06d}"
    place.mkdir(parents=True)
    metadata.save(place / "run_metadata.pb")


def describe(root, task, **more):
    directory_of(root, task).mkdir(parents=True, exist_ok=True)
    (directory_of(root, task) / "worker.json").write_text(json.dumps({"task": task, **more}))


def record(root, steps=5, tasks=TASKS, more=0, **options):
    """Every task's rows of each step in a file of its own."""
    for step in range(steps):
        rows, _ = parameter_server_step(
            BEGIN + step * SECOND, len(tasks) - 1, {"worker:1": Clock(-5 * SECOND)}, **options
        )
        for task in tasks:
            for number in range(more):
                rows.op(task, f"more_{number}", "Relu", BEGIN, BEGIN + 10, "x")
            write(root, task, step + 1, rows.metadata(step, only=task))


def local(metadata):
    """The run as a process that knows nothing of its cluster records it."""
    ops = metadata.ops
    renamed = OpColumns.build(
        name=ops.names, op=ops.ops, label=ops.labels, thread=ops.thread, step=0,
        device=["/job:localhost/replica:0/task:0/device:CPU:0"] * len(ops),
        scheduled_ns=ops.scheduled_ns, start_ns=ops.start_ns, end_ns=ops.end_ns,
    )  # fmt: skip
    run = RunMetadata()
    run.record(Recording(engine="simulated", ops=lambda: renamed))
    return run


def test_steps_hold_the_rows_of_all_workers_and_answer_as_one_run(tmp_path):
    record(tmp_path)
    runs = WorkerRuns(workers_at(*(directory_of(tmp_path, task) for task in TASKS)))
    steps = list(runs())
    assert [run.name for run in steps] == [f"step {number}" for number in range(5)]
    whole, _ = parameter_server_step(BEGIN, 2, {"worker:1": Clock(-5 * SECOND)})
    first = steps[0].metadata.ops
    assert sorted(first.name) == sorted(whole.metadata().ops.name)
    assert len(set(first.thread.tolist())) == 3
    assert runs.missing() == []

    found = network(runs, "pair")
    assert (found.transfers, found.unmatched, found.steps) == (20, 0, 5)
    assert found.tasks == TASKS
    assert found.clocks.rows[2].offset_ns == pytest.approx(-5 * SECOND, abs=MS)
    assert found.bytes == 20 * 4096
    (step, *_) = found.clocks.apply(runs())
    assert critical_path(step.metadata).names[-2:] == ("add", "w/assign")


def test_a_directory_of_workers_is_all_of_them_in_the_order_of_their_tasks(tmp_path):
    for number in (10, 2, 0):
        describe(tmp_path, f"worker:{number}")
    assert [worker.task for worker in workers_at(tmp_path)] == ["worker:0", "worker:2", "worker:10"]


def test_a_worker_file_tells_the_task_where_devices_do_not(tmp_path):
    for step in range(3):
        rows, _ = all_reduce_step(BEGIN + step * SECOND, 2, {"worker:1": Clock(SECOND)})
        for task in ("worker:0", "worker:1"):
            write(tmp_path, task, step + 1, local(rows.metadata(only=task)))
            describe(tmp_path, task, ended=True)
    runs = WorkerRuns(workers_at(tmp_path))
    found = clocks(runs())
    assert [row.task for row in found.rows] == ["worker:0", "worker:1"]
    assert found.rows[1].offset_ns == pytest.approx(SECOND, abs=MS)
    assert [name for name, _ in runs.named()] == ["worker:0", "worker:1"]


def test_directories_without_a_worker_file_are_tasks_of_their_names(tmp_path):
    rows, _ = all_reduce_step(BEGIN, 2)
    for name, task in (("left", "worker:0"), ("right", "worker:1")):
        write(tmp_path, name, 1, local(rows.metadata(only=task)))
    (step,) = WorkerRuns(workers_at(tmp_path / "left", tmp_path / "right"))()
    assert set(step.metadata.ops.device) == {
        "/job:left/replica:0/task:0/device:CPU:0", "/job:right/replica:0/task:0/device:CPU:0",
    }  # fmt: skip


def test_runs_that_talk_to_nobody_stand_alone_and_do_not_shift_the_steps(tmp_path):
    record(tmp_path, steps=2)
    rows, _ = parameter_server_step(BEGIN - SECOND, 1)
    alone = rows.metadata(only="worker:0").ops[[0]]
    initial = RunMetadata()
    initial.record(Recording(engine="simulated", ops=lambda: alone))
    write(tmp_path, "worker:0", 0, initial)
    runs = WorkerRuns(workers_at(*(directory_of(tmp_path, task) for task in TASKS)))
    assert [run.name for run in runs()] == ["worker:0 run_000000", "step 0", "step 1"]
    assert network(runs).unmatched == 0


def test_rows_of_no_task_belong_to_the_worker_that_recorded_them(tmp_path):
    """As of mirrored workers: functions on the task's device, the rest on the process's own."""
    for step in range(3):
        rows, _ = all_reduce_step(BEGIN + step * SECOND, 2, {"worker:1": Clock(SECOND)})
        for task in ("worker:0", "worker:1"):
            rows.op(
                "localhost:0", "eager", "NoOp", BEGIN + step * SECOND, BEGIN + step * SECOND + 9
            )
            own = rows.metadata(step, only=task).ops
            devices = ["/job:localhost/replica:0/task:0/device:CPU:0", *own.device[1:]]
            mixed = OpColumns.build(
                name=own.names, op=own.ops, label=own.labels, thread=own.thread, device=devices,
                scheduled_ns=own.scheduled_ns, start_ns=own.start_ns, end_ns=own.end_ns,
            )  # fmt: skip
            run = RunMetadata()
            run.record(Recording(engine="simulated", ops=lambda ops=mixed: ops))
            write(tmp_path, task, step + 1, run)
            describe(tmp_path, task)
    found = network(WorkerRuns(workers_at(tmp_path)))
    assert (found.tasks, found.steps, found.collectives) == (("worker:0", "worker:1"), 3, 3)
    assert found.clocks.reference == "worker:0"
    assert found.clocks.rows[1].offset_ns == pytest.approx(SECOND, abs=5 * MS)


def test_a_run_that_holds_a_whole_cluster_is_a_step_already(tmp_path):
    for number in range(2):
        rows, _ = parameter_server_step(BEGIN + number * SECOND, 2)
        write(tmp_path, f"session {number}", 1, rows.metadata())
    runs = WorkerRuns(workers_at(tmp_path / "session 0", tmp_path / "session 1"))
    assert len(list(runs())) == 2
    assert network(runs).transfers == 8
    assert runs.missing() == []


def test_what_a_killed_worker_did_until_then_is_there_and_the_rest_is_said(tmp_path):
    record(tmp_path, steps=4)
    cluster = [*TASKS, "worker:2"]
    for task in TASKS:
        describe(tmp_path, task, cluster=cluster, ended=task != "worker:1")
    last = directory_of(tmp_path, "worker:1") / "run_000004"
    (last / "run_metadata.pb").unlink()
    third = directory_of(tmp_path, "worker:1") / "run_000003" / "run_metadata.pb"
    third.write_bytes(b"")

    runs = WorkerRuns(workers_at(tmp_path))
    steps = [run for run in runs() if run.name.startswith("step")]
    assert [len(set(run.metadata.ops.device)) for run in steps] == [3, 3, 2, 2]
    assert steps[3].metadata.completeness.losses[-1].reason == "worker:1 has no run for this step"
    said = [f"{task}: {what}" for task, what in runs.missing()]
    assert len(said) == 4
    assert "worker:1: run_000003: " in said[0]
    assert "the file is empty" in said[0]
    assert said[1] == "worker:1: 2 of 4 steps: it has runs of 2"
    assert "killed, or is still running" in said[2]
    assert said[3].startswith("worker:2: everything")


def test_calls_that_servers_took_part_in_are_joined_by_their_number(tmp_path):
    """Two workers by turns call a server, which has twice as many runs; one of them ends early."""
    for call in range(12):
        rows, _ = parameter_server_step(
            BEGIN + call * SECOND, 1, {"ps:0": Clock(3 * SECOND)}, server="ps:0"
        )
        worker = f"worker:{call % 2}"
        parts = {"ps:0": rows.metadata(only="ps:0").ops, worker: rows.metadata(only="worker:0").ops}
        if call > 8:
            del parts["worker:1" if worker == "worker:1" else "ps:0"]
        for task, ops in parts.items():
            run = RunMetadata()
            run.record(Recording(engine=SERVED, step_id=77 - 5 * call, ops=lambda ops=ops: ops))
            write(tmp_path, task, call, run)
    for task in TASKS:
        describe(tmp_path, task, ended=True)
    runs = WorkerRuns(workers_at(tmp_path))
    steps = list(runs())
    assert sorted(len(run.metadata.ops) for run in steps) == [3, 5, 5, *[8] * 9]
    assert runs.missing() == []
    found = network(runs, "pair")
    assert (found.transfers, found.unmatched) == (9 * 2 + 3, 3)


def test_memory_grows_with_the_ops_of_a_step_alone(tmp_path):
    more = 100

    def peak(name, workers, steps):
        tasks = ("ps:0", *(f"worker:{number}" for number in range(workers)))
        record(tmp_path / name, steps, tasks, more)
        for task in tasks:
            describe(tmp_path / name, task)
        # When cycles are collected is not to depend on what other tests left behind.
        gc.collect()
        gc.freeze()
        tracemalloc.start()
        for _ in WorkerRuns(workers_at(tmp_path / name))():
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        gc.unfreeze()
        return most

    # All that is met later on: what is kept by op across runs (of a bounded number of them) grows
    # in leaps, at a time that depends on how many were met before.
    peak("warm", 10, 2)
    few = peak("few", 4, 3)
    assert peak("long", 4, 9) < 1.25 * few
    assert (peak("wide", 10, 3) - few) / (6 * more) < 900
