"""Runs as profiles: what comes back from them, and what TensorFlow's own messages read."""

from __future__ import annotations

from collections import Counter

import pytest
from click.testing import CliRunner

from kinds_of_input import KINDS, path_of
from stepscope.cli.export import command
from stepscope.export import xplane
from stepscope.metadata import OpColumns, Recording, RunMetadata, iter_runs

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/device:GPU:0"


def rows_of(metadata):
    ops = metadata.ops
    texts = (ops.name.tolist(), ops.op.tolist(), ops.device.tolist())
    times = (ops.start_ns.tolist(), ops.end_ns.tolist())
    return Counter(zip(*texts, *times, ops.thread.tolist(), ops.step.tolist(), strict=True))


def run_of(*rows):
    """A run of rows (name, op, device, start, end, thread, step)."""
    name, op, device, start, end, thread, step = zip(*rows, strict=True)
    columns = OpColumns.build(
        name=name, op=op, device=device, scheduled_ns=start, start_ns=start, end_ns=end,
        thread=thread, step=step,
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: columns))
    return metadata


def again(metadata, place):
    (run,) = iter_runs(xplane(metadata, place))
    return run.metadata


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_exported_loads_as_the_same_rows(kind, tmp_path):
    (tmp_path / "in").mkdir()
    path = path_of(kind, tmp_path / "in")
    done = CliRunner().invoke(command, [str(path), "--to", "xplane", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    wrote, *pages = done.output.splitlines()
    assert wrote == f"wrote {tmp_path / 'out'}"
    assert "Framework Op Stats show these runs; HLO" in pages[0]
    assert "stay empty" in pages[1]
    expected = [rows_of(run.metadata) for run in iter_runs(path)]
    files = sorted((tmp_path / "out").glob("plugins/profile/*/*.xplane.pb"))
    assert [file.parent.name for file in files] == [
        f"run_{number:06d}" for number in range(1, len(expected) + 1)
    ]
    assert [rows_of(run.metadata) for file in files for run in iter_runs(file)] == expected
    assert sum(map(len, expected)) > 0


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("a:0", "Const"), ("stepscope:run:7", "MatMul"), ("x", "a:b"), ("x", "two words"),
        ("x:", "Op"), ("EagerLocalExecute: MatMul", "MatMul"), ("load #1", "%3A:%"), ("", "NoOp"),
        ("ExecutorState:", "Process"), ("<b>", "<script>"), ("\u202ename\x07", "Op"),
    ],
)  # fmt: skip
def test_any_name_comes_back(name, op, tmp_path):
    metadata = run_of((name, op, CPU, 1_000, 2_000, 5, 3))
    assert rows_of(again(metadata, tmp_path)) == rows_of(metadata)


def test_executions_that_overlap_or_take_no_time_come_back(tmp_path):
    metadata = run_of(
        ("outer", "Annotation", CPU, 10, 100, 1, 1),
        ("inner", "MatMul", CPU, 10, 50, 1, 1),
        ("crosses", "RecvTensor", CPU, 40, 120, 1, 1),
        ("at the end", "NoOp", CPU, 120, 120, 1, 1),
        ("of the next step", "NoOp", CPU, 120, 120, 1, 2),
        ("follows", "Relu", CPU, 120, 130, 1, 2),
        ("elsewhere", "Relu", "/job:worker/replica:0/task:1/device:CPU:3", 120, 130, 2, 2),
        ("of no step", "Relu", CPU, 140, 150, 2, 0),
        ("weeks later", "Relu", CPU, 10**16, 10**16 + 5, 2, 0),
    )
    assert rows_of(again(metadata, tmp_path)) == rows_of(metadata)


def test_a_gpus_executions_are_on_its_streams(tmp_path):
    metadata = run_of(
        ("mm", "MatMul", f"{GPU}/stream:14", 10, 50, 14, 0),
        ("mm", "MatMul", f"{GPU}/stream:all", 10, 50, 14, 0),
        ("copy", "edge_5", f"{GPU}/stream:15", 20, 30, 15, 0),
        ("copy", "edge_5", f"{GPU}/memcpy", 20, 30, 15, 0),
        ("unpaired", "MatMul", f"{GPU}/stream:all", 60, 70, 14, 0),
        ("mm", "MatMul", CPU, 5, 8, 1, 0),
    )
    assert rows_of(again(metadata, tmp_path)) == rows_of(metadata)


def test_a_run_of_nothing_is_a_profile_of_nothing(tmp_path):
    assert len(again(RunMetadata(), tmp_path).ops) == 0


def test_tensorflow_reads_planes_lines_and_events(tmp_path):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    start = 1_794_769_119_769_750_449
    metadata = run_of(
        ("dense/MatMul", "MatMul", CPU, start, start + 1_500, 42, 7),
        ("mm", "MatMul", f"{GPU}/stream:14", start + 2_000, start + 2_250, 3, 0),
    )
    (file,) = xplane(metadata, tmp_path).glob("plugins/profile/run_000001/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    assert [plane.name for plane in space.planes] == ["/host:CPU", GPU, "Task Environment"]
    assert list(space.hostnames) == ["stepscope"] == [file.name.partition(".")[0]]
    host, gpu, environment = space.planes
    (line,) = host.lines
    assert (line.id, line.timestamp_ns) == (42, 0)
    found = [
        (host.event_metadata[event.metadata_id].name, event.offset_ps, event.duration_ps)
        for event in line.events
    ]
    assert found == [
        ("ExecutorState::Process", 0, 1_500_001),
        ("dense/MatMul:MatMul", 0, 1_500_000),
    ]
    (stat,) = line.events[0].stats
    assert (host.stat_metadata[stat.metadata_id].name, stat.int64_value) == ("id", 7)
    (stream,) = gpu.lines
    assert (stream.name, stream.display_id, stream.timestamp_ns) == ("Stream #14", 14, 2_000)
    assert stream.events[0].duration_ps == 250_000
    assert environment.stats[0].uint64_value == start


def test_a_file_in_the_way_is_one_error(tmp_path):
    path = path_of("tensorflows_own", tmp_path)
    (tmp_path / "taken").write_text("mine")
    done = CliRunner().invoke(command, [str(path), "--to", "xplane", "-o", str(tmp_path / "taken")])
    assert done.exit_code == 1
    assert "is a file; name a directory with -o" in done.output
    assert (tmp_path / "taken").read_text() == "mine"
