"""Where the time went."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tensorboard.compat.proto import config_pb2

from stepscope.analysis import OpRow, op_profile
from stepscope.metadata import OpColumns, Recording, RunMetadata

CPU0, CPU1 = "/device:CPU:0", "/device:CPU:1"
DATA = Path(__file__).parents[3] / "data"


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
    table = op_profile([FIRST, SECOND])
    assert list(table) == [
        OpRow(
            *("MatMul", "MatMul", CPU0, 2), total_ns=900, self_ns=900, covered_ns=600, share=0.9,
            mean_ns=450.0, max_ns=600, p50_ns=450.0, p90_ns=570.0, p99_ns=597.0, bytes=128,
        ),
        OpRow(
            *("Neg", "Neg", "", 3), total_ns=100, self_ns=100, covered_ns=80, share=0.1,
            mean_ns=100 / 3, max_ns=50, p50_ns=50.0, p90_ns=74.0, p99_ns=79.4, bytes=24,
        ),
    ]  # fmt: skip
    assert (table.by, table.runs, table.calls, table.total_ns) == ("type", 2, 5, 1000)
    assert len(table) == 2


def test_by_name_knows_op_and_device():
    rows = op_profile({"x": FIRST, "y": SECOND}, by="name").rows
    assert [(r.key, r.op, r.device, r.calls, r.total_ns) for r in rows] == [
        ("mm", "MatMul", CPU0, 2, 900),
        ("a", "Neg", CPU0, 2, 50),
        ("b", "Neg", CPU1, 1, 50),
    ]


def test_by_device():
    rows = op_profile(FIRST, by="device").rows
    assert [(r.key, r.op, r.device, r.calls, r.total_ns) for r in rows] == [
        (CPU0, "", CPU0, 2, 630),
        (CPU1, "Neg", CPU1, 1, 50),
    ]


def test_large_sums_are_exact():
    huge = run(*(("x", "Neg", CPU0, 2**53 + 1, 2**53 + 1) for _ in range(3)))
    (row,) = op_profile(huge).rows
    assert (row.total_ns, row.bytes) == (3 * (2**53 + 1),) * 2


def test_no_ops_give_no_rows():
    assert op_profile(RunMetadata()).rows == ()
    assert op_profile([]).total_ns == 0


def test_ops_that_took_no_time_have_no_share():
    (row,) = op_profile(run(("x", "NoOp", CPU0, 0, 0))).rows
    assert (row.calls, row.share) == (1, 0.0)


def test_unknown_grouping_and_wrong_runs_are_refused():
    with pytest.raises(ValueError, match="device, thread, scope; it was 'colour'"):
        op_profile(FIRST, by="colour")
    with pytest.raises(TypeError, match="runs must be a RunMetadata"):
        op_profile("file.pb")


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in DATA.glob("*/run_metadata.pb"))
)
def test_recorded_runs_add_up(name):
    message = config_pb2.RunMetadata.FromString((DATA / name / "run_metadata.pb").read_bytes())
    nodes = [node for device in message.step_stats.dev_stats for node in device.node_stats]
    table = op_profile(message, by="name")
    assert {row.key: row.calls for row in table} == Counter(node.node_name for node in nodes)
    assert table.total_ns == sum(row.total_ns for row in table)
    assert sum(row.share for row in table) == pytest.approx(1.0)
    assert [row.total_ns for row in table] == sorted((r.total_ns for r in table), reverse=True)


def recorded(rows, sources=None, at=0):
    """A run of `(name, op, thread, start, end)` after `at`, all on one device."""
    names, ops, threads, starts, ends = zip(*rows, strict=True)
    starts, ends = ([at + time for time in times] for times in (starts, ends))
    columns = OpColumns.build(
        name=names, op=ops, device=[CPU0] * len(rows), thread=threads,
        scheduled_ns=starts, start_ns=starts, end_ns=ends, thread_names={7: "worker"},
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="test", ops=lambda: columns, sources=lambda: sources or {}))
    return metadata


def test_self_time_leaves_out_what_ran_nested_on_the_same_thread():
    outer = recorded(
        [("call", "Call", 7, 0, 100), ("in", "Neg", 7, 10, 40), ("beside", "Exp", 8, 10, 90)]
    )
    rows = {row.key: row for row in op_profile(outer)}
    assert (rows["Call"].total_ns, rows["Call"].self_ns) == (100, 70)
    assert (rows["Neg"].total_ns, rows["Neg"].self_ns) == (30, 30)
    profile = op_profile(outer)
    assert (profile.total_ns, profile.self_ns, profile.covered_ns) == (210, 180, 100)
    assert profile.parallelism == 1.8
    assert sum(row.share for row in profile) == pytest.approx(1)


def test_spans_of_an_unknown_thread_are_not_taken_for_nested():
    run = recorded([("a", "A", 0, 0, 100), ("b", "B", 0, 10, 40)])
    assert [row.self_ns for row in op_profile(run)] == [100, 30]


def test_time_covered_counts_overlap_once():
    run = recorded([("a", "A", 7, 0, 100), ("b", "A", 8, 50, 120), ("c", "A", 8, 200, 210)])
    (row,) = op_profile(run)
    assert (row.total_ns, row.covered_ns) == (180, 130)


def test_by_scope_thread_and_source():
    run = recorded(
        [("net/a", "A", 7, 0, 10), ("net/b", "B", 7, 10, 30), ("c", "C", 0, 30, 35)],
        {"net/a": "model.py:3", "net/b": "model.py:3"},
    )
    times = lambda by: {row.key: row.total_ns for row in op_profile(run, by)}  # noqa: E731
    assert times("scope") == {"net": 30, "(top)": 5}
    assert times("thread") == {"worker 7": 30, "(unknown)": 5}
    assert times("line") == {"model.py:3": 30, "(unknown)": 5}
    assert times("source") == times("line")
    assert times("file") == {"model.py": 30, "(unknown)": 5}


def test_by_function_of_the_program(tmp_path):
    file = tmp_path / "model.py"
    file.write_text("x = 1\n\nclass Net:\n    def call(self):\n        return x\n")
    gone = tmp_path / "gone.py"
    run = recorded(
        [("a", "A", 7, 0, 10), ("b", "B", 7, 10, 30), ("c", "C", 7, 30, 35)],
        {"a": f"{file}:5", "b": f"{file}:1", "c": f"{gone}:2"},
        at=file.stat().st_mtime_ns + 1,
    )
    assert {row.key: row.total_ns for row in op_profile(run, "function")} == {
        f"{file}:Net.call": 10,
        f"{file}:<module>": 20,
        f"{gone}:(the file is not here)": 5,
    }
    earlier = recorded([("a", "A", 7, 0, 10)], {"a": f"{file}:5"}, at=1)
    assert [row.key for row in op_profile(earlier, "function")] == [
        f"{file}:(the file changed since)"
    ]


def test_a_profile_turns_into_plain_values_and_escapes_names():
    pandas = pytest.importorskip("pandas")
    profile = op_profile(recorded([("<b>x", "<script>", 7, 0, 10)]))
    assert profile.to_dict()["rows"][0]["key"] == "<script>"
    assert '"total_ns": 10' in profile.to_json()
    frame = profile.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc[0, "total_ns"] == 10
    assert "<script>" not in profile._repr_html_()
    assert "&lt;script&gt;" in profile._repr_html_()
