"""Tiles of a timeline: nothing is lost, and nothing is too large to send."""

import numpy as np
import pytest

from stepscope.analysis.execution.timeline import TimelineRows
from stepscope.metadata import OpColumns, Recording, RunMetadata

TYPES = ["MatMul", "Relu", "IteratorGetNext", "_Recv"]


def run_of(start, end, threads=None, types=None, device="/device:CPU:0"):
    count = len(start)
    kinds = [TYPES[i % 4] for i in range(count)] if types is None else types
    ops = OpColumns.build(
        name=[f"op_{i % 1000}" for i in range(count)],
        op=kinds,
        device=[device] * count,
        thread=np.ones(count, int) if threads is None else threads,
        scheduled_ns=start,
        start_ns=start,
        end_ns=end,
    )
    run = RunMetadata()
    run.record(Recording(engine="embedded", ops=lambda: ops))
    return run


@pytest.fixture(scope="module")
def large():
    """100,000 executions on 3 threads, a few of them long."""
    random = np.random.default_rng(7)
    count = 100_000
    threads = random.integers(1, 4, count)
    ns = random.integers(0, 2_000, count)
    ns[random.integers(0, count, 50)] = 3_000_000
    start = np.zeros(count, np.int64)
    for thread in (1, 2, 3):
        mine = threads == thread
        start[mine] = np.cumsum(ns[mine] + random.integers(0, 50, mine.sum())) - ns[mine]
    return TimelineRows.of([run_of(start + 10**18, start + ns + 10**18, threads)])


def test_a_tile_accounts_for_every_execution(large):
    for level, index in ((0, 0), (3, 5), (6, 40)):
        tile = large.tile(level, index)
        rows = large.between(tile.from_ns, tile.to_ns)
        # An execution over an edge of a column counts in both.
        assert len(tile.boxes.row) + int(tile.density.calls.sum()) >= len(rows)
        in_boxes = np.zeros(3)
        np.add.at(in_boxes, tile.boxes.lane, tile.boxes.ns)
        width = (tile.to_ns - tile.from_ns) / tile.columns
        in_columns = np.zeros(3)
        np.add.at(in_columns, tile.density.lane, tile.density.busy / 255 * width)
        whole = np.zeros(3)
        clipped = np.minimum(large.end[rows], tile.to_ns) - np.maximum(
            large.start[rows], tile.from_ns
        )
        np.add.at(whole, large.lane[rows], clipped)
        assert np.allclose(in_boxes + in_columns, whole, rtol=0.03)


def test_tiles_of_a_level_hold_what_the_one_above_does(large):
    deepest = 12
    indices = range(1 << 4)
    whole = sum(int(large.tile(4, i).density.calls.sum()) for i in indices)
    assert whole >= 90_000
    tile = large.tile(deepest, 1000)
    assert tile.whole
    rows = large.between(tile.from_ns, tile.to_ns)
    assert sorted(tile.boxes.row.tolist()) == sorted(large.row[rows].tolist())
    assert (tile.boxes.start + tile.boxes.ns <= tile.to_ns - tile.from_ns).all()


def test_the_busiest_type_of_a_column_is_the_one_with_the_most_time():
    start = np.arange(10_000, dtype=np.int64) * 100
    ns = np.where(np.arange(10_000) % 4 == 1, 90, 3)
    timeline = TimelineRows.of([run_of(start, start + ns)])
    density = timeline.tile(0, 0).density
    assert {timeline.types[code] for code in density.type.tolist()} == {"Relu"}
    assert timeline.types[int(timeline.strip(10).type[3])] == "Relu"
    assert int(density.calls.sum()) >= 10_000


def test_boxes_above_each_other_do_not_overlap_and_calls_contain():
    start = np.array([0, 10, 20, 50, 120, 130])
    end = np.array([100, 40, 30, 60, 150, 160])
    timeline = TimelineRows.of([run_of(start, end)])
    depth = dict(zip(timeline.row.tolist(), timeline.depth.tolist(), strict=True))
    assert [depth[row] for row in range(6)] == [0, 1, 2, 1, 0, 1]
    assert timeline.lanes[0].rows == 3
    assert timeline.lanes[0].busy_ns == 100 + 40


def test_many_lanes_make_wider_columns():
    count, lanes = 50_000, 500
    start = np.sort(np.random.default_rng(1).integers(0, 10**9, count))
    timeline = TimelineRows.of([run_of(start, start + 100, np.arange(count) % lanes + 1)])
    tile = timeline.tile(0, 0)
    assert len(timeline.lanes) == lanes
    assert len(tile.density.lane) <= 16_000
    assert tile.columns < 1024


def test_a_tile_that_is_not_there():
    timeline = TimelineRows.of([run_of(np.array([0]), np.array([10]))])
    assert timeline.tile(0, 0).whole
    with pytest.raises(ValueError, match="there is no tile 1 of level 0"):
        timeline.tile(0, 1)


def test_runs_one_after_the_other_stand_where_they_were():
    first, second = run_of(np.array([0]), np.array([10])), run_of(np.array([90]), np.array([100]))
    timeline = TimelineRows.of([first, second])
    tile = timeline.tile(0, 0)
    assert tile.boxes.start.tolist() == [0, 90]
    assert tile.boxes.run.tolist() == [0, 1]
    assert len(timeline.lanes) == 1


def test_no_executions():
    timeline = TimelineRows.of([RunMetadata()])
    assert (len(timeline), timeline.lanes) == (0, ())
    assert timeline.tile(0, 0).whole
