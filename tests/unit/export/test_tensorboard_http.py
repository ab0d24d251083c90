"""What went into an event file, asked back from a running TensorBoard."""

from __future__ import annotations

import html
import json

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto import config_pb2, graph_pb2

import stepscope
import stepscope.tf1 as tf1
from running_tensorboard import LOADERS, TensorBoard
from stepscope.analysis import op_profile
from stepscope.export import FileWriter, TensorBoardWriter
from stepscope.metadata import Recording, RunMetadata, Status

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def graph():
    message = graph_pb2.GraphDef()
    message.node.add(name="x", op="Placeholder")
    message.node.add(name="layer/mm", op="MatMul", input=["x", "x"], device="/device:CPU:0")
    message.versions.producer = 1
    return message


def metadata():
    message = config_pb2.RunMetadata()
    node = message.step_stats.dev_stats.add(device=DEVICE).node_stats.add(
        node_name="layer/mm",
        timeline_label="layer/mm = MatMul(x, x)",
        all_start_micros=1_700_000_000_000_000,
        all_end_rel_micros=42,
        all_end_rel_nanos=42_500,
        thread_id=7,
    )
    node.memory.add(allocator_name="cpu", total_bytes=4096, peak_bytes=4096)
    return message


def ours():
    """The same run with fields that TensorBoard does not know."""
    run = RunMetadata.FromString(metadata().SerializeToString())
    ops = run.ops
    run.record(Recording(engine="embedded", status=Status("ABORTED", "why"), ops=lambda: ops))
    return run


def embedded():
    """A run of the embedded engine."""
    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
    run = RunMetadata()
    with tf1.Graph().as_default(), tf1.Session() as session:
        product = tf1.matmul(tf1.ones([4, 8]), tf1.ones([8, 2]), name="layer/mm")
        session.run(product, options=options, run_metadata=run)
    return run


@pytest.fixture(scope="module")
def shown():
    """What `add_run` was given, by run of TensorBoard's: without a graph, and eager."""
    eager = config_pb2.RunMetadata()
    device = eager.step_stats.dev_stats.add(device=DEVICE)
    for start in (1_000, 2_000):
        device.node_stats.add(
            node_name="MatMul",
            timeline_label="MatMul = MatMul()",
            all_start_micros=start,
            all_end_rel_micros=start // 100,
        )
    return {"embedded": embedded(), "eager": RunMetadata.FromString(eager.SerializeToString())}


@pytest.fixture(scope="module")
def logdir(tmp_path_factory, shown):
    path = tmp_path_factory.mktemp("logs")
    for name, run in shown.items():
        with TensorBoardWriter(path / name) as writer:
            writer.add_run(run, 3)
            writer.add_metadata_text(run, "all of it", 3)
    with FileWriter(path / "train", graph()) as writer:
        writer.add_run_metadata(metadata(), "step 0", global_step=0)
        writer.add_run_metadata(ours(), "ours", global_step=1)
    return path


@pytest.fixture(scope="module", params=LOADERS, ids=["fast reader", "python reader"])
def ask(request, logdir):
    """A function that gets a path of a plugin from a TensorBoard; it ends with the module."""
    with TensorBoard(logdir, request.param) as board:
        board.until(lambda: len(board.json("data/plugin/graphs/info")) == 3)
        yield lambda path, plugin="graphs", **query: board.get(
            f"data/plugin/{plugin}/{path}", **query
        )


def test_the_graph_and_the_tagged_runs_are_listed(ask):
    run = json.loads(ask("info"))["train"]
    assert run["run_graph"] is True
    assert {tag: found["profile"] for tag, found in run["tags"].items()} == {
        "step 0": True,
        "ours": True,
    }


def test_the_graph_is_the_one_written(ask):
    served = ask("graph", run="train", conceptual="false").decode()
    assert text_format.Parse(served, graph_pb2.GraphDef()) == graph()


def test_the_run_metadata_is_the_one_written(ask):
    served = ask("run_metadata", run="train", tag="step 0").decode()
    assert text_format.Parse(served, config_pb2.RunMetadata()) == metadata()


def test_our_run_metadata_is_served_as_tensorboard_knows_it(ask):
    served = text_format.Parse(
        ask("run_metadata", run="train", tag="ours").decode(), config_pb2.RunMetadata()
    )
    assert served.step_stats == ours().step_stats


def test_a_run_that_came_without_a_graph_has_one_to_colour(ask, shown):
    for name, run in shown.items():
        assert json.loads(ask("info"))[name]["run_graph"] is True
        graph = text_format.Parse(
            ask("graph", run=name, conceptual="false").decode(), graph_pb2.GraphDef()
        )
        served = text_format.Parse(
            ask("run_metadata", run=name, tag="step_3").decode(), config_pb2.RunMetadata()
        )
        (device,) = served.step_stats.dev_stats
        assert len(device.node_stats) == len(run.ops)
        ran = {node.node_name for node in device.node_stats} - {"_SOURCE"}
        assert ran == {node.name for node in graph.node}
        assert all(node.all_end_rel_micros >= 1 for node in device.node_stats)


def test_the_numbers_of_a_run_are_served(ask, shown):
    for name, run in shown.items():
        for row in op_profile(run, "op"):
            tag = f"op_time_us/{row.key}"
            ((_, step, value),) = json.loads(ask("scalars", plugin="scalars", run=name, tag=tag))
            assert (step, value) == (3, pytest.approx(row.self_ns / 1000))


def test_the_texts_of_a_run_are_served_as_html(ask, shown):
    def page(run, tag):
        (found,) = json.loads(ask("text", plugin="text", run=run, tag=tag))
        assert found["step"] == 3
        return found["text"]

    table = page("embedded", "top_ops")
    assert "<table>" in table
    assert "<code>layer/mm</code>" in table
    assert "<code>allocate</code>" in page("embedded", "allocation_log")
    assert "<code>MatMul</code>" in page("eager", "top_ops")
    assert 'node_name: "layer/mm"' in html.unescape(page("embedded", "all of it"))
