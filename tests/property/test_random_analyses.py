"""Analyses of random runs and of real ones: what must hold whatever was recorded."""

from __future__ import annotations

import numpy as np
import pytest
from graph_executors import session_of, with_options
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import specs

from random_examples import examples
from stepscope.analysis import (
    coverage,
    critical_path,
    memory_profile,
    op_profile,
    parallelism,
    placement,
)
from stepscope.analysis.execution.edges import Edges
from stepscope.analysis.intervals import self_times
from stepscope.analysis.profile.op_profile import GROUPINGS
from stepscope.metadata import AllocationColumns, OpColumns, Recording, RunMetadata

T0 = 1_700_000_000_000_000_000
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2)]
TIMES = st.integers(-50, 200)


def metadata_of(rows, events=()):
    """A run of (name, op, device, thread, scheduled, start, end), whatever the clock said."""
    names, ops, devices, threads, *times = zip(*rows, strict=True) if rows else [()] * 7
    ready, start, end = (T0 + np.array(column, np.int64) for column in times)
    columns = OpColumns.build(
        name=names, op=ops, device=devices, thread=threads,
        scheduled_ns=ready, start_ns=start, end_ns=end,
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="test", ops=lambda: columns, **dict(events)))
    return metadata


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "s/b", "s/t/c"]),
        st.sampled_from(["Add", "Mul"]),
        st.sampled_from(DEVICES),
        st.integers(0, 2),
        TIMES, TIMES, TIMES,
    ),
    max_size=12,
)  # fmt: skip


@examples(60)
@given(st.lists(ROWS, min_size=1, max_size=3), st.sampled_from(GROUPINGS))
def test_shares_sum_to_one_and_rows_to_the_whole(runs, by):
    profile = op_profile([metadata_of(rows) for rows in runs], by)
    assert profile.calls == sum(map(len, runs)) == sum(row.calls for row in profile.rows)
    assert profile.self_ns == sum(row.self_ns for row in profile.rows)
    assert profile.total_ns == sum(row.total_ns for row in profile.rows)
    assert sum(row.share for row in profile.rows) == pytest.approx(1 if profile.self_ns else 0)
    for row in profile.rows:
        assert 0 <= row.self_ns <= row.total_ns
        assert row.covered_ns <= row.total_ns
        assert row.max_ns <= row.total_ns <= row.max_ns * row.calls
        assert row.p50_ns <= row.p90_ns <= row.p99_ns
    assert profile.covered_ns <= sum(row.covered_ns for row in profile.rows)


SPANS = st.lists(st.tuples(TIMES, TIMES, st.integers(0, 2)), max_size=15)


@examples(100)
@given(SPANS)
def test_self_times_hold_with_a_clock_that_ran_backwards(spans):
    start, end, lane = (np.array(part, np.int64) for part in zip(*spans, strict=True)) if spans \
        else [np.empty(0, np.int64)] * 3  # fmt: skip
    own = self_times(start, end, lane)
    lengths = np.maximum(end - start, 0)
    assert (own >= 0).all()
    assert (own <= lengths).all()
    unknown = lane == 0
    assert (own[unknown] == lengths[unknown]).all()
    for number in (1, 2):
        mine = lane == number
        moments = np.arange(-50, 200)[:, None]
        busy = ((start[mine] <= moments) & (moments < end[mine])).any(axis=1).sum()
        assert own[mine].sum() >= busy or not mine.any()


EVENTS = st.lists(
    st.tuples(st.sampled_from(DEVICES), st.sampled_from(["a", "b", "c"]), st.integers(1, 1000)),
    min_size=1, max_size=30,
)  # fmt: skip


@examples(60)
@given(EVENTS, st.data())
def test_the_peak_is_the_most_that_a_replay_finds(wanted, data):
    rows, live, highest, held = [], dict.fromkeys(DEVICES, 0), dict.fromkeys(DEVICES, 0), []
    for address, (device, name, size) in enumerate(wanted, 1):
        rows.append((name, device, size, address))
        held.append(rows[-1])
        live[device] += size
        highest[device] = max(highest[device], live[device])
        if held and data.draw(st.booleans()):
            name, device, size, address = held.pop(data.draw(st.integers(0, len(held) - 1)))
            rows.append((name, device, -size, address))
            live[device] -= size
    names, devices, sizes, addresses = zip(*rows, strict=True)
    columns = AllocationColumns.build(
        name=names, device=devices, bytes=sizes, address=addresses,
        time_ns=T0 + np.arange(len(rows)),
    )  # fmt: skip
    profile = memory_profile(metadata_of([], {"allocations": lambda: columns}))
    for memory in profile.devices:
        assert memory.peak_bytes == highest[memory.device] == max(memory.live_bytes)
        assert memory.peak_bytes == memory.persistent_at_peak + memory.temporary_at_peak
        mine = [row for row in profile.rows if row.device == memory.device]
        assert sum(row.bytes for row in mine) == memory.peak_bytes
    assert {m.device for m in profile.devices} == {d for d, peak in highest.items() if peak}


@examples(60)
@given(ROWS)
def test_lanes_fill_the_run_and_placement_counts_every_execution(rows):
    run = metadata_of(rows)
    found = parallelism(run, parts=7)
    if rows:
        assert sum(found.at_once) == found.length_ns
    for lane in found.rows:
        assert lane.busy_ns + lane.idle_waiting_ns + lane.idle_nothing_ns == found.length_ns
        assert min(lane.busy_ns, lane.idle_waiting_ns, lane.idle_nothing_ns) >= 0
        assert all(0 <= part <= 1 for part in lane.busy)
    devices = [lane for lane in found.rows if lane.kind == "device"]
    assert sum(lane.ops for lane in devices) == len(rows)
    report = placement(run)
    assert sum(report.devices.values()) == sum(row.calls for row in report.rows) == len(rows)
    assert {row.name for row in report.rows} == {row[0] for row in rows}


@examples(60)
@given(ROWS)
def test_a_path_fills_the_run_whatever_the_clock_said(rows):
    forward = [(*row[:4], *sorted(row[4:])) for row in rows]
    path = critical_path(metadata_of(forward))
    if not rows:
        assert path.rows == ()
        return
    ready, _, end = zip(*(row[4:] for row in forward), strict=True)
    assert path.length_ns == max(end) - min(ready) == sum(part.ns for part in path.rows)
    critical_path(metadata_of(rows))  # a clock that ran backwards makes no path, and no error


@pytest.mark.parametrize("executor", ["caller's thread", "pool of four"])
@examples(15)
@given(drawn=specs())
def test_real_runs_of_random_graphs_keep_every_promise(executor, drawn):
    spec, example = drawn
    metadata = RunMetadata()
    with session_of(spec, executor) as (session, built, options):
        full = with_options(options, trace_level=3)
        fed = {built.tensors[i]: value for i, value in example.items()}
        session.run([built.tensors[i] for i in spec.fetches], fed, full, metadata)
        graph = built.graph
    ops = metadata.ops
    path = critical_path(metadata)
    longest = int((ops.end_ns - ops.start_ns).max())
    assert longest <= path.length_ns
    edges = Edges.of(ops)
    waited_for = {}
    for row, before in enumerate(edges.before):
        waited_for.setdefault(ops.name[row], set()).update(ops.name[list(before)])
    for first, second in zip(path.names, path.names[1:], strict=False):
        assert first in waited_for[second] or not waited_for[second]
    found = coverage(metadata, graph.as_graph_def())
    assert {row.name for row in found.rows} == {op.name for op in graph.get_operations()}
    measured = {row.name for row in found.rows if row.state == "measured"}
    assert measured <= set(ops.name)
    profile = op_profile(metadata, "name")
    assert sum(row.share for row in profile) == pytest.approx(1 if profile.self_ns else 0)
    for memory in memory_profile(metadata).devices:
        assert memory.peak_bytes == metadata.peak_bytes(memory.device)
