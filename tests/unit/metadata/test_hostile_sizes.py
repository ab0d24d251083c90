"""Small files that are large inside: what is asked of them costs in proportion to their size.

Sizes are chosen so that work that grows with the square of them takes many minutes.
"""

from __future__ import annotations

import io
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from stepscope.analysis import memory_profile, parallelism
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.metadata import AllocationColumns, OpColumns, Recording, RunMetadata, load
from stepscope.metadata.xplane import XSpace

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
MANY = 60_000


def made(name, device, thread=0, **columns):
    """A run of this many ops, each a microsecond long."""
    count = len(name)
    start = np.arange(count) * 1000 + 10**18
    ops = OpColumns.build(
        name=name, op=["Add"] * count, device=device, scheduled_ns=start, start_ns=start,
        end_ns=start + 1000, thread=np.broadcast_to(thread, count).copy(), **columns,
    )  # fmt: skip
    run = RunMetadata()
    run.record(Recording(engine="x", ops=lambda: ops))
    return run


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What a command says about a run."""

    def ask(run, *arguments):
        run.save(tmp_path / "run_metadata.pb")
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with monkeypatch.context() as changed:
            changed.setattr(sys, "stdout", stream)
            code = run_command_line([*arguments, str(tmp_path / "run_metadata.pb")])
        stream.flush()
        assert code == 0
        return stream.buffer.getvalue().decode()

    return ask


def test_many_devices(asked):
    run = made(["n"] * MANY, [f"/device:{i}" for i in range(MANY)])
    said = asked(run, "info")
    assert f"and {MANY - 50:,} more devices" in said
    assert f"{MANY:,}" in asked(run, "info", "--json").replace(f"{MANY}", f"{MANY:,}")
    found = parallelism(run, parts=3)
    assert len(found.rows) == MANY
    assert {lane.busy_ns for lane in found.rows} == {1000}
    assert memory_profile(run).devices == ()


def test_many_threads():
    run = made(["n"] * MANY, [CPU] * MANY, np.arange(1, MANY + 1))
    found = parallelism(run, parts=3)
    assert len(found.rows) == MANY + 1
    assert found.rows[0].busy == pytest.approx((3 / MANY, 0, 0), abs=1e-6)
    assert found.rows[-1].busy == (1, 1, 1)
    assert found.average == 1


def test_many_devices_with_memory():
    run = made(["n"], [CPU])
    devices = [f"/device:{i}" for i in range(MANY // 10)]
    allocations = AllocationColumns.build(
        name=["a"] * len(devices), device=devices, time_ns=np.arange(len(devices)),
        bytes=np.arange(len(devices)) + 1,
    )  # fmt: skip
    run.record(Recording(engine="x", ops=lambda: run_ops, allocations=lambda: allocations))
    peaks = run.device_peaks()
    assert [peaks[d] for d in devices] == [run.peak_bytes(d) for d in devices[:50]] + [
        *range(51, len(devices) + 1)
    ]
    assert len(memory_profile(run).devices) == len(devices)


run_ops = made(["n"], [CPU]).ops


@pytest.mark.parametrize("command", [("top", "--by", "name"), ("path",), ("placement",)])
def test_names_of_a_megabyte(asked, command):
    names = [f"{i}" + "\x1bn" * 500_000 + f"{i}" for i in range(8)]
    said = asked(made(names, [CPU] * 8), *command)
    assert "…" in said
    assert len(said) < 20_000


def varint(number):
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def message(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


EVENTS = (
    "mm:MatMul", "ExecutorState::Process", "other", "EagerLocalExecute: Relu", "EagerExecute",
    "ExecutorPropagateOutputs",
)  # fmt: skip
DONE = b"\x08\x06\x22\x04\x08\x01\x38\x02"
"""The executor's mark that mm is done."""


def profile(event, count, *, thread="tf_compute"):
    """A profile with this many times the same event."""
    space = XSpace()
    plane = space.planes.add(name="/host:CPU")
    for number, name in enumerate(EVENTS, 1):
        plane.event_metadata[number].name = name
    plane.stat_metadata[1].name = "kernel_name"
    plane.stat_metadata[2].name = "mm"
    plane.stat_metadata[3].name = "id"
    plane.stat_metadata[4].name = "elsewhere"
    line = XSpace().planes.add().lines.add(id=7, name=thread, timestamp_ns=10**18)
    lines = message(3, line.SerializeToString() + message(4, event) * count)
    return message(1, plane.SerializeToString() + lines)


def profile_of(events):
    """A profile with these events of a thread of TensorFlow's."""
    whole = profile(b"", 0)
    plane = whole[whole.index(b"/host:CPU") - 2 :]
    line = XSpace().planes.add().lines.add(id=7, name="tf_compute", timestamp_ns=10**18)
    return message(1, plane + message(3, line.SerializeToString() + events))


@pytest.mark.parametrize(
    ("event", "thread", "executions"),
    [
        (b"\x08\x01", "tf_compute", 300_000),
        (b"\x08\x01", "main", 0),
        (b"\x08\x02", "main", 0),
        (b"\x08\x03", "tf_compute", 0),
        (b"\x08\x09", "tf_compute", 0),
        (b"\x08\x05", "main", 0),
    ],
)
def test_events_without_content_take_no_objects(event, thread, executions, tmp_path):
    file = tmp_path / "vm.xplane.pb"
    file.write_bytes(profile(event, 300_000, thread=thread))
    tracemalloc.start()
    run = load(file)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(run.ops) == executions
    assert set(run.ops.name) == ({"mm"} if executions else set())
    assert most / 300_000 < 250


def test_eager_ops_without_content_take_no_objects(tmp_path):
    file = tmp_path / "vm.xplane.pb"
    file.write_bytes(profile(b"\x08\x04", 300_000, thread="main"))
    tracemalloc.start()
    run = load(file)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(run.ops) == 300_000
    assert set(run.ops.op) == {"Relu"}
    assert most / 300_000 < 250


@pytest.mark.parametrize(
    ("events", "executions"),
    [
        ((b"\x08\x01", DONE), 50_000),
        ((DONE,), 0),
        ((*[b"\x08\x01"] * 50_000, DONE), 1),
        ((b"\x08\x02\x18\x64", *[b"\x08\x01"] * 50_000, DONE), 50_000),
    ],
    ids=["each done", "done only", "one done", "one done of an executor"],
)
def test_marks_that_say_nothing_new_cost_what_they_are(events, executions, tmp_path):
    """Rows of these are made one by one: all of them once, not all of them for each."""
    file = tmp_path / "vm.xplane.pb"
    count = 1 if len(events) > 2 else 50_000
    file.write_bytes(profile_of(b"".join(message(4, event) for event in events) * count))
    run = load(file)
    assert len(run.ops) == executions
    assert set(run.ops.name) == ({"mm"} if executions else set())


def test_many_kernels_inside_of_each_other(tmp_path):
    """Marks of other nodes, and eager ops that end after all of them."""
    kernel = message(4, b"\x08\x01\x18\xff\xff\xff\x7f")
    mark = message(4, b"\x08\x06\x22\x04\x08\x01\x38\x04")
    eager = message(4, b"\x08\x04\x10\x01\x18\xff\xff\xff\xff\x07")
    file = tmp_path / "vm.xplane.pb"
    file.write_bytes(profile_of(kernel * MANY + mark * MANY + eager * MANY))
    run = load(file)
    assert Counter(run.ops.op) == {"MatMul": MANY, "Relu": MANY}


def test_many_kernels_and_many_late_marks_of_one_node(tmp_path):
    executor = message(4, b"\x08\x02\x18\x64")
    kernel = message(4, b"\x08\x01\x10\x01")
    file = tmp_path / "vm.xplane.pb"
    file.write_bytes(profile_of(executor + kernel * MANY + message(4, DONE + b"\x10\x02") * MANY))
    run = load(file)
    assert Counter(run.ops.name) == {"mm": MANY}
