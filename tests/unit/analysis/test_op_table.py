"""The table of ops by time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tensorboard.compat.proto import config_pb2

from stepscope.analysis import OpRow, op_table
from stepscope.metadata import RunMetadata

CPU0, CPU1 = "/device:CPU:0", "/device:CPU:1"
DATA = Path(__file__).parents[2] / "data"


def run(*executions):
    """A run of `(name, op, device, nanoseconds, bytes)`."""
    message = config_pb2.RunMetadata()
    for number, (name, op, device, spent, output) in enumerate(executions):
        start = 1_700_000_000_000_000_000 + 1000 * number
        node = message.step_stats.dev_stats.add(device=device).node_stats.add(
            node_name=name,
            timeline_label=f"{name} = {op}()",
            all_start_micros=start // 1000,
            all_start_nanos=start,
            op_end_rel_nanos=spent,
            all_end_rel_nanos=spent,
        )
        node.output.add().tensor_description.allocation_description.requested_bytes = output
    return RunMetadata.FromString(message.SerializeToString())


FIRST = run(
    ("mm", "MatMul", CPU0, 600, 64),
    ("a", "Neg", CPU0, 30, 8),
    ("b", "Neg", CPU1, 50, 8),
)
SECOND = run(("mm", "MatMul", CPU0, 300, 64), ("a", "Neg", CPU0, 20, 8))


def test_by_op_over_several_runs():
    table = op_table([FIRST, SECOND])
    assert list(table) == [
        OpRow("MatMul", "MatMul", CPU0, 2, 900, 450.0, 600, 128, 0.9),
        OpRow("Neg", "Neg", "", 3, 100, 100 / 3, 50, 24, 0.1),
    ]
    assert (table.by, table.runs, table.calls, table.total_ns, len(table)) == ("op", 2, 5, 1000, 2)


def test_by_name_knows_op_and_device():
    rows = op_table({"x": FIRST, "y": SECOND}, by="name").rows
    assert [(r.key, r.op, r.device, r.calls, r.total_ns) for r in rows] == [
        ("mm", "MatMul", CPU0, 2, 900),
        ("a", "Neg", CPU0, 2, 50),
        ("b", "Neg", CPU1, 1, 50),
    ]


def test_by_device():
    rows = op_table(FIRST, by="device").rows
    assert [(r.key, r.op, r.device, r.calls, r.total_ns) for r in rows] == [
        (CPU0, "", CPU0, 2, 630),
        (CPU1, "Neg", CPU1, 1, 50),
    ]


def test_large_sums_are_exact():
    huge = run(*(("x", "Neg", CPU0, 2**53 + 1, 2**53 + 1) for _ in range(3)))
    (row,) = op_table(huge).rows
    assert (row.total_ns, row.bytes) == (3 * (2**53 + 1),) * 2


def test_no_ops_give_no_rows():
    assert op_table(RunMetadata()).rows == ()
    assert op_table([]).total_ns == 0


def test_ops_that_took_no_time_have_no_share():
    (row,) = op_table(run(("x", "NoOp", CPU0, 0, 0))).rows
    assert (row.calls, row.share) == (1, 0.0)


def test_unknown_grouping_and_wrong_runs_are_refused():
    with pytest.raises(ValueError, match="op, name, device; it was 'thread'"):
        op_table(FIRST, by="thread")
    with pytest.raises(TypeError, match="runs must be a RunMetadata"):
        op_table("file.pb")


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in DATA.glob("*/run_metadata.pb"))
)
def test_recorded_runs_add_up(name):
    message = config_pb2.RunMetadata.FromString((DATA / name / "run_metadata.pb").read_bytes())
    nodes = [node for device in message.step_stats.dev_stats for node in device.node_stats]
    table = op_table(message, by="name")
    assert {row.key: row.calls for row in table} == Counter(node.node_name for node in nodes)
    assert table.total_ns == sum(row.total_ns for row in table)
    assert sum(row.share for row in table) == pytest.approx(1.0)
    assert [row.total_ns for row in table] == sorted((r.total_ns for r in table), reverse=True)
