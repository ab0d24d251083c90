"""Loading files: whole, damaged, foreign."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto.graph_pb2 import GraphDef

from stepscope import _messages as pb
from stepscope.errors import StepscopeError, UnreadableFileError
from stepscope.metadata import RunMetadata, iter_runs, load
from stepscope.metadata.readers import run_metadata_pb

DATA = Path(__file__).parents[2] / "data"
MLP = (DATA / "mlp_adam_refvars" / "run_metadata.pb").read_bytes()
WHOLE = RunMetadata.FromString(MLP)
PATH = Path("run_metadata.pb")
GRAPH = GraphDef(node=[{"name": "x", "op": "Placeholder"}] * 3)
# The two lengths before it, then the name of the device, which is the first thing to keep.
FIRST_ENTRY = MLP.index(b"CPU:0") + len(b"CPU:0")


def read(data):
    ((_, metadata),) = run_metadata_pb.runs(PATH, data)
    return metadata


def write(tmp_path, data, name="run_metadata.pb"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_tensorflows_file(data_dir):
    metadata = load(data_dir / "mlp_adam_refvars" / "run_metadata.pb")
    assert len(metadata.ops) == 66
    assert metadata.completeness.complete
    assert len(metadata.cost_graph.node) == 67
    assert load(str(data_dir / "py_function" / "run_metadata.pb")).ops.op[2] == "PyFunc"


@given(st.integers(1, len(MLP) - 1))
def test_a_cut_file_gives_what_stands_before_the_cut(length):
    if length < FIRST_ENTRY:
        with pytest.raises(UnreadableFileError, match="damaged before its first whole entry"):
            read(MLP[:length])
        return
    metadata = read(MLP[:length])
    names = list(metadata.ops.name)
    assert names == list(WHOLE.ops.name)[: len(names)]
    assert metadata.ops.start_ns.tolist() == WHOLE.ops.start_ns.tolist()[: len(names)]
    if metadata.completeness.complete:
        # Cut exactly between two fields: nothing in TensorFlow's bytes tells.
        assert RunMetadata.FromString(MLP[:length]) == metadata
    else:
        loss = metadata.completeness.losses[-1]
        assert loss.what == "bytes of the file"
        assert 0 <= loss.count <= length
        assert "run_metadata.pb is damaged or cut at byte" in loss.reason
    RunMetadata.FromString(metadata.SerializeToString())


@given(st.integers(2000, 20000), st.binary(min_size=1, max_size=40))
def test_damage_in_the_middle_never_crashes(position, noise):
    data = MLP[:position] + noise + MLP[position + len(noise) :]
    metadata = read(data)
    assert len(metadata.ops) >= 1
    assert len(metadata.allocations) >= 0
    assert isinstance(metadata.peak_bytes(), int)


@given(st.binary(max_size=300))
def test_random_bytes_are_a_clear_error_or_a_run(data):
    try:
        metadata = read(data)
    except UnreadableFileError:
        return
    assert len(metadata.ops) == len(metadata.ops.name)


def test_damage_is_placed(tmp_path):
    loss = load(write(tmp_path, MLP[:5000])).completeness.losses[0]
    assert loss.what == "bytes of the file"
    assert "of 5000, in " in loss.reason
    assert "DeviceStepStats.node_stats" in loss.reason
    assert loss.count > 0


def test_our_files_tell_when_they_were_cut_between_fields(tmp_path):
    path = WHOLE.save(tmp_path / "run_metadata.pb")
    whole = path.read_bytes()
    graph = WHOLE.SerializeToString().index(WHOLE.cost_graph.SerializeToString()[:50])
    assert graph > 0
    only_step_stats = RunMetadata(step_stats=WHOLE.step_stats).ByteSize()
    head = len(whole) - WHOLE.ByteSize()
    path.write_bytes(whole[: head + only_step_stats])
    metadata = load(path)
    assert len(metadata.ops) == 66
    (loss,) = metadata.completeness.losses
    assert loss.count == len(whole) - head - only_step_stats
    assert f"was cut after {head + only_step_stats} of {len(whole)} bytes" in loss.reason


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("run_metadata.pb", b"", "the file is empty; either writing it was interrupted, or the ru"),
        ("a.txt", b"just some words\n", "is text; Stepscope reads stores of runs"),
        ("a.txt", ("é" * 5000).encode(), "is text"),
        ("t.json", json.dumps({"traceEvents": []}).encode(), "is a Chrome trace without events"),
        ("t.json", b'[{"ph": "X", "ts": 1, "dur": -1}]', "without a single slice"),
        ("c.json", b'{"a": 1}', "is JSON that is no trace"),
        ("p.png", b"\x89PNG\r\n\x1a\n\x00\x00", "is a PNG image"),
        ("m.gz", b"\x1f\x8b\x08\x00", "gzip-compressed, and inside it no Chrome trace"),
        ("vm.xplane.pb", b"\x0a\x02\x08\x01", "not a profile (XSpace)"),
        ("r.pbtxt", b"step_stats {\n}\n", "is a message in protobuf's text form"),
        ("g.pb", GRAPH.SerializeToString(), "a GraphDef of 3 nodes, not a RunMetadata"),
        ("noise.pb", bytes(range(128, 256)) * 4, "not a serialised RunMetadata"),
        ("hollow.pb", b"\x12\x00" * 400_000, "most of it is entries without content"),
        ("x.xplane.pb", b"\x12\x00" * 400_000, "most of it is entries without content"),
    ],
)
def test_what_is_no_run_is_named(tmp_path, name, data, says):
    with pytest.raises(UnreadableFileError) as error:
        load(write(tmp_path, data, name))
    assert name in str(error.value)
    assert says in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StepscopeError, match=r"gone.pb: there is no such file or directory"):
        load(tmp_path / "gone.pb")


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.pb")
    with pytest.raises(UnreadableFileError, match="is neither a file nor a directory"):
        load(tmp_path / "pipe.pb")


def test_a_directory_gives_its_runs_in_order(tmp_path):
    for number in (10, 2, 1):
        metadata = RunMetadata()
        metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add(node_name=f"n{number}")
        folder = tmp_path / f"run_{number}"
        folder.mkdir()
        metadata.save(folder / "run_metadata.pb")
    (tmp_path / "timeline.json").write_text("{}")
    runs = load(tmp_path)
    assert [run.ops.name[0] for run in runs] == ["n1", "n2", "n10"]


def one_op(name):
    metadata = RunMetadata()
    metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add(node_name=name)
    return metadata


def test_runs_of_a_directory_come_one_at_a_time_with_their_names(tmp_path):
    for number in range(3):
        (tmp_path / f"run_{number}").mkdir()
        one_op(f"n{number}").save(tmp_path / f"run_{number}" / "run_metadata.pb")
    one_op("other").save(tmp_path / "my_run_metadata_7.pb")
    runs = iter_runs(tmp_path)
    first = next(runs)
    assert (first.name, list(first.metadata.ops.name)) == ("my_run_metadata_7", ["other"])
    (tmp_path / "run_1" / "run_metadata.pb").unlink()
    (tmp_path / "run_1" / "run_metadata.pb").write_bytes(b"\xff" * 100)
    rest = list(runs)
    assert [run.name for run in rest] == ["run_0", "run_1", "run_2"]
    assert [list(run.metadata.ops.name) for run in rest] == [["n0"], [], ["n2"]]
    (loss,) = rest[1].metadata.completeness.losses
    assert (loss.what, loss.count) == ("run", 1)
    assert "not a serialised RunMetadata" in loss.reason


def test_traces_in_a_directory_count_only_where_there_is_nothing_else(tmp_path):
    trace = json.dumps([{"ph": "X", "ts": 1, "dur": 2, "name": "drawn", "pid": 0, "tid": 0}])
    (tmp_path / "timeline.json").write_text(trace)
    (tmp_path / "settings.json").write_text('{"a": [1, 2]}')
    assert [run.name for run in iter_runs(tmp_path)] == ["timeline"]
    one_op("recorded").save(tmp_path / "run_metadata.pb")
    assert [list(run.ops.name) for run in load(tmp_path)] == [["recorded"]]


def test_a_directory_without_runs_says_what_was_looked_for(tmp_path):
    with pytest.raises(
        UnreadableFileError, match=r"no run in this directory; looked for \*\.stepscope, \*run_met"
    ):
        load(tmp_path)


def large(nodes):
    """The captured run with its nodes again and again, in far more than a megabyte."""
    message = pb.RunMetadataMessage.FromString(MLP)
    rows = message.step_stats.dev_stats[0].node_stats
    captured = list(rows)
    while len(rows) < nodes:
        rows.extend(captured)
    return message


def test_a_large_file_is_the_same_as_a_small_one():
    message = large(6000)
    data = message.SerializeToString()
    metadata = read(data)
    assert len(metadata.ops) == len(message.step_stats.dev_stats[0].node_stats)
    assert metadata.ops[:66].start_ns.tolist() == WHOLE.ops.start_ns.tolist()
    assert metadata.ops.label[-1] == WHOLE.ops.label[-1]
    assert len(metadata.cost_graph.node) == 67
    assert metadata == message
    metadata.step_stats.dev_stats[0].node_stats[0].node_name = "renamed"
    assert metadata.ops.name[0] == "renamed"


def test_a_large_file_that_was_cut_gives_what_stands_before_the_cut():
    message = large(6000)
    message.ClearField("partition_graphs")
    message.ClearField("cost_graph")
    data = message.SerializeToString()
    metadata = read(data[: len(data) * 2 // 3])
    names = metadata.ops.name.tolist()
    assert 3500 < len(names) < 4500
    nodes = message.step_stats.dev_stats[0].node_stats
    assert names == [node.node_name for node in nodes[: len(names)]]
    (loss,) = metadata.completeness.losses
    assert "DeviceStepStats.node_stats" in loss.reason


def test_captures_are_written_as_they_were_read(capture):
    data, facts = capture
    metadata = read(data)
    again = metadata.SerializeToString()
    assert len(again) == len(data)
    assert pb.RunMetadataMessage.FromString(again) == pb.RunMetadataMessage.FromString(data)
    assert len(metadata.ops) == facts["num_nodes"]
    assert len(metadata.ops.tensors) == facts["output_entries"]
    assert len(metadata.ops.memory) == facts["memory_entries"]
