"""Memory over time, the peak and who held it, and the request that was refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope import analysis, errors
from stepscope.metadata import AllocationColumns, OpColumns, Recording, RunMetadata, Status
from stepscope.metadata.memory.out_of_memory import MemoryRequest, out_of_memory

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OTHER = "/job:localhost/replica:0/task:0/device:CPU:1"
FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
#   time, op, kind, bytes, event, device
EVENTS = [
    (10, "w", "variable", 100, "held", CPU),
    (20, "net/a", "temporary", 50, "allocate", CPU),
    (25, "elsewhere", "temporary", 7, "allocate", OTHER),
    (30, "net/b", "temporary", 60, "allocate", CPU),
    (40, "net/a", "temporary", -50, "free", CPU),
    (50, "net/c", "temporary", 20, "allocate", CPU),
    (60, "net/d", "temporary", 999, "failed", CPU),
]


def allocations(events=EVENTS, later=0):
    return AllocationColumns.build(
        time_ns=[e[0] + later for e in events],
        name=[e[1] for e in events],
        kind=[e[2] for e in events],
        bytes=[e[3] for e in events],
        event=[e[4] for e in events],
        device=[e[5] for e in events],
        address=[hash(e[1]) & 0xFFFF | 1 for e in events],
    )


def run(events=EVENTS, later=0, **fields):
    columns = allocations(events, later)
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine="embedded",
            allocations=lambda: columns,
            sources=lambda: {"w": "m.py:1", "net/a": "m.py:2", "net/b": "m.py:2"},
            **fields,
        )
    )
    return metadata


def test_the_curve_the_peak_and_who_held_it():
    profile = analysis.memory_profile(run())
    memory, other = profile.devices
    assert memory.device == CPU
    # What was there before counts from the beginning of the run.
    assert memory.time_ns.tolist() == [20, 20, 30, 40, 50]
    assert memory.live_bytes.tolist() == [100, 150, 210, 160, 180]
    assert memory.persistent_bytes.tolist() == [100] * 5
    assert (memory.peak_bytes, memory.peak_ns) == (210, 30)
    assert (memory.persistent_at_peak, memory.temporary_at_peak) == (100, 110)
    assert (other.device, other.peak_bytes) == (OTHER, 7)
    rows = [(r.key, r.kind, r.bytes, r.source) for r in profile if r.device == CPU]
    assert rows == [
        ("w", "variable", 100, "m.py:1"),
        ("net/b", "temporary", 60, "m.py:2"),
        ("net/a", "temporary", 50, "m.py:2"),
    ]
    assert sum(r.share for r in profile if r.device == CPU) == pytest.approx(1)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("scope", [("net", 110), ("(top)", 100)]),
        ("source", [("m.py:2", 110), ("m.py:1", 100)]),
    ],
)
def test_who_held_it_by_scope_and_by_line(by, expected):
    rows = analysis.memory_profile(run(), by=by).rows
    assert [(r.key, r.bytes) for r in rows if r.device == CPU] == expected


def test_of_several_runs_the_one_with_the_highest_peak_is_told():
    higher = [*EVENTS[:4], (35, "net/e", "temporary", 500, "allocate", CPU)]
    profile = analysis.memory_profile({"first": run(), "second": run(higher, later=100)})
    memory = profile.devices[0]
    assert (memory.run, memory.peak_bytes, memory.peak_ns) == ("second", 710, 135)
    assert memory.time_ns.tolist() == [20, 20, 30, 40, 50, 120, 120, 130, 135]
    assert profile.rows[0].key == "net/e"


def test_what_an_earlier_run_made_does_not_disturb_the_curve_of_that_run():
    first = [(20, "w", "variable", 100, "allocate", CPU), *EVENTS[3:6:2]]
    second = [(20, "w", "variable", 100, "held", CPU), (90, "y", "temporary", 9, "allocate", CPU)]
    (memory,) = analysis.memory_profile([("first", run(first)), ("second", run(second))]).devices
    assert memory.time_ns.tolist() == [20, 30, 50, 90, 90]
    assert memory.live_bytes.tolist() == [100, 160, 180, 100, 109]


def test_a_run_without_a_record_of_memory_has_an_empty_profile():
    profile = analysis.memory_profile(RunMetadata())
    assert profile.devices == ()
    assert len(profile) == 0


def test_a_counted_peak_without_single_allocations():
    metadata = RunMetadata()
    ops = OpColumns.build(
        name=["a"], op=["Add"], device=[CPU], thread=[1], scheduled_ns=[0], start_ns=[0], end_ns=[1]
    )
    metadata.record(
        Recording(engine="embedded", ops=lambda: ops, peak_bytes=lambda: {CPU: 4096, "": 4096})
    )
    (memory,) = analysis.memory_profile(metadata).devices
    assert (memory.peak_bytes, len(memory.time_ns)) == (4096, 0)


def test_an_unknown_grouping_is_refused():
    with pytest.raises(ValueError, match="op, scope, source; it was 'color'"):
        analysis.memory_profile(run(), by="color")


def test_as_json_and_as_a_data_frame():
    profile = analysis.memory_profile(run())
    plain = json.loads(profile.to_json())
    assert plain["devices"][0]["live_bytes"] == [100, 150, 210, 160, 180]
    frame = profile.to_pandas()
    assert frame.groupby("device")["bytes"].sum().to_dict() == {CPU: 210, OTHER: 7}


def test_the_rows_of_a_real_run_sum_to_its_peak():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 64], name="x")
        w = tf.Variable(tf.ones([64, 32]), name="w")
        with tf.name_scope("net"):
            y = tf.nn.relu(tf.matmul(x, w)) + 1.0
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        session.run(y, {x: np.ones((16, 64), "f")}, options=FULL, run_metadata=metadata)
    profile = analysis.memory_profile(metadata)
    (memory,) = profile.devices
    assert memory.peak_bytes == metadata.peak_bytes(CPU) == memory.live_bytes.max()
    assert sum(row.bytes for row in profile) == memory.peak_bytes
    held = {row.key: (row.kind, row.bytes) for row in profile}
    assert held["w"] == ("variable", 64 * 32 * 4)
    assert held["x"] == ("feed", 16 * 64 * 4)
    assert all("test_memory_profile.py" in row.source for row in profile)


# -- the refused request -------------------------------------------------------------------


def failed_run(**fields):
    alive = allocations().alive_at(5)
    request = MemoryRequest("net/d", 999, CPU, 0, (3, 83), 1, time_ns=60)
    report = out_of_memory(request, alive, sources={"net/d": "m.py:9"}, limit=1000)
    metadata = RunMetadata()
    status = Status("RESOURCE_EXHAUSTED", "OOM")
    metadata.record(Recording(engine="embedded", status=status, out_of_memory=report, **fields))
    return metadata


def test_the_refused_request_and_the_curve_up_to_it():
    after = [*EVENTS, (70, "net/b", "temporary", -60, "free", CPU)]
    found = analysis.oom(failed_run(allocations=lambda: allocations(after)))
    assert (found.request.op, found.dtype, found.live) == ("net/d", "float32", 180)
    assert found.request.source == "m.py:9"
    assert found.curve == "allocations"
    assert found.time_ns.tolist() == [20, 20, 30, 40, 50]
    assert found.live_bytes.tolist() == [100, 150, 210, 160, 180]
    assert sum(row.bytes for row in found.rows) == found.live


def test_a_log_of_the_last_events_is_counted_back_from_the_failure():
    log = allocations(EVENTS[4:])
    found = analysis.oom(failed_run(allocation_log=lambda: log))
    assert found.curve == "log"
    assert found.time_ns.tolist() == [40, 50]
    assert found.live_bytes.tolist() == [160, 180]


def test_a_sampled_log_gives_an_estimate_and_says_so():
    options = stepscope.RunOptions(allocation_log_sampling_rate=0.5)
    log = allocations(EVENTS[4:])
    found = analysis.oom(failed_run(allocation_log=lambda: log, run_options=options))
    assert found.curve == "sampled log"


def test_without_events_there_is_no_curve():
    found = analysis.oom(failed_run())
    assert (found.curve, len(found.time_ns)) == ("", 0)
    assert [row.key for row in found.rows] == ["w", "net/b", "net/c"]
    assert [row.key for row in analysis.oom(failed_run(), by="scope").rows] == ["(top)", "net"]


def test_runs_without_a_report_say_what_would_have_made_one():
    ok = RunMetadata()
    ok.record(Recording(engine="embedded"))
    with pytest.raises(errors.StepscopeError, match=r"status OK; .*--trace full"):
        analysis.oom(ok)
    bare = RunMetadata()
    bare.record(Recording(engine="embedded", status=Status("RESOURCE_EXHAUSTED", "OOM")))
    with pytest.raises(errors.StepscopeError, match="without a report on its memory"):
        analysis.oom({"step 3": bare})


def test_a_real_run_over_its_limit():
    config = tf.ConfigProto(memory_limit_bytes=100_000)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        a = tf.random_uniform([100, 100], name="a")
        big = tf.concat([a, a], 0, name="big")
        with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
            session.run(big, options=FULL, run_metadata=tf.RunMetadata())
    found = analysis.oom(caught.value.run_metadata)
    assert (found.request.op, found.request.bytes, found.request.shape) == (
        "big",
        80_000,
        (200, 100),
    )
    assert (found.limit, found.live) == (100_000, 40_000)
    assert found.live_bytes[-1] == 40_000
    assert [row.key for row in found.rows] == ["a/RandomUniform"]
