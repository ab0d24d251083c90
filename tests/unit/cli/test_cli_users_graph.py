"""`stepscope coverage` of event files and logdirs finds the graph in them."""

import json

import pytest

import stepscope.tf1 as tf1
from stepscope._messages import MetaGraphDef
from stepscope.export import FileWriter, TensorBoardWriter
from stepscope.metadata import Completeness, Recording, RunMetadata
from stepscope.metadata.readers.users_graph import _in_events
from stepscope.recorder.budget import Level
from stepscope.recorder.kept_runs import given_up
from stepscope.store import Store


def counts(command, *arguments):
    code, out, said = command("coverage", *arguments, "--json")
    assert code == 0, said
    return json.loads(out)["counts"]


@pytest.fixture
def logdir(tmp_path):
    """Two runs of two graphs, each in an event file of its own, as programs write them."""
    for name, unused in (("train", 1), ("eval", 3)):
        with tf1.Graph().as_default() as graph, tf1.Session() as session:
            x = tf1.placeholder(tf1.float32, [2], name=f"{name}_x")
            y = tf1.square(x, name=f"{name}_y")
            for i in range(unused):
                tf1.negative(y, name=f"unused{i}")
            metadata = RunMetadata()
            options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
            session.run(y, {x: [1.0, 2.0]}, options=options, run_metadata=metadata)
        writer = FileWriter(str(tmp_path / "logs" / name), graph)
        writer.add_run_metadata(metadata, name, 1)
        writer.close()
    return tmp_path / "logs"


def test_the_graph_in_an_event_file(logdir, command):
    expected = {"measured": 1, "fed": 1, "pruned": 1}
    (train,) = (logdir / "train").iterdir()
    (other,) = (logdir / "eval").iterdir()
    assert counts(command, train) == expected
    assert counts(command, logdir / "train") == expected
    assert counts(command, train, train) == expected
    # Of the graphs in a logdir, the one that the run's ops are in.
    assert counts(command, logdir, "--run", 1) == expected
    assert counts(command, logdir, "--run", 0) == {**expected, "pruned": 3}
    code, _, said = command("coverage", train, other)
    assert code == 2
    assert "an event file without the graph of this run as it was written" in said


def test_the_graph_in_another_event_file_of_the_directory(logdir, command, tmp_path):
    run = tmp_path / "alone"
    writer = FileWriter(str(run))
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        y = tf1.add(tf1.constant(1.0), 2.0)
        metadata = RunMetadata()
        session.run(y, options=tf1.RunOptions(trace_level=3), run_metadata=metadata)
    writer.add_run_metadata(metadata, "step", 1)
    writer.close()
    (file,) = run.iterdir()
    code, _, said = command("coverage", file)
    assert code == 2
    assert "no event file with the graph of this run as it was written: give" in said
    # The graph that was executed has lost what coverage is to account for.
    with TensorBoardWriter(run, filename_suffix=".executed") as executed:
        executed.add_run(metadata, 1)
    assert command("coverage", file)[0] == 2
    FileWriter(str(run), graph, filename_suffix=".graph").close()
    assert counts(command, file) == counts(command, run)


def test_the_graph_of_a_checkpoint_and_of_a_directory(logdir, command, tmp_path):
    (train,) = (logdir / "train").iterdir()
    graph = _in_events(train.read_bytes())[0]
    meta = MetaGraphDef()
    meta.graph_def.CopyFrom(graph)
    (tmp_path / "model.ckpt-1.meta").write_bytes(meta.SerializeToString())
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "graph.pb").write_bytes(graph.SerializeToString())
    expected = counts(command, train)
    assert counts(command, train, "model.ckpt-1.meta") == expected
    assert counts(command, train, "saved") == expected
    code, _, said = command("coverage", train, logdir)
    assert code == 2
    assert "a directory without graph.pb or graph.pbtxt" in said


@pytest.mark.tensorflow
def test_the_graph_that_tensorflow_wrote(tmp_path, command, tf):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        y = tf.matmul(x, x, name="y")
        tf.square(y, name="unused")
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(y, {x: [[1.0, 2.0]] * 2}, options=options, run_metadata=metadata)
        writer = tf.summary.FileWriter(str(tmp_path / "logs"), graph)
        writer.add_run_metadata(metadata, "step 1", 1)
        writer.close()
    (file,) = (tmp_path / "logs").iterdir()
    assert counts(command, file) == {"measured": 1, "fed": 1, "pruned": 1}


def test_of_a_run_whose_length_alone_was_noted_the_reason_is_said(command, tmp_path):
    losses = given_up(Level.LENGTH, 0.05)
    recording = Recording(engine="tensorflow", completeness=Completeness(losses))
    (tmp_path / "runs").mkdir()
    with Store(tmp_path / "runs") as store:
        store.add(RunMetadata.of(recording))
    code, _, said = command("coverage", "runs", "--run", "0")
    assert (code, said) == (2, f"stepscope: error: run_000001 has no ops: {losses[0].reason}\n")
