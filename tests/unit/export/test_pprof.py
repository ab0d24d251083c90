"""Runs as a profile for pprof, read with the messages that TensorFlow has of its format."""

from __future__ import annotations

import gzip

import pytest

from analysed_runs import CPU0, run_of
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.export import pprof

MS = 1_000_000
LINES = {"net/dense/MatMul": "/home/me/train.py:12", "net/dense/Relu": "/home/me/train.py:13"}


def step():
    return run_of(
        ("x", "_Arg", [], 7, 0, 0, 0),
        ("net/dense/MatMul", "MatMul", ["x"], 7, 0, 0, 4 * MS, CPU0, 400),
        ("net/dense/Relu", "Relu", ["net/dense/MatMul"], 7, 0, 4 * MS, 5 * MS, CPU0, 400),
        sources=lambda: LINES,
    )


@pytest.fixture
def read(tensorflow):
    """Reads a profile as its reader would: by sample its stack from the root, values and labels."""
    del tensorflow
    from tensorflow.tsl.profiler.protobuf import profile_pb2

    def samples(path):
        profile = profile_pb2.Profile.FromString(gzip.decompress(path.read_bytes()))
        text = profile.string_table
        assert text[0] == ""
        assert [(text[one.type], text[one.unit]) for one in profile.sample_type] == [
            ("time", "nanoseconds"), ("executions", "count"), ("output", "bytes"),
        ]  # fmt: skip
        functions = {function.id: function for function in profile.function}
        found = {}
        for sample in profile.sample:
            lines = [profile.location[number - 1].line[0] for number in sample.location_id]
            frames = [
                (text[functions[line.function_id].name],
                 text[functions[line.function_id].filename], line.line)
                for line in reversed(lines)
            ]  # fmt: skip
            labels = {text[label.key]: text[label.str] for label in sample.label}
            found[labels.pop("node")] = (frames, list(sample.value), labels)
        return found

    return samples


def test_samples_are_sums_by_layer_line_and_op(read, tmp_path):
    runs = [(f"run_{number:06d}", step()) for number in range(3)]
    found = read(pprof(runs, tmp_path / "train.pb.gz"))
    assert set(found) == {"x", *LINES}
    frames, values, labels = found["net/dense/MatMul"]
    assert frames == [
        ("net", "", 0), ("dense", "", 0), ("train.py:12", "/home/me/train.py", 12),
        ("MatMul", "/home/me/train.py", 12),
    ]  # fmt: skip
    assert values == [3 * 4 * MS, 3, 3 * 400]
    assert labels == {"device": CPU0}
    assert found["net/dense/Relu"][1] == [3 * MS, 3, 3 * 400]
    # What is fed to a layer is counted to it; its line is not known.
    assert found["x"][:2] == ([("net", "", 0), ("dense", "", 0), ("_Arg", "", 0)], [0, 3, 0])


def test_what_ran_inside_of_an_op_is_not_its_own_time(read, tmp_path):
    run = run_of(
        ("f", "StatefulPartitionedCall", [], 7, 0, 0, 10 * MS),
        ("f/add", "AddV2", [], 7, 0, 2 * MS, 8 * MS),
    )
    found = read(pprof(run, tmp_path / "any name"))  # compressed whatever it is called
    assert found["f"][1] == [4 * MS, 1, 0]
    assert found["f/add"][1] == [6 * MS, 1, 0]


def test_the_command_names_the_file_after_the_recording(read, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    step().save(tmp_path / "train" / "run_metadata.pb")
    assert run_command_line(["export", "train", "--to", "pprof"]) == 0
    assert "train.pb.gz" in capsys.readouterr().out
    assert read(tmp_path / "train.pb.gz")["net/dense/MatMul"][1] == [4 * MS, 1, 400]


def test_no_run_is_an_empty_profile(read, tmp_path):
    assert read(pprof([], tmp_path / "none.pb.gz")) == {}
