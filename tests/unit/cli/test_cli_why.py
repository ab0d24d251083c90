"""`stepscope why`: what can be asked, in which words, and what is said where there is no answer."""

from __future__ import annotations

import csv
import io
import json
import os
import sys

import pytest

import started_python
from patience import patient


def answered(command, *arguments):
    code, out, err = command("why", *arguments)
    assert code == 0, err
    return out


def refused(command, *arguments):
    code, out, err = command("why", *arguments)
    assert (code, out) == (2, "")
    return err


PROGRAM = """\
import numpy as np
import tensorflow as tf

tf = tf.compat.v1
tf.disable_v2_behavior()
state = {"runs": 0}


def work(x):
    state["runs"] += 1
    for _ in range(4000 if state["runs"] == 18 else 20):
        x = np.tanh(x)
    return x


x = tf.placeholder(tf.float32, [100, 100], name="x")
y = tf.py_func(work, [x], tf.float32, name="net/work")
y.set_shape([100, 100])
big = tf.tile(y, [30, 1], name="net/big")
loss = tf.reduce_sum(big, name="loss")
with tf.Session() as session:
    for _ in range(30):
        session.run(loss, {x: np.ones((100, 100), np.float32)})
"""


@pytest.fixture(scope="module", params=["embedded", "tensorflow"])
def program(request, tmp_path_factory):
    """Thirty runs, of which one (17) has one slow op."""
    if request.param == "tensorflow":
        pytest.importorskip("tensorflow")
    place = tmp_path_factory.mktemp(request.param)
    (place / "program.py").write_text(PROGRAM)
    arguments = ["run", "--engine", request.param, "--trace", "full", "--out", "out", "program.py"]
    done = started_python.run(
        [sys.executable, "-m", "stepscope", *arguments],
        cwd=place,
        env={**os.environ},
        timeout=patient(240),
    )
    assert done.returncode == 0, done.stderr
    return place / "out"


def test_the_one_slow_run_of_thirty(program, command):
    found = json.loads(answered(command, "17", program, "--json"))
    assert found["compared"] == 28
    assert found["ns"] > 2 * found["median_ns"]
    assert found["op"].endswith("net/work")
    (cause,) = [c for c in found["causes"] if c["kind"] == "op" and c["op"] == found["op"]]
    assert cause["line"].endswith("program.py:17")
    assert all(link["run"] == 17 for link in found["rows"])
    shown = " ".join(answered(command, "run", "17", program).split())
    assert "more than the median of 28 other runs" in shown
    assert "program.py:17" in shown


def test_the_op_behind_the_slow_one(program, command):
    found = json.loads(answered(command, "loss@17", program, "--json"))
    names = [link["op"] for link in found["rows"]]
    assert names[:3] == ["loss", "net/big", "net/work"]
    slow = found["rows"][2]
    assert slow["line"].endswith("program.py:17")
    assert slow["ns"] > found["rows"][0]["ns"]
    same = answered(command, "loss", program, "--run", "17", "--json")
    assert json.loads(same) == found


def test_the_big_tensor_at_the_peak(program, command):
    found = json.loads(answered(command, "peak", program, "--run", "17", "--json"))
    big = found["rows"][0]
    assert (big["op"], big["until"], big["run"]) == ("net/big", "loss", 17)
    assert big["bytes"] >= 1_200_000
    assert big["line"].endswith("program.py:19")


@pytest.mark.parametrize("asked", [["#3"], ["3"], ["run", "3"], ["run 3"], ["run3"], ["#-27"]])
def test_a_run_is_written_in_many_ways(asked, recorded, command):
    found = json.loads(answered(command, *asked, recorded / "base", "--json"))
    assert (found["run"], found["compared"]) == (3, 28)


def test_csv_is_the_chain(recorded, command):
    rows = list(csv.DictReader(io.StringIO(answered(command, "loss", recorded / "base", "--csv"))))
    assert rows[0]["op"] == "loss"
    assert rows[-1]["op"] == "_arg_images_0_0"
    assert set(rows[0]) >= {"op", "run", "from_ns", "to_ns", "ns", "reason", "line"}


def test_an_op_that_only_another_run_has(recorded, command):
    out = answered(command, "layer1/kernel/Assign", recorded / "classify")
    assert "the first run that has such an op" in " ".join(out.split())


def test_an_instant_of_one_device(recorded, command):
    out = answered(command, "peak", recorded / "classify", "--device", "CPU:0", "--limit", "1")
    assert "layer1/kernel" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["MatMul"], "2 ops of the run have 'MatMul' in their name: layer1/MatMul, layer2/MatMul"),
        (["layer1/MatMull"], "did you mean layer1/MatMul"),
        (["99"], "there is no run 99; there are 0 to 29"),
        (["#-99"], "there is no run -99"),
        (["loss@99"], "there is no run 99"),
        (["loss@3", "--run", "4"], "leave out one"),
        (["3", "--run", "4"], "leave out one"),
        (["12h"], "'12h' is no instant"),
        (["120s"], "is after the end of the run"),
        (["peak", "--device", "TPU:7"], "no memory was recorded on device TPU:7; there is CPU:0"),
        (["loss", "--device", "CPU:0"], "--device is of memory"),
    ],
)
def test_what_has_no_answer_says_what_there_is(arguments, said, recorded, command):
    question, *options = arguments
    assert said in refused(command, question, recorded / "base", *options)
