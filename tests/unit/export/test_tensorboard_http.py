"""What went into an event file, asked back from a running TensorBoard."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto import config_pb2, graph_pb2

from stepscope.export import FileWriter
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


@pytest.fixture(scope="module")
def logdir(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs")
    with FileWriter(path / "train", graph()) as writer:
        writer.add_run_metadata(metadata(), "step 0", global_step=0)
        writer.add_run_metadata(ours(), "ours", global_step=1)
    return path


@pytest.fixture(scope="module")
def ask(logdir):
    """A function that gets a path from a TensorBoard on this machine; it ends with the module."""
    command = [
        sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host", "127.0.0.1",
        "--port", "0", "--load_fast", "false", "--reload_interval", "1",
    ]  # fmt: skip
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    board = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        lines = []
        for line in board.stderr:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+/", line):
                break
        else:
            pytest.fail("TensorBoard did not start:\n" + "".join(lines))

        def get(path, **query):
            url = f"{address[0]}data/plugin/graphs/{path}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.read()

        give_up = time.monotonic() + 120
        while not json.loads(get("info")) and time.monotonic() < give_up:
            time.sleep(0.1)
        yield get
    finally:
        board.terminate()
        board.wait(timeout=30)
        board.stderr.close()


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
