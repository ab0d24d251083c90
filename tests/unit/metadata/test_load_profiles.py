"""`*.xplane.pb`: what TensorFlow's profiler wrote, without TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from patience import patient
from stepscope.metadata import load
from stepscope.metadata.xplane import ExecutionTrace, Space, XSpace


def space():
    """Two steps on a thread, an eager op, and a kernel on an accelerator."""
    message = XSpace()
    host = message.planes.add(name="/host:CPU")
    names = ("ExecutorState::Process", "mm:MatMul", "a/b:AddV2", "EagerLocalExecute: Relu", "other")
    for key, name in enumerate(names, 1):
        host.event_metadata[key].name = name
    host.stat_metadata[1].name = "id"
    line = host.lines.add(id=42, name="worker", timestamp_ns=5_000)
    for step in (7, 8):
        at = (step - 7) * 10_000_000
        line.events.add(metadata_id=1, offset_ps=at, duration_ps=9_000_000).stats.add(
            metadata_id=1, int64_value=step
        )
        line.events.add(metadata_id=2, offset_ps=at + 1_000_000, duration_ps=2_000_000)
        line.events.add(metadata_id=3, offset_ps=at + 4_000_000, duration_ps=1_000_000)
        line.events.add(metadata_id=5, offset_ps=at + 5_000_000, duration_ps=1_000_000)
    line.events.add(metadata_id=4, offset_ps=30_000_000, duration_ps=1_000_000)
    gpu = message.planes.add(name="/device:GPU:0")
    gpu.event_metadata[1].name = "gemm"
    gpu.stat_metadata[1].name = "tf_op"
    kernel = gpu.lines.add(id=9, name="Stream #14", timestamp_ns=5_000).events.add(metadata_id=1)
    kernel.stats.add(metadata_id=1, str_value="mm:MatMul")
    environment = message.planes.add(name="Task Environment")
    environment.stat_metadata[3].name = "profile_start_time"
    environment.stats.add(metadata_id=3, uint64_value=1_700_000_000_000_000_000)
    return message


def test_ops_with_their_steps_threads_and_the_time_of_day(tmp_path):
    (tmp_path / "vm.xplane.pb").write_bytes(space().SerializeToString())
    run = load(tmp_path / "vm.xplane.pb")
    ops = run.ops
    assert Counter(ops.op) == {"MatMul": 4, "AddV2": 2, "Relu": 1}
    host = ops[ops.thread == 42]
    assert list(host.name) == ["mm", "a/b", "mm", "a/b", "Relu"]
    assert host.step.tolist() == [7, 7, 8, 8, 0]
    assert (host.start_ns - 1_700_000_000_000_005_000).tolist() == [
        1_000, 4_000, 11_000, 14_000, 30_000,
    ]  # fmt: skip
    assert (host.end_ns - host.start_ns).tolist() == [2_000, 1_000, 2_000, 1_000, 1_000]
    assert set(host.thread_name) == {"worker"}
    assert sorted(ops[ops.thread == 9].device) == [
        "/device:GPU:0/stream:14", "/device:GPU:0/stream:all",
    ]  # fmt: skip
    assert not run.completeness.complete


def test_a_cut_profile_gives_the_planes_before_the_cut(tmp_path):
    data = space().SerializeToString()
    (tmp_path / "vm.xplane.pb").write_bytes(data[: data.index(b"gemm")])
    run = load(tmp_path / "vm.xplane.pb")
    assert set(run.ops.name) == {"mm", "a/b", "Relu"}
    assert any("damaged or cut at byte" in loss.reason for loss in run.completeness.losses)


def still_at_work(*steps):
    """A profile that was stopped before the executor's span on the pool's thread had its end."""
    message = XSpace()
    host = message.planes.add(name="/host:CPU")
    names = ("FunctionRun", "mm:MatMul", "mm_1:MatMul", "ThreadpoolListener::Record")
    for key, name in enumerate((*names, "mine:own"), 1):
        host.event_metadata[key].name = name
    host.stat_metadata[1].name = "id"
    caller = host.lines.add(id=1, name="python", timestamp_ns=5_000)
    for step in steps:
        asked = caller.events.add(metadata_id=1, offset_ps=step * 1_000, duration_ps=500)
        asked.stats.add(metadata_id=1, int64_value=step)
    caller.events.add(metadata_id=5, offset_ps=900_000, duration_ps=500)
    pool = host.lines.add(id=2, name="tf_Compute/2", timestamp_ns=5_000)
    pool.events.add(metadata_id=2, offset_ps=20_000, duration_ps=7_000)
    pool.events.add(metadata_id=4, offset_ps=22_000)
    pool.events.add(metadata_id=3, offset_ps=30_000, duration_ps=7_000)
    return message.SerializeToString()


def test_ops_of_an_executor_that_was_at_work_when_the_profiler_stopped(tmp_path):
    (tmp_path / "vm.xplane.pb").write_bytes(still_at_work(-7))
    run = load(tmp_path / "vm.xplane.pb")
    assert list(run.ops.name) == ["mm", "mm_1"]
    assert (run.ops.end_ns - run.ops.start_ns).tolist() == [7, 7]
    assert run.ops.step.tolist() == [-7, -7]


def test_an_op_without_its_mark_is_not_said_to_have_ended():
    trace = ExecutionTrace(Space(still_at_work(-7)), in_rows=True)
    assert [row.name for row in trace.steps[-7].unfinished] == ["mm", "mm_1"]


def test_of_several_steps_at_work_it_is_said_that_they_cannot_be_told_apart(tmp_path):
    (tmp_path / "vm.xplane.pb").write_bytes(still_at_work(7, 8))
    run = load(tmp_path / "vm.xplane.pb")
    assert run.ops.step.tolist() == [0, 0]
    (loss,) = (loss for loss in run.completeness.losses if loss.what == "steps of executions")
    assert loss.count == 2
    assert "stopped while an executor was at work" in loss.reason


def test_of_a_damaged_line_there_is_what_stands_before_the_damage(tmp_path):
    message = space()
    line = message.planes[0].lines[0]
    second = message.planes[0].lines.add(id=43, name="tf_Compute/9", timestamp_ns=5_000)
    second.events.add(metadata_id=2, offset_ps=50_000_000, duration_ps=1_000_000)
    whole = line.events[5].SerializeToString()
    data = message.SerializeToString()
    # A field of the event is said to be longer than the event.
    broken = b"\x22\x7f" + whole[2:]
    assert data.count(whole) == 1
    (tmp_path / "vm.xplane.pb").write_bytes(data.replace(whole, broken))
    run = load(tmp_path / "vm.xplane.pb")
    host = run.ops[run.ops.thread == 42]
    assert list(host.name) == ["mm", "a/b"]
    assert list(run.ops[run.ops.thread == 43].name) == ["mm"]
    assert set(run.ops[run.ops.thread == 43].thread_name) == {"tf_Compute"}
    assert [loss.what for loss in run.completeness.damage] == ["bytes of the file"]


def test_what_an_optimizer_executed_is_a_declared_loss(tmp_path):
    message = space()
    message.planes[0].lines[0].events[0].stats[0].int64_value = -1
    (tmp_path / "vm.xplane.pb").write_bytes(message.SerializeToString())
    run = load(tmp_path / "vm.xplane.pb")
    host = run.ops[run.ops.thread == 42]
    assert host.step.tolist() == [8, 8, 0]
    (loss,) = (loss for loss in run.completeness.losses if "optimizer" in loss.reason)
    assert (loss.what, loss.count) == ("executions", 2)


@pytest.mark.tensorflow
def test_a_real_profile_in_a_logdir(tmp_path, tensorflow):
    @tensorflow.function
    def model(x):
        for _ in range(3):
            x = tensorflow.matmul(x, x)
        return x

    x = tensorflow.ones((256, 256))
    model(x)
    tensorflow.profiler.experimental.start(str(tmp_path))
    model(x)
    tensorflow.nn.relu(x)
    tensorflow.profiler.experimental.stop()
    (run,) = load(tmp_path)
    types = Counter(run.ops.op)
    assert sum(count for op, count in types.items() if "MatMul" in op) == 3
    assert types["Relu"] == 1
    assert run.ops.start_ns.min() > 1_600_000_000 * 10**9
    # The same again in a process that has no TensorFlow.
    code = (
        "import sys; sys.modules['tensorflow'] = None; from stepscope.metadata import load; "
        f"print(len(load({str(tmp_path)!r})[0].ops))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=patient(240),
        check=True,
    )
    assert int(done.stdout) == len(run.ops)
