"""Our own Chrome trace: what a user finds in it, and that Perfetto takes it."""

from __future__ import annotations

import gzip
import json

import pytest
from tensorboard.compat.proto import config_pb2

from stepscope.errors import UnreadableFileError
from stepscope.export import chrome
from stepscope.metadata import (
    Completeness,
    InFlight,
    Loss,
    OpColumns,
    Recording,
    RunMetadata,
    Status,
)

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"
# The time of day in nanoseconds: more digits than a JSON number holds.
NOON = 1_794_769_131_123_456_789


def run(*ops, threads=None, metadata=RunMetadata):
    """A run of ops `(name, op, device, thread, start, end)`, times in nanoseconds after noon."""
    message = config_pb2.RunMetadata()
    devices = {}
    for name, op, device, thread, start, end in ops:
        if device not in devices:
            devices[device] = message.step_stats.dev_stats.add(device=device)
            devices[device].thread_names.update(threads or {})
        at = NOON + start
        node = devices[device].node_stats.add(
            node_name=name,
            timeline_label=f"{name} = {op}()",
            thread_id=thread,
            scheduled_micros=(at - 250) // 1000,
            scheduled_nanos=at - 250,
            all_start_micros=at // 1000,
            all_start_nanos=at,
            op_end_rel_micros=(end - start) // 1000,
            op_end_rel_nanos=end - start,
            all_end_rel_micros=(end - start) // 1000,
            all_end_rel_nanos=end - start,
        )
        allocation = node.output.add().tensor_description.allocation_description
        allocation.requested_bytes = 64
    return metadata.FromString(message.SerializeToString())


def trace(runs):
    return json.loads(chrome(runs))


def slices(found, category="op"):
    return [e for e in found["traceEvents"] if e["ph"] == "X" and e["cat"] == category]


def lane_names(found):
    """Each lane's process and name, by number."""
    named = [e for e in found["traceEvents"] if e["ph"] == "M"]
    processes = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
    return {
        e["tid"]: (processes[e["pid"]], e["args"]["name"])
        for e in named
        if e["name"] == "thread_name"
    }


def test_an_op_says_what_it_was():
    found = trace([("warm", run(("mm", "MatMul", CPU0, 7, 0, 1500), threads={7: "pool-0"}))])
    (op,) = slices(found)
    assert (op["name"], op["ts"], op["dur"]) == ("mm", 0.0, 1.5)
    assert op["args"] == {
        "op": "MatMul",
        "outputs": "[]",
        "bytes": 64,
        "run": "warm",
        "step": 0,
        "waited_us": 0.25,
    }
    assert lane_names(found)[op["tid"]] == (CPU0, "pool-0")


def test_times_are_exact_to_the_nanosecond():
    hour = 3_600_000_000_000
    found = trace(run(("a", "Neg", CPU0, 1, 0, 1), ("b", "Neg", CPU0, 1, hour + 1, hour + 4)))
    base = int(found["otherData"]["base_epoch_ns"])
    assert base == NOON
    exact = [(base + round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in slices(found)]
    assert exact == [(NOON, 1), (NOON + hour + 1, 3)]
    assert found["displayTimeUnit"] == "ns"


def test_a_device_is_one_process_and_a_thread_one_lane_over_all_runs():
    names = {1: "pool-0", 2: "pool-1"}
    first = run(("a", "Neg", CPU0, 1, 0, 5), ("b", "Neg", CPU1, 2, 0, 5), threads=names)
    second = run(("b", "Neg", CPU1, 2, 10, 15), ("a", "Neg", CPU0, 1, 10, 15), threads=names)
    found = trace([first, second])
    lanes = lane_names(found)
    assert [(e["args"]["run"], e["name"], *lanes[e["tid"]]) for e in slices(found)] == [
        ("run 0", "a", CPU0, "pool-0"),
        ("run 0", "b", CPU1, "pool-1"),
        ("run 1", "b", CPU1, "pool-1"),
        ("run 1", "a", CPU0, "pool-0"),
    ]
    assert len({e["tid"] for e in slices(found)}) == 2
    assert len({e["pid"] for e in slices(found)}) == 2


def test_overlapping_ops_without_threads_lie_side_by_side():
    found = trace(run(("a", "Neg", CPU0, 0, 0, 9), ("b", "Neg", CPU0, 0, 2, 5)))
    lanes = lane_names(found)
    assert [lanes[e["tid"]][1] for e in slices(found)] == ["ops", "ops (2)"]


def test_on_a_thread_ops_may_contain_each_other_but_not_cross():
    found = trace(
        run(
            ("call", "PartitionedCall", CPU0, 4, 0, 9),
            ("inner", "Neg", CPU0, 4, 2, 5),
            ("late", "Neg", CPU0, 4, 7, 12),
        )
    )
    lanes = lane_names(found)
    assert [(e["name"], lanes[e["tid"]][1]) for e in slices(found)] == [
        ("call", "thread 4"),
        ("inner", "thread 4"),
        ("late", "thread 4 (2)"),
    ]


def test_each_run_has_a_mark():
    found = trace({"a": run(("x", "Neg", CPU0, 0, 0, 10)), "b": run(("x", "Neg", CPU0, 0, 4, 20))})
    marks = slices(found, "run")
    assert [(e["name"], e["ts"], e["dur"]) for e in marks] == [
        ("a", 0.0, 0.01),
        ("b", 0.004, 0.016),
    ]
    assert len({e["tid"] for e in marks}) == 2
    assert {lane_names(found)[e["tid"]][0] for e in marks} == {"runs"}
    assert marks[0]["args"]["ops"] == 1
    assert marks[0]["args"]["status"] == "OK"


def test_the_mark_of_a_failed_run_says_how_it_ended_and_what_is_missing():
    ops = OpColumns.build(
        name=["a"], op=["Neg"], device=[CPU0], thread=[1], scheduled_ns=[NOON], start_ns=[NOON],
        end_ns=[NOON + 5], step=12,
    )  # fmt: skip
    failed = RunMetadata()
    failed.record(
        Recording(
            engine="embedded",
            step_id=12,
            status=Status("DEADLINE_EXCEEDED", "too late", (InFlight("slow", "abandoned"),)),
            completeness=Completeness((Loss("ops", 1, "still running"),)),
            ops=lambda: ops,
        )
    )
    found = trace(failed)
    (mark,) = slices(found, "run")
    assert mark["args"] == {
        "engine": "embedded",
        "step": 12,
        "ops": 1,
        "status": "DEADLINE_EXCEEDED",
        "message": "too late",
        "complete": False,
        "in_flight": ["slow"],
        "missing": ["ops (1): still running"],
    }
    assert slices(found)[0]["args"]["step"] == 12


def test_a_run_without_ops_is_marked_too():
    (mark,) = slices(trace(RunMetadata()), "run")
    assert (mark["name"], mark["args"]["ops"]) == ("run 0", 0)


def test_a_clock_set_back_gives_no_negative_length():
    found = trace(run(("a", "Neg", CPU0, 1, 10, 4)))
    assert [e["dur"] for e in slices(found)] == [0.0]


def test_times_too_far_apart_for_a_trace_are_said(tmp_path):
    ops = OpColumns.build(
        name=["a", "b"], op=["Add", "Add"], device=[CPU0, CPU0], thread=[1, 1],
        scheduled_ns=[0, 0], start_ns=[-(1 << 62), 1 << 62], end_ns=[0, (1 << 63) - 1],
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops))
    with pytest.raises(ValueError, match=r"are 292 years apart or more, which no trace .* 'late'"):
        chrome([("late", metadata)], tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_no_file_to_write(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a directory; name a file to write"):
        chrome(run(), tmp_path)


def test_tensorflows_and_tensorboards_messages_are_taken(tf):
    ours = run(("mm", "MatMul", CPU0, 1, 0, 5))
    same = (config_pb2.RunMetadata, tf.compat.v1.RunMetadata)
    for kind in same:
        assert chrome(run(("mm", "MatMul", CPU0, 1, 0, 5), metadata=kind)) == chrome(ours)


@pytest.mark.parametrize(
    "wrong", [None, 3, b"text", [3], [("name", 3)], config_pb2.RunOptions(), RunMetadata]
)
def test_anything_else_is_refused(wrong):
    with pytest.raises(TypeError, match="runs must be a RunMetadata"):
        chrome(wrong)


def test_no_runs_are_an_empty_trace():
    assert slices(trace([])) == []


def test_files_are_whole_and_may_be_compressed(tmp_path):
    runs = run(*((f"n{i}", "Neg", CPU0, 1, 10 * i, 10 * i + 5) for i in range(5000)))
    plain = chrome(runs, tmp_path / "deep" / "trace.json")
    packed = chrome(runs, str(tmp_path / "deep" / "trace.json.gz"))
    assert sorted(path.name for path in plain.parent.iterdir()) == ["trace.json", "trace.json.gz"]
    assert plain.read_text() == gzip.decompress(packed.read_bytes()).decode() == chrome(runs)
    assert len(slices(json.loads(plain.read_text()))) == 5000


def test_perfetto_takes_every_slice_to_the_nanosecond(perfetto, tmp_path):
    ops = [(f"n{i}", "Neg", CPU0, 1, 1001 * i, 1001 * i + 1001) for i in range(300)]
    crossing = [(f"m{i}", "Neg", CPU1, 0, 700 * i, 700 * i + 1999) for i in range(300)]
    path = chrome([run(*ops, threads={1: "pool"}), run(*crossing)], tmp_path / "trace.json.gz")
    (seen,) = perfetto(path)
    assert seen["errors"] == {}
    assert seen["slices"]["n"] == 602
    marks = 300 * 1001 + 299 * 700 + 1999
    assert seen["slices"]["dur_ns"] == 300 * 1001 + 300 * 1999 + marks
    assert seen["processes"] == ["runs", CPU0, CPU1]


def test_a_path_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UnreadableFileError, match="no such file"):
        chrome(tmp_path / "nothing.pb")
