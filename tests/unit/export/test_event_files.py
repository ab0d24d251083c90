"""Event files, read back by TensorBoard and by TensorFlow."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from tensorboard.compat.proto import (
    config_pb2,
    event_pb2,
    graph_pb2,
    meta_graph_pb2,
    step_stats_pb2,
    summary_pb2,
)

from stepscope.export import EventFileWriter, FileWriter
from stepscope.metadata import Recording, RunMetadata, Status


def graph(*names):
    message = graph_pb2.GraphDef()
    for name in names:
        message.node.add(name=name, op="NoOp")
    message.versions.producer = 1
    return message


def metadata(node="mm", start=1000):
    message = config_pb2.RunMetadata()
    message.step_stats.dev_stats.add(device="/device:CPU:0").node_stats.add(
        node_name=node, all_start_micros=start, all_end_rel_micros=5
    )
    return message


def scalar(tag, value, plugin=""):
    summary = summary_pb2.Summary()
    item = summary.value.add(tag=tag, simple_value=value)
    if plugin:
        item.metadata.plugin_data.plugin_name = plugin
    return summary


def read(path, tf):
    """The events as TensorFlow's own iterator gives them, in our message class."""
    return [
        event_pb2.Event.FromString(event.SerializeToString())
        for event in tf.compat.v1.train.summary_iterator(str(path))
    ]


def load(logdir):
    """What TensorBoard makes of a directory."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(logdir))
    accumulator.Reload()
    return accumulator


class Graph:
    """A graph as users have it: an object that can write itself down."""

    def as_graph_def(self, add_shapes=False):
        return graph("with_shapes" if add_shapes else "without")


def test_the_file_has_tensorflows_name_and_first_record(tf, tmp_path):
    before = int(time.time())
    with FileWriter(tmp_path / "logs" / "train", filename_suffix=".mine") as writer:
        assert writer.get_logdir() == str(tmp_path / "logs" / "train")
    (path,) = (tmp_path / "logs" / "train").iterdir()
    match = re.fullmatch(r"events\.out\.tfevents\.(\d{10})\.(.+)\.mine", path.name)
    assert before <= int(match[1]) <= time.time()
    assert match[2] == socket.gethostname()
    (first,) = read(path, tf)
    assert first.file_version == "brain.Event:2"
    assert before <= first.wall_time <= time.time()


def test_the_same_calls_give_the_same_events_as_tensorflow(tf, tmp_path):
    v1 = tf.compat.v1

    def use(writer):
        writer.add_run_metadata(
            v1.RunMetadata.FromString(metadata().SerializeToString()), "step000"
        )
        writer.add_summary(v1.Summary.FromString(scalar("loss", 2.5).SerializeToString()), 3)
        writer.add_summary(scalar("loss", 1.5).SerializeToString(), global_step=4)
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.STOP), 5)
        writer.add_graph(tf_graph, global_step=6)
        writer.add_event(v1.Event(wall_time=12.5, step=7))
        writer.close()

    with v1.Graph().as_default() as tf_graph:
        v1.add(v1.placeholder("float32", [2], name="in"), 1.0, name="out")
        use(v1.summary.FileWriter(str(tmp_path / "theirs"), tf_graph))
    use(FileWriter(tmp_path / "ours", tf_graph))
    (ours,), (theirs,) = ((tmp_path / side).iterdir() for side in ("ours", "theirs"))
    kept = []
    for event in (found := read(ours, tf)) + (expected := read(theirs, tf)):
        kept.append(event.wall_time)
        event.ClearField("wall_time")
        event.ClearField("source_metadata")
        if event.meta_graph_def:
            # TensorFlow adds its own op definitions; what is in the graph is the same.
            graph_def = meta_graph_pb2.MetaGraphDef.FromString(event.meta_graph_def).graph_def
            event.meta_graph_def = graph_def.SerializeToString(deterministic=True)
        if event.graph_def:
            # Attributes are a map, and come in any order.
            graph_def = graph_pb2.GraphDef.FromString(event.graph_def)
            event.graph_def = graph_def.SerializeToString(deterministic=True)
    assert found == expected
    assert [event.WhichOneof("what") for event in found] == [
        "file_version", "graph_def", "meta_graph_def", "tagged_run_metadata", "summary", "summary",
        "session_log", "graph_def", None,
    ]  # fmt: skip
    assert kept[8] == kept[17] == 12.5
    assert all(abs(at - time.time()) < 60 for at in kept[:8])


def test_tensorboard_reads_graph_runs_and_scalars(tmp_path):
    with FileWriter(tmp_path, graph("a", "b")) as writer:
        writer.add_run_metadata(metadata("one"), "step0", global_step=0)
        writer.add_run_metadata(metadata("two"), "step1", global_step=1)
        for step in range(3):
            writer.add_summary(scalar("loss", step / 2), step)
    seen = load(tmp_path)
    assert [node.name for node in seen.Graph().node] == ["a", "b"]
    assert seen.Tags()["run_metadata"] == ["step0", "step1"]
    (device,) = seen.RunMetadata("step1").step_stats.dev_stats
    assert device.node_stats[0].node_name == "two"
    assert [(s.step, s.value) for s in seen.Scalars("loss")] == [(0, 0.0), (1, 0.5), (2, 1.0)]


def test_a_reused_tag_is_refused_in_tensorflows_words(tf, tmp_path):
    with FileWriter(tmp_path) as writer:
        writer.add_run_metadata(metadata("first"), "step")
        with pytest.raises(
            ValueError, match=r"^The provided tag was already used for this event type$"
        ):
            writer.add_run_metadata(metadata("second"), "step")
    (path,) = tmp_path.iterdir()
    (tagged,) = [e for e in read(path, tf) if e.HasField("tagged_run_metadata")]
    assert b"first" in tagged.tagged_run_metadata.run_metadata


def test_our_run_metadata_keeps_what_is_ours(tmp_path):
    failed = RunMetadata.FromString(metadata("mm").SerializeToString())
    ops = failed.ops
    failed.record(Recording(engine="embedded", status=Status("ABORTED", "why"), ops=lambda: ops))
    with FileWriter(tmp_path) as writer:
        writer.add_run_metadata(failed, "failed", 1)
    served = load(tmp_path).RunMetadata("failed")
    assert served.step_stats.dev_stats[0].node_stats[0].node_name == "mm"
    back = RunMetadata.FromString(served.SerializeToString())
    assert (back.engine, back.status.code, back.status.message) == ("embedded", "ABORTED", "why")
    assert back == failed


def test_graphs_come_as_objects_or_messages(tmp_path):
    with FileWriter(tmp_path / "object") as writer:
        writer.add_graph(Graph())
    with FileWriter(tmp_path / "message", graph_def=graph("plain")) as writer:
        pass
    assert [n.name for n in load(tmp_path / "object").Graph().node] == ["with_shapes"]
    assert [n.name for n in load(tmp_path / "message").Graph().node] == ["plain"]
    with (
        FileWriter(tmp_path / "both") as writer,
        pytest.raises(ValueError, match="both were passed"),
    ):
        writer.add_graph(Graph(), graph_def=graph("plain"))


def test_a_tags_metadata_is_written_once(tf, tmp_path):
    with FileWriter(tmp_path) as writer:
        plain, described = scalar("t", 1.0), scalar("t", 2.0, plugin="scalars")
        for summary in (plain, described, described):
            writer.add_summary(summary)
    assert described.value[0].HasField("metadata")
    (path,) = tmp_path.iterdir()
    values = [event.summary.value[0] for event in read(path, tf)[1:]]
    assert [value.HasField("metadata") for value in values] == [False, True, False]


@pytest.mark.parametrize(
    ("call", "wrong", "named"),
    [
        ("add_graph", {}, "GraphDef"),
        ("add_graph", None, "GraphDef"),
        ("add_graph", Graph, "pass an instance"),
        ("add_summary", "text", "Summary"),
        ("add_session_log", event_pb2.Event(), "SessionLog"),
        ("add_event", step_stats_pb2.StepStats(), "Event"),
        ("add_meta_graph", b"", "MetaGraphDef"),
    ],
)
def test_wrong_types_are_refused_by_name(tmp_path, call, wrong, named):
    with FileWriter(tmp_path) as writer, pytest.raises(TypeError, match=f"{call} takes.*{named}"):
        getattr(writer, call)(wrong)


def test_wrong_run_metadata_uses_up_no_tag(tmp_path):
    with FileWriter(tmp_path) as writer:
        with pytest.raises(TypeError, match="add_run_metadata takes a RunMetadata message"):
            writer.add_run_metadata(metadata().step_stats, "step")
        writer.add_run_metadata(metadata(), "step")
    assert load(tmp_path).Tags()["run_metadata"] == ["step"]


def test_closed_writers_warn_and_reopened_ones_use_a_new_file(tf, tmp_path):
    writer = FileWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.warns(UserWarning, match="closed: nothing is written"):
        writer.add_summary(scalar("lost", 1.0))
    with pytest.warns(UserWarning, match=r"reopen\(\)"):
        writer.flush()
    writer.reopen()
    writer.reopen()
    writer.add_summary(scalar("kept", 2.0))
    writer.close()
    first, second = sorted(tmp_path.iterdir())
    assert [len(read(path, tf)) for path in (first, second)] == [1, 2]
    assert read(second, tf)[1].summary.value[0].tag == "kept"


def test_writers_in_the_same_second_have_files_of_their_own(tf, tmp_path):
    writers = [EventFileWriter(tmp_path) for _ in range(4)]
    for step, writer in enumerate(writers):
        writer.add_event(event_pb2.Event(step=step + 1))
    for writer in writers:
        writer.close()
    assert [read(writer.path, tf)[1].step for writer in writers] == [1, 2, 3, 4]
    assert sorted(tmp_path.iterdir()) == [writer.path for writer in writers]


def test_threads_may_share_a_writer(tf, tmp_path):
    writer = EventFileWriter(tmp_path)

    def add(first):
        for step in range(first, first + 200):
            writer.add_event(event_pb2.Event(step=step, file_version="x" * (step % 97)))

    threads = [threading.Thread(target=add, args=(1 + 200 * i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(event.step for event in read(writer.path, tf)[1:]) == list(range(1, 1601))


def test_a_killed_process_loses_nothing_it_added(tf, tmp_path):
    script = (
        "import os, signal, sys\n"
        "from stepscope._messages import Event\n"
        "from stepscope.export import EventFileWriter\n"
        "writer = EventFileWriter(sys.argv[1])\n"
        "for step in range(1, 51): writer.add_event(Event(step=step))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (path,) = tmp_path.iterdir()
    assert [event.step for event in read(path, tf)[1:]] == list(range(1, 51))


def test_a_full_disk_leaves_whole_records(tf, tmp_path):
    """A limit on the file's size stops a write half-way, as a full disk does."""
    script = (
        "import json, resource, signal, sys\n"
        "from stepscope._messages import Event\n"
        "from stepscope.export import EventFileWriter\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "writer = EventFileWriter(sys.argv[1])\n"
        "writer.add_event(Event(step=1))\n"
        "limit = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (writer.path.stat().st_size + 40, limit[1]))\n"
        "try:\n"
        "    writer.add_event(Event(step=2, file_version='x' * 1000))\n"
        "except OSError as error:\n"
        "    print(json.dumps(error.errno))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, limit)\n"
        "writer.add_event(Event(step=3))\n"
        "writer.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert os.strerror(json.loads(done.stdout)) == "File too large"
    (path,) = tmp_path.iterdir()
    assert [event.step for event in read(path, tf)[1:]] == [1, 3]


def test_writing_loads_no_tensorflow(tmp_path):
    script = (
        "import sys\n"
        "from stepscope._messages import Summary\n"
        "from stepscope.export import FileWriter\n"
        "with FileWriter(sys.argv[1]) as writer:\n"
        "    writer.add_summary(Summary(), 1)\n"
        "print([m for m in ('tensorflow', 'pandas', 'pyarrow') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
