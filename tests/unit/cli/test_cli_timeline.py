"""`stepscope timeline` and `stepscope merge`: files in, one trace out."""

from __future__ import annotations

import json

import pytest
from tensorboard.compat.proto import config_pb2

from stepscope.cli.arguments.command_line import run_command_line
from stepscope.export import Timeline

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def save(path, at):
    """A file with a run of two ops that begins at a microsecond."""
    metadata = config_pb2.RunMetadata()
    device = metadata.step_stats.dev_stats.add(device=CPU)
    for i in range(2):
        device.node_stats.add(
            node_name=f"n{i}", timeline_label=f"n{i} = Neg()", all_start_micros=at + 10 * i,
            all_end_rel_micros=8,
        )  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(metadata.SerializeToString())
    return metadata


def trace(path):
    return json.loads(path.read_text())


def names(found, category):
    return [e["name"] for e in found["traceEvents"] if e["ph"] == "X" and e["cat"] == category]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_becomes_a_trace(here, capsys):
    save(here / "run.pb", 1000)
    assert run_command_line(["timeline", "run.pb"]) == 0
    assert "wrote timeline.json" in capsys.readouterr().out
    assert names(trace(here / "timeline.json"), "op") == ["n0", "n1"]


def test_tf1_gives_tensorflows_timeline(here):
    metadata = save(here / "run.pb", 1000)
    assert run_command_line(["timeline", "run.pb", "--tf1", "--no-memory", "-o", "t.json"]) == 0
    ours = Timeline(metadata).generate_chrome_trace_format(show_memory=False)
    assert trace(here / "t.json") == json.loads(ours)


def test_tf1_merges_the_runs_of_a_directory(here):
    save(here / "logs" / "a_run_metadata.pb", 1000)
    save(here / "logs" / "b_run_metadata.pb", 2000)
    assert run_command_line(["timeline", "logs", "--tf1", "-o", "t.json"]) == 0
    found = trace(here / "t.json")["traceEvents"]
    assert [e["ts"] for e in found if e["ph"] == "X"] == [1000, 1010, 2000, 2010]


def test_workers_are_merged_under_their_names(here):
    save(here / "a" / "run_metadata.pb", 1000)
    save(here / "b" / "run_metadata.pb", 1003)
    assert run_command_line(["merge", "first=a", "second=b", "-o", "all.json"]) == 0
    found = trace(here / "all.json")
    pids = [e["args"]["name"] for e in found["traceEvents"] if e["name"] == "process_name"]
    assert pids == ["runs", f"first {CPU}", f"second {CPU}"]
    assert len(names(found, "op")) == 4


def test_merged_files_share_their_devices(here):
    save(here / "a=1.pb", 1000)
    save(here / "b.pb", 1003)
    assert run_command_line(["merge", "a=1.pb", "b.pb"]) == 0
    found = trace(here / "merged.json")
    assert names(found, "run") == ["a=1", "b"]
    assert len({e["pid"] for e in found["traceEvents"] if e.get("cat") == "op"}) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["timeline", "nothing.pb"], "no such file"),
        (["timeline", "run.pb", "--max-bytes", "10"], "max_bytes=10 is too little"),
        (["timeline", "run.pb", "--tf1", "--max-bytes", "10"], "TensorFlow's timeline does not"),
        (["merge"], "Missing argument"),
        (["merge", "first="], "write first=PATH"),
        (["timeline", "run.pb", "-o", "run.pb/t.json"], "could not be written"),
    ],
)
def test_what_cannot_be_done_is_said(here, capsys, arguments, said):
    save(here / "run.pb", 1000)
    assert run_command_line(arguments) == 2
    assert said in capsys.readouterr().err
