"""`RunMetadata.combine`: several runs as one."""

import numpy as np
import pytest

import stepscope
from stepscope import tf1
from stepscope.metadata import (
    AllocationColumns,
    Completeness,
    InFlight,
    Loss,
    OpColumns,
    Overhead,
    Recording,
    RunMetadata,
    Status,
)

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def run(step_id=0, names="ab", *, start=100, **recorded):
    count = len(names)
    starts = start + 10 * np.arange(count)
    ops = OpColumns.build(
        name=list(names), op=["Neg"] * count, device=[CPU] * count, thread=[1] * count,
        scheduled_ns=starts, start_ns=starts, end_ns=starts + 5, step=step_id,
    )  # fmt: skip
    return RunMetadata.of(
        Recording(**{"engine": "embedded", "step_id": step_id, "ops": lambda: ops} | recorded)
    )


def test_runs_of_different_steps_keep_their_numbers():
    whole = RunMetadata.combine([run(3, "ab"), run(8, "cde")])
    assert whole.ops.name.tolist() == ["a", "b", "c", "d", "e"]
    assert whole.ops.step.tolist() == [3, 3, 8, 8, 8]
    assert (whole.engine, whole.step_id) == ("embedded", 3)


def test_runs_that_share_a_number_are_told_apart_by_their_place():
    whole = RunMetadata.combine([run(3, "ab"), run(3, "c"), run(7, "d")])
    assert whole.ops.step.tolist() == [0, 0, 1, 2]


def test_allocations_stand_under_the_step_of_their_ops():
    def memory(time_ns, size):
        return lambda: AllocationColumns.build(
            name=["a", "a"], device=[CPU] * 2, time_ns=[time_ns, time_ns + 9], bytes=[size, -size]
        )

    runs = [run(1, allocations=memory(200, 64)), run(1, allocations=memory(100, 32))]
    rows = RunMetadata.combine(runs).allocations
    assert rows.time_ns.tolist() == [100, 109, 200, 209]
    assert rows.bytes.tolist() == [32, -32, 64, -64]
    assert rows.step.tolist() == [1, 1, 0, 0]


def test_the_peak_is_the_highest_of_the_runs_and_no_sum():
    runs = [run(1, peak_bytes=lambda: {"": 70, CPU: 70}), run(2, peak_bytes=lambda: {CPU: 90})]
    whole = RunMetadata.combine(runs)
    assert whole.peak_bytes() == whole.peak_bytes("/cpu:0") == 90
    assert whole.device_peaks() == {CPU: 90}


def test_losses_are_added_up_and_the_first_failure_is_the_status():
    full = "the buffer was full"
    runs = [
        run(1, completeness=Completeness((Loss("spans", 2, full),))),
        run(2, status=Status("ABORTED", "stopped", (InFlight("b"),))),
        run(3, status=Status("CANCELLED", "later")),
        run(4, completeness=Completeness((Loss("spans", 3, full), Loss("runs", 0, "cut")))),
    ]
    whole = RunMetadata.combine(runs)
    assert whole.completeness.losses == (Loss("spans", 5, full), Loss("runs", 0, "cut"))
    assert (whole.status.code, whole.status.message) == ("ABORTED", "stopped")
    assert whole.status.in_flight == ["b"]


def test_overhead_is_of_all_runs_together():
    runs = [run(1, overhead=Overhead(10, 0.1)), run(2, overhead=Overhead(30, 0.1))]
    assert RunMetadata.combine(runs).overhead == Overhead(40, 0.1)


def test_sources_and_graphs_are_those_of_all():
    runs = [
        run(1, sources=lambda: {"a": "train.py:1"}),
        run(2, sources=lambda: {"a": "other.py:9", "c": "train.py:3"}),
    ]
    assert RunMetadata.combine(runs).sources == {"a": "train.py:1", "c": "train.py:3"}


def test_what_is_recorded_later_does_not_show():
    first = run(1, "ab")
    whole = RunMetadata.combine([first])
    first.record(Recording(engine="another"))
    assert whole.engine == "embedded"
    assert whole.ops.name.tolist() == ["a", "b"]


def test_nothing_to_combine():
    whole = RunMetadata.combine([])
    assert (len(whole.ops), whole.status.ok, whole.peak_bytes()) == (0, True, 0)


def test_what_is_no_run_is_refused():
    with pytest.raises(TypeError, match=r"expected a RunMetadata .*, found builtins\.int"):
        RunMetadata.combine([run(), 7])


def test_runs_of_the_engine_saved_and_loaded(tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as session:
        product = tf1.matmul(tf1.ones([8, 8]), tf1.ones([8, 8]), name="product")
        runs = []
        for _ in range(3):
            runs.append(RunMetadata())
            options = stepscope.RunOptions(trace_level="FULL_TRACE", output_partition_graphs=True)
            session.run(product, options=options, run_metadata=runs[-1])
    loaded = stepscope.load(RunMetadata.combine(runs).save(tmp_path / "whole.pb"))
    steps = [one.step_id for one in runs]
    assert loaded.ops.step[loaded.ops.name == "product"].tolist() == steps
    assert len(loaded.partition_graphs) == len(runs[0].partition_graphs)
    assert loaded.peak_bytes() == max(one.peak_bytes() for one in runs)
    assert loaded.run_options == runs[0].run_options


@pytest.mark.tensorflow
def test_tensorflows_message_is_taken(tf):
    theirs = tf.compat.v1.RunMetadata.FromString(run(1, "ab").SerializeToString())
    whole = RunMetadata.combine([theirs, run(2, "c")])
    assert whole.ops.name.tolist() == ["a", "b", "c"]
    assert whole.ops.step.tolist() == [1, 1, 2]
