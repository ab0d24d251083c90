"""A run of millions of ops is looked at piece by piece, and is found to be what it is as a whole.

Here pieces are of a few ops, so that a small run takes the same way.
"""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analysis import op_profile
from stepscope.analysis.execution import timeline
from stepscope.analysis.execution.timeline import TimelineRows
from stepscope.analysis.profile import node_times, profile_sums
from stepscope.analysis.profile import op_profile as op_profiles
from stepscope.metadata import OpColumns, Recording, RunMetadata, StringColumn, self_times, strings

ROWS = 700


def run_of(seed, *, nested):
    """Ops on three threads and one that is not known, with ties, in order of their starts."""
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 4000, ROWS)) * 10
    spent = random.integers(0, 400 if nested else 9, ROWS)
    node = random.integers(0, 40, ROWS)
    ops = OpColumns.build(
        name=StringColumn(node.astype(np.int32), tuple(f"layer_{i % 4}/op_{i}" for i in range(40))),
        op=StringColumn((node % 5).astype(np.int32), ("MatMul", "Add", "Relu", "Mul", "_Recv")),
        device=StringColumn((node % 2).astype(np.int32), ("/device:CPU:0", "/device:CPU:1")),
        thread=random.integers(0, 4, ROWS), scheduled_ns=start, start_ns=start,
        end_ns=start + spent,
    )  # fmt: skip
    run = RunMetadata()
    run.record(Recording(engine="embedded", ops=lambda: ops))
    return run


@pytest.fixture
def in_pieces(monkeypatch):
    """From then on a piece is a few rows."""

    def small():
        monkeypatch.setattr(self_times, "_MANY", 50)
        monkeypatch.setattr(op_profiles, "_BATCH", 60)
        monkeypatch.setattr(profile_sums, "_PENDING", 50)
        monkeypatch.setattr(profile_sums, "_CHUNK", 37)
        monkeypatch.setattr(node_times, "_CHUNK", 37)
        monkeypatch.setattr(timeline, "_CHUNK", 37)
        monkeypatch.setattr(timeline, "_BLOCK", 11)
        monkeypatch.setattr(strings, "_CHUNK", 37)

    return small


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("by", ["type", "name", "layer", "device", "thread"])
def test_a_profile(in_pieces, by, nested):
    runs = [run_of(3, nested=nested)]
    whole = op_profile(runs, by)
    in_pieces()
    assert op_profile(runs, by) == whole


def test_a_profile_of_several_runs_at_once(in_pieces):
    runs = [run_of(seed, nested=True) for seed in range(3)]
    whole = op_profile(runs, "name")
    in_pieces()
    assert op_profile(runs, "name") == whole


@pytest.mark.parametrize("nested", [False, True])
def test_the_times_of_nodes(in_pieces, nested):
    run = run_of(5, nested=nested)
    whole = node_times.node_times(run)
    in_pieces()
    found = node_times.node_times(run)
    assert found._replace(own=None) == whole._replace(own=None)
    assert found.own.tolist() == whole.own.tolist()


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("place", [(0, 0), (2, 1), (3, 7)])
def test_a_timeline(in_pieces, nested, place):
    run = run_of(7, nested=nested)
    whole = TimelineRows.of([run])
    expected = whole.tile(*place, most=5)
    strip = whole.strip(64)
    in_pieces()
    drawn = TimelineRows.of([run])
    found = drawn.tile(*place, most=5)
    assert drawn.lanes == whole.lanes
    assert found.boxes.row.tolist() == expected.boxes.row.tolist()
    for column in ("lane", "column", "busy", "type", "calls"):
        assert getattr(found.density, column).tolist() == getattr(expected.density, column).tolist()
    assert drawn.strip(64).busy.tolist() == pytest.approx(strip.busy.tolist())
    begin, until = drawn.span_of(*place)
    inside = (drawn.start < until) & ((drawn.end > begin) | (drawn.start >= begin))
    assert drawn.between(begin, until).tolist() == np.flatnonzero(inside).tolist()
    assert drawn.place_of(123) == drawn.row.tolist().index(123)


def test_threads_of_one_name_are_numbered():
    run = run_of(9, nested=False)
    ops = run.ops.replace(thread_names={1: "tf_Compute", 2: "tf_Compute", 3: "main"})
    named = RunMetadata()
    named.record(Recording(engine="", ops=lambda: ops))
    names = {(lane.device, lane.thread): lane.name for lane in TimelineRows.of([named]).lanes}
    # In the order in which they are drawn: of their first op.
    assert {names["/device:CPU:0", thread] for thread in (1, 2)} == {"tf_Compute 1", "tf_Compute 2"}
    assert names["/device:CPU:0", 3] == "main"
    assert names["/device:CPU:0", 0] == "ops"


def test_the_devices_that_are_there(in_pieces):
    run = run_of(11, nested=False)
    expected = list(dict.fromkeys(run.ops.device.tolist()))
    in_pieces()
    assert run.ops.devices.present() == expected
    assert list(run.device_peaks()) == expected
