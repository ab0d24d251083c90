"""Event files: all runs with tag and step, whoever wrote them, whole or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared_data import ARTEFACTS
from stepscope import _messages as pb
from stepscope.errors import UnreadableFileError
from stepscope.export import FileWriter
from stepscope.metadata import RunMetadata, iter_runs, load
from stepscope.metadata.wire.records import frame

DATA = Path(__file__).parents[2] / "data"
SHARED = ARTEFACTS / "events_filewriter"
SMALL = RunMetadata.FromString((DATA / "py_function" / "run_metadata.pb").read_bytes())
LARGE = RunMetadata.FromString((DATA / "mlp_adam_refvars" / "run_metadata.pb").read_bytes())


def written(folder):
    with FileWriter(folder) as writer:
        writer.add_run_metadata(SMALL, "first", 7)
        writer.add_summary(pb.Summary(value=[{"tag": "loss", "simple_value": 1.0}]), 8)
        writer.add_run_metadata(LARGE, "second", 9)
    (file,) = Path(folder).glob("*.tfevents.*")
    return file


def test_our_own(tmp_path):
    runs = load(written(tmp_path))
    assert [(run.tag, run.global_step, len(run.ops)) for run in runs] == [
        ("first", 7, 7),
        ("second", 9, 66),
    ]
    assert runs == [SMALL, LARGE]
    assert all(run.completeness.complete for run in runs)
    assert [run.name for run in iter_runs(tmp_path)] == ["first", "second"]
    again = RunMetadata.FromString(runs[1].SerializeToString())
    assert (again.tag, again.global_step, again.step_id) == ("second", 9, 9)


def test_one_run_is_a_list_as_well(tmp_path):
    with FileWriter(tmp_path) as writer:
        writer.add_run_metadata(SMALL, "only")
    (file,) = tmp_path.glob("*.tfevents.*")
    (run,) = load(file)
    assert run.tag == "only"


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the captured files")
def test_tensorflows_file():
    (file,) = SHARED.glob("*.tfevents.*")
    runs = load(file)
    assert [(run.tag, run.global_step, len(run.ops)) for run in runs] == [
        ("step000", 0, 10),
        ("step002", 2, 10),
        ("no_step", 0, 0),
    ]


@pytest.mark.tensorflow
def test_what_tensorflow_writes(tmp_path, tf):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        y = tf.constant([1.0, 2.0]) * tf.random.uniform([2])
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(y, options=options, run_metadata=metadata)
        with tf.summary.FileWriter(str(tmp_path), graph) as writer:
            writer.add_run_metadata(metadata, "traced", 3)
    (run,) = load(tmp_path)
    assert (run.tag, run.global_step) == ("traced", 3)
    assert run == metadata
    nodes = [node.node_name for node in metadata.step_stats.dev_stats[0].node_stats]
    assert sorted(run.ops.name) == sorted(
        nodes + [n.node_name for d in metadata.step_stats.dev_stats[1:] for n in d.node_stats]
    )


@pytest.mark.tensorflow
def test_what_tensorflow_2_exports(tmp_path, tensorflow):
    @tensorflow.function
    def double(x):
        return x + x

    writer = tensorflow.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        tensorflow.summary.trace_on(graph=True)
        double(tensorflow.constant(1.0))
        tensorflow.summary.trace_export("exported", step=5)
    writer.close()
    runs = load(tmp_path)
    assert {run.tag for run in runs} == {"exported"}
    assert {run.global_step for run in runs} == {5}
    assert any(len(run.function_graphs) for run in runs)


def test_a_file_cut_anywhere_has_the_records_before_the_cut(tmp_path):
    file = written(tmp_path)
    whole = file.read_bytes()
    second = whole.index(b"second")
    for length in range(second - 40, second + 40, 7):
        file.write_bytes(whole[:length])
        (run,) = load(file)
        assert run == SMALL
        (loss,) = run.completeness.losses
        assert loss.what == "bytes of the file"
        assert f"is damaged or cut at byte {length - loss.count} of {length}" in loss.reason


def test_a_damaged_record_is_passed_over_and_said(tmp_path):
    file = written(tmp_path)
    data = bytearray(file.read_bytes())
    data[data.index(b"first")] ^= 1
    file.write_bytes(data)
    (run,) = load(file)
    assert run.tag == "second"
    assert run.ops.name.tolist() == LARGE.ops.name.tolist()
    (loss,) = run.completeness.losses
    assert (loss.what, loss.count) == ("records of the file", 1)


def test_damage_inside_a_run_is_a_loss_of_that_run(tmp_path):
    content = LARGE.SerializeToString()[:5000]
    event = pb.Event(tagged_run_metadata={"tag": "cut", "run_metadata": content}, step=1)
    noise = pb.Event(tagged_run_metadata={"tag": "noise", "run_metadata": b"\xff" * 50}, step=2)
    file = tmp_path / "events.out.tfevents.1.x"
    file.write_bytes(b"".join(frame(e.SerializeToString()) for e in (event, noise)))
    cut, broken = load(file)
    assert 1 < len(cut.ops) < 66
    assert "run 'cut' in events.out.tfevents.1.x is damaged" in cut.completeness.losses[0].reason
    assert len(broken.ops) == 0
    assert "its 50 bytes are no RunMetadata" in broken.completeness.losses[0].reason


def test_a_file_without_runs_says_what_it_has(tmp_path):
    with FileWriter(tmp_path) as writer:
        writer.add_summary(pb.Summary(value=[{"tag": "loss", "simple_value": 1.0}]), 8)
    (file,) = tmp_path.glob("*.tfevents.*")
    with pytest.raises(UnreadableFileError, match="whose 2 readable events hold no run metadata"):
        load(file)
    with pytest.raises(UnreadableFileError, match="no run in this directory"):
        load(tmp_path)
