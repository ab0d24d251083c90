"""Loading files: whole, damaged, foreign."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto.graph_pb2 import GraphDef

from stepscope.errors import StepscopeError, UnreadableFileError
from stepscope.metadata import RunMetadata, load
from stepscope.metadata.readers import run_metadata_pb

DATA = Path(__file__).parents[2] / "data"
MLP = (DATA / "mlp_adam_refvars" / "run_metadata.pb").read_bytes()
WHOLE = RunMetadata.FromString(MLP)
PATH = Path("run_metadata.pb")
# The two lengths before it, then the name of the device, which is the first thing to keep.
FIRST_ENTRY = MLP.index(b"CPU:0") + len(b"CPU:0")


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
            run_metadata_pb.read(PATH, MLP[:length])
        return
    metadata = run_metadata_pb.read(PATH, MLP[:length])
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
    metadata = run_metadata_pb.read(PATH, data)
    assert len(metadata.ops) >= 1
    assert len(metadata.allocations) >= 0
    assert isinstance(metadata.peak_bytes(), int)


@given(st.binary(max_size=300))
def test_random_bytes_are_a_clear_error_or_a_run(data):
    try:
        metadata = run_metadata_pb.read(PATH, data)
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
        ("a.txt", b"just some words\n", "is text; Stepscope reads serialised RunMetadata"),
        ("a.txt", ("é" * 5000).encode(), "is text"),
        ("t.json", json.dumps({"traceEvents": []}).encode(), "is a Chrome trace; Stepscope reads"),
        ("t.json", b'[{"ph": "X", "ts": 1}]', "is a Chrome trace"),
        ("c.json", b'{"a": 1}', "is JSON"),
        ("p.png", b"\x89PNG\r\n\x1a\n\x00\x00", "is a PNG image"),
        ("m.gz", b"\x1f\x8b\x08\x00", "gzip-compressed; decompress it first"),
        ("vm.xplane.pb", b"\x0a\x02\x08\x01", "is a profile of TensorFlow's profiler (xplane)"),
        ("r.pbtxt", b"step_stats {\n}\n", "is a message in protobuf's text form"),
        ("g.pb", GraphDef(node=[{"name": "Placeholder", "op": "Placeholder"}] * 3), "RunMetadata"),
        ("noise.pb", bytes(range(128, 256)) * 4, "not a serialised RunMetadata"),
    ],
)
def test_what_is_no_run_is_named(tmp_path, name, data, says):
    raw = data if isinstance(data, bytes) else data.SerializeToString()
    with pytest.raises(UnreadableFileError) as error:
        load(write(tmp_path, raw, name))
    assert name in str(error.value)
    assert says in str(error.value)


def test_event_files_are_named(tmp_path, tf):
    with tf.io.TFRecordWriter(str(tmp_path / "events.out.tfevents.1.x")) as writer:
        writer.write(tf.Event(file_version="brain.Event:2").SerializeToString())
    with pytest.raises(UnreadableFileError, match="is an event file or another file of framed rec"):
        load(tmp_path / "events.out.tfevents.1.x")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StepscopeError, match=r"gone.pb: there is no such file or directory"):
        load(tmp_path / "gone.pb")


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


def test_a_directory_without_runs_says_what_was_looked_for(tmp_path):
    with pytest.raises(
        UnreadableFileError, match=r"no run in this directory; looked for \*run_met"
    ):
        load(tmp_path)
