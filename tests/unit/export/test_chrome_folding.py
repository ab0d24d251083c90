"""Traces that have to stay small: less detail, the same totals, and words that say so."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_examples import examples
from stepscope.export import chrome
from stepscope.metadata import AllocationColumns, OpColumns, Recording, RunMetadata, TensorColumns

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
NOON = 1_794_769_131_123_456_789
TYPES = ("MatMul", "Add", "Relu")


def run(start, end, op, thread, allocations=None):
    """A run of ops of the types numbered `op`; every op puts out 8 bytes."""
    rows = len(start)
    tensors = TensorColumns.build(
        op_index=np.arange(rows), slot=[0] * rows, dtype=[1] * rows, shape=[(2,)] * rows,
        bytes=[8] * rows,
    )  # fmt: skip
    ops = OpColumns.build(
        name=[f"n{i}" for i in range(rows)], op=[TYPES[i] for i in op], device=[CPU] * rows,
        thread=thread, scheduled_ns=np.array(start) + NOON, start_ns=np.array(start) + NOON,
        end_ns=np.array(end) + NOON, tensors=tensors,
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops, allocations=allocations))
    return metadata


def many(rows, seed=0):
    """Ops one after the other on two threads, of lengths over four orders of magnitude."""
    random = np.random.default_rng(seed)
    spent = (10 ** random.uniform(2, 6, rows)).astype(np.int64)
    thread = np.arange(rows) % 2 + 1
    start = np.zeros(rows, np.int64)
    for one in (1, 2):
        of_thread = spent[thread == one] + 10
        start[thread == one] = np.cumsum(of_thread) - of_thread
    return run(start, start + spent, random.integers(0, 3, rows), thread)


def totals(trace):
    """Calls, nanoseconds and bytes per op type, of slices and of what folded ones stand for."""
    calls, spent, size = Counter(), Counter(), Counter()
    for event in trace["traceEvents"]:
        if event["ph"] != "X" or event["cat"] not in ("op", "folded"):
            continue
        args = event["args"]
        told = args.get("ops") or {
            args["op"]: {"calls": 1, "total_us": event["dur"], "bytes": args["bytes"]}
        }
        for op, sums in told.items():
            calls[op] += sums["calls"]
            spent[op] += round(sums["total_us"] * 1000)
            size[op] += sums["bytes"]
        if "ops" in args:
            assert args["calls"] == sum(sums["calls"] for sums in args["ops"].values())
    return calls, spent, size


@pytest.mark.parametrize("limit", [100_000, 5_000])
def test_a_small_trace_has_the_totals_of_the_full_one(limit, perfetto, tmp_path):
    metadata = many(3000)
    full = json.loads(chrome(metadata))
    path = chrome(metadata, tmp_path / "small.json", max_bytes=limit)
    small = json.loads(path.read_text())
    assert limit / 4 < path.stat().st_size <= limit
    assert totals(small) == totals(full)
    assert str(f"{limit:,}") in small["otherData"]["folded"]
    (mark,) = [e for e in small["traceEvents"] if e.get("cat") == "run"]
    assert "ops in" in mark["args"]["folded"]
    (seen,) = perfetto(path)
    assert seen["errors"] == {}
    assert seen["slices"]["n"] == sum(e["ph"] == "X" for e in small["traceEvents"])


def test_the_longest_ops_stay():
    trace = json.loads(chrome(many(3000), max_bytes=200_000))
    ops = [e for e in trace["traceEvents"] if e.get("cat") == "op"]
    full = [e for e in json.loads(chrome(many(3000)))["traceEvents"] if e.get("cat") == "op"]
    longest = sorted(full, key=lambda e: -e["dur"])[: len(ops)]
    assert 100 < len(ops) < 3000
    assert {e["name"] for e in ops} == {e["name"] for e in longest}


def test_what_fits_is_not_touched():
    metadata = many(100)
    assert chrome(metadata, max_bytes=10_000_000) == chrome(metadata)


def test_memory_curves_keep_their_peak():
    sizes = np.tile([64, -64], 5000)
    sizes[4000], sizes[4001] = 1_000_000, -1_000_000
    allocations = AllocationColumns.build(
        name=["a"] * 10_000, device=[CPU] * 10_000, time_ns=NOON + np.arange(10_000), bytes=sizes
    )
    metadata = run([0], [10_000], [0], [1], lambda: allocations)
    trace = json.loads(chrome(metadata, max_bytes=50_000))
    points = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert 2 <= len(points) < 1000
    assert max(points) == 1_000_000
    assert "memory curves" in trace["otherData"]["folded"]


def test_too_small_for_anything_is_said():
    with pytest.raises(ValueError, match="max_bytes=100 is too little for 1 runs"):
        chrome(many(50), max_bytes=100)
    with pytest.raises(ValueError, match="above 0; it was 0"):
        chrome(many(50), max_bytes=0)


SLICES = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 60), st.integers(0, 2), st.integers(0, 2)),
    min_size=1,
    max_size=60,
)


@examples(60)
@given(SLICES, st.floats(0, 1))
def test_folded_slices_never_cross(rows, part):
    """Whatever the ops are like: nested, crossing, empty, with threads and without."""
    start = [s for s, _, _, _ in rows]
    metadata = run(start, [s + d for s, d, _, _ in rows], [o for _, _, o, _ in rows],
                   [t for _, _, _, t in rows])  # fmt: skip
    full = chrome(metadata)
    try:
        trace = json.loads(chrome(metadata, max_bytes=int(4000 + part * len(full))))
    except ValueError:
        # Many lanes and few ops: there is nothing to fold.
        return
    assert totals(trace) == totals(json.loads(full))
    by_lane = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            begin = round(e["ts"] * 1000)
            by_lane.setdefault(e["tid"], []).append((begin, begin + round(e["dur"] * 1000)))
    for lane in by_lane.values():
        for a in lane:
            assert not any(a[0] < b[0] < a[1] < b[1] for b in lane)
