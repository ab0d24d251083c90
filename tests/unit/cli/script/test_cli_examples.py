"""The programs of `examples/`, through the command and where possible on the real TensorFlow."""

import json
import os
import re
import sys
from importlib.util import find_spec

import pytest

import started_python
from patience import patient
from stepscope.metadata import load


def test_run_with_deadline(stepscope, examples, tmp_path):
    done = stepscope(
        "run", "--engine", "embedded", "--out", "out", examples / "run_with_deadline.py"
    )
    assert done.returncode == 0, done.stderr
    value, *nodes = done.stdout.splitlines()
    assert value == "5.0"
    assert any(node.endswith("CPU:0: diagonal") for node in nodes)


def test_matmul_timeline(stepscope, examples, tmp_path):
    done = stepscope(
        "run", "--engine", "embedded", "--out", "out", examples / "matmul_timeline.py", "trace.json"
    )
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"MatMul", "RandomStandardNormal"} <= {event.get("name") for event in events}
    assert "MatMul" in done.stderr


def test_merged_timeline(stepscope, examples, tmp_path):
    done = stepscope(
        "run", "--engine", "embedded", "--out", "out", examples / "merged_timeline.py", "trace.json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trace.json: 3 runs, 3 executions of 'moved'\n"
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    starts = [event["ts"] for event in slices if event["args"]["name"] == "moved"]
    assert starts == sorted(starts)
    assert len(set(starts)) == 3


def test_tensorboard_log(stepscope, examples, tmp_path):
    done = stepscope(
        "run", "--engine", "embedded", "--out", "out", examples / "tensorboard_log.py", "logs/sum"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "[1.8 3.  4.2]"
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(tmp_path / "logs/sum")).Reload()
    assert log.Tags()["run_metadata"] == ["traced"]
    nodes = [
        n.node_name for d in log.RunMetadata("traced").step_stats.dev_stats for n in d.node_stats
    ]
    assert "total" in nodes
    assert {node.name for node in log.Graph().node} == {"prices", "taxes", "total"}


def test_demo(stepscope, examples, tmp_path):
    done = stepscope(
        "run", "--engine", "embedded", "--out", "out", examples / "demo.py", "--steps", "61"
    )
    assert done.returncode == 0, done.stderr
    losses = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines()]
    assert (len(losses), losses[-1] < losses[0]) == (4, True)
    assert "62 runs ·" in done.stderr
    for run in load(tmp_path / "out")[1:]:
        assert run.ops.op.tolist().count("PyFunc") == 1


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "program", ["demo.py", "matmul_timeline.py", "merged_timeline.py", "tensorboard_log.py"]
)
def test_the_same_programs_run_on_tensorflow(tf, examples, tmp_path, program):
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONWARNINGS": "ignore"}
    done = started_python.run(
        [sys.executable, examples / program],
        cwd=tmp_path,
        env={**os.environ, **quiet},
        timeout=patient(240),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def on_tensorflow(command, directory):
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "COLUMNS": "120"}
    done = started_python.run(
        [sys.executable, *map(str, command)],
        cwd=directory,
        env={**os.environ, **quiet, "TF_ENABLE_ONEDNN_OPTS": "0"},
        timeout=patient(240),
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.tensorflow
def test_run_with_deadline_on_tensorflow(tf, examples, tmp_path):
    done = on_tensorflow(["-m", "stepscope", "run", examples / "run_with_deadline.py"], tmp_path)
    assert done.stdout.splitlines()[0] == "5.0"
    assert "as TensorFlow 1, because of tf.RunOptions in line" in done.stderr


@pytest.mark.tensorflow
def test_keras_fit(tf, examples, tmp_path):
    command = ["-m", "stepscope", "run", "--steps", "10:18", examples / "keras_fit.py"]
    done = on_tensorflow(command, tmp_path)
    assert done.stdout == "steps: 16 losses: 1\npredicted: (8, 2)\n"
    # The last six steps of training and the one of prediction, and what lay between them.
    assert "(function, eager) · 8 runs ·" in done.stderr
    assert "Conv2DBackpropFilter" in done.stderr


@pytest.mark.tensorflow
def test_training_loop(tf, examples, tmp_path):
    done = on_tensorflow(["-m", "stepscope", "run", examples / "training_loop.py"], tmp_path)
    assert done.stdout == "".join(
        f"{name}: 3 steps, the loss fell: True\n" for name in ("eager", "function", "with Python")
    )
    assert "(function, eager) · 10 runs ·" in done.stderr


@pytest.mark.tensorflow
def test_observe_functions(tf, examples, tmp_path):
    done = on_tensorflow([examples / "observe_functions.py"], tmp_path)
    assert done.stdout == "tensorflow function OK True\ntensorflow eager True 1\n"


@pytest.mark.tensorflow
def test_a_script_that_records_its_own_runs(tf, examples, tmp_path):
    command = ["-m", "stepscope", "run", examples / "observe_functions.py"]
    done = on_tensorflow(command, tmp_path)
    assert done.stdout == "tensorflow function OK True\ntensorflow eager True 1\n"
    assert "1 run: the script was profiling or recording itself" in done.stderr


@pytest.mark.parametrize(
    "engine",
    ["embedded", pytest.param("tensorflow", marks=pytest.mark.tensorflow)],
)
def test_out_of_memory(stepscope, examples, engine, monkeypatch):
    if engine == "tensorflow" and not find_spec("tensorflow"):
        pytest.skip("needs the real TensorFlow")
    # With oneDNN the CPU has an allocator that waits ten seconds before it gives up.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    program = examples / "out_of_memory.py"
    done = stepscope("run", "--engine", engine, "--limit", "1", "--out", "out", program)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("every_combination asked for 281,474,976,710,656") for line in lines)
    refused = "failed   281,474,976,710,656 [8388608, 8388608] every_combination"
    assert refused in lines
    assert lines[-1] == "the session lives on: True"
    shown = stepscope("oom", "--plot", "out")
    assert shown.returncode == 0, shown.stderr
    assert "every_combination" in shown.stdout
    if engine == "embedded":
        assert any(re.fullmatch(r" +67,108,864 +2 +in all", line) for line in lines)
        assert "prices/RandomUniform" in shown.stdout
