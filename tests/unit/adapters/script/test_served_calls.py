"""What a server hands over of the calls in a window of the profiler, whole and cut.

The times are those of a recorded training on one machine, whose worker was stopped for some
milliseconds: its profiler was read while it waited for what the parameter server sent 50 ms later.
"""

from __future__ import annotations

import json

import pytest

from profiler_events import BASE, Host, done, kernel, process
from stepscope.adapters.tensorflow.capture.profiler import ProfiledBatch
from stepscope.adapters.tensorflow.script import served
from stepscope.analysis import WorkerRuns, network, workers_at
from stepscope.metadata import RunMetadata

WHOLE, CUT = 1_000_001, 1_000_002
LATER = 200_000_000
END = 2_000_000_000


def called(step, at):
    return "FunctionRun", at, at + 9_000, {"id": step}


def receive(node, start, end):
    return kernel(f"{node}:_Recv", start, end)


def worker():
    """Two calls; in the second the window ends before anything has arrived."""
    at = LATER
    waiting = [
        called(CUT, at - 10_000), process(at, at + 110_000, CUT), done("_SOURCE", at + 10, CUT),
        receive("MatMul/ReadVariableOp_1/_4", at + 17_876, at + 67_320),
        receive("MatMul/ReadVariableOp/_2", at + 69_994, at + 103_323),
    ]  # fmt: skip
    host = Host().thread(
        called(WHOLE, 90_000_000), process(90_010_000, 90_110_000, WHOLE),
        done("_SOURCE", 90_010_001, WHOLE), receive("MatMul/ReadVariableOp_1/_4", 90_017_000,
        90_060_000), receive("MatMul/ReadVariableOp/_2", 90_070_000, 90_100_000),
        *waiting,
    )  # fmt: skip
    return host.thread(
        done("MatMul/ReadVariableOp_1/_4", 90_700_000, WHOLE),
        done("MatMul/ReadVariableOp/_2", 90_710_000, WHOLE),
        process(90_720_000, 90_900_000, WHOLE),
        kernel("MatMul:MatMul", 90_730_000, 90_740_000), done("MatMul", 90_741_000, WHOLE),
        kernel("mul/_5:_Send", 90_750_000, 90_770_000), done("mul/_5", 90_771_000, WHOLE),
    )  # fmt: skip


def server():
    """The same two calls, both whole; the second began 50 ms after the worker's."""
    events, other = [], []
    for step, at in ((WHOLE, 90_300_000), (CUT, LATER + 50_384_025)):
        events += [
            called(step, at - 10_000), process(at, at + 170_000, step), done("_SOURCE", at, step),
            kernel("MatMul/ReadVariableOp_1:ReadVariableOp", at + 17_405, at + 22_062),
            done("MatMul/ReadVariableOp_1", at + 22_100, step),
            kernel("MatMul/ReadVariableOp_1/_3:_Send", at + 25_467, at + 135_621),
            done("MatMul/ReadVariableOp_1/_3", at + 135_700, step),
            kernel("MatMul/ReadVariableOp/_1:_Send", at + 141_961, at + 158_175),
            done("MatMul/ReadVariableOp/_1", at + 158_200, step),
            receive("mul/_6", at + 162_982, at + 165_000),
        ]  # fmt: skip
        other.append(done("mul/_6", at + 1_142_918, step))
    return Host().thread(*events).thread(*other)


@pytest.fixture
def recorded(tmp_path):
    """Writes what a server gives of a window, as `stepscope run` does; gives the directory."""

    def record(task, host):
        batch = ProfiledBatch(None, "", level_raised=True)
        batch.data = host.space.SerializeToString()
        given = []
        served._Served(given.append).hand_over(batch, (BASE, BASE + END))
        folder = tmp_path / "tasks" / task.replace(":", "")
        for number, recording in enumerate(given):
            metadata = RunMetadata()
            metadata.record(recording)
            place = folder / f"run_{number:06d}"
            place.mkdir(parents=True)
            metadata.save(place / "run_metadata.pb")
        said = {"task": task, "cluster": ["ps:0", "worker:0"], "ended": True}
        (folder / "worker.json").write_text(json.dumps(said))
        return [recording.completeness.losses for recording in given]

    record.folder = tmp_path / "tasks"
    return record


def clocks(folder):
    found = network(WorkerRuns(workers_at(folder)), "edge")
    return [(clock.task, clock.found, clock.offset_ns) for clock in found.clocks.rows], {
        (row.producer, row.source, row.target): row.calls for row in found.rows
    }


def test_a_receive_whose_end_nobody_saw_says_nothing_of_clocks(recorded):
    recorded("ps:0", server())
    recorded("worker:0", worker())
    told, rows = clocks(recorded.folder)
    assert told == [("ps:0", "reference", 0), ("worker:0", "measured", 0)]
    assert rows["MatMul/ReadVariableOp", "ps:0", "worker:0"] == 1
    assert rows["MatMul/ReadVariableOp_1", "ps:0", "worker:0"] == 1


def test_a_call_with_such_an_op_says_that_it_was_cut_however_long_the_window_was_silent(recorded):
    whole, cut = recorded("worker:0", worker())
    assert served._CUT in cut
    assert served._CUT not in whole
