"""What a recorded program did beside its runs: the notes in its store, and what is made of them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter

import pytest

import started_python
from patience import patient
from stepscope.analysis.program.account import account
from stepscope.metadata import programs
from stepscope.metadata.program_notes import IMPORT, PLAN, PROCESS, SCRIPT, TRACE
from stored_notes import UNTIL_NOTED

LOOP = """\
import time
import tensorflow as tf

w = tf.Variable(tf.ones([64, 64]))

@tf.function
def train_step(x, scale):
    time.sleep(0.05)  # when it is traced
    tf.py_function(lambda: time.sleep(0.02), [], [])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.tanh(x @ w)) * scale
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss

def slowly():
    for _ in range(4):
        time.sleep(0.03)
        yield tf.ones([32, 64])

data = tf.data.Dataset.from_generator(slowly, output_signature=tf.TensorSpec([None, 64]))
for epoch in range(3):
    for x in data:
        train_step(x, epoch)
        time.sleep(0.01)
train_step(tf.ones([17, 64]), 2)
for _ in range(3):
    double = tf.function(lambda v: 2 * v)
    double(tf.constant(1.0))
time.sleep(0.2)
"""

GRAPH = """\
import tensorflow.compat.v1 as tf
import time
x = tf.placeholder(tf.float32, [None, 4])
y = tf.reduce_sum(tf.tanh(x))
slow = tf.py_func(lambda v: (time.sleep(0.03), v)[1], [y], tf.float32)
time.sleep(0.1)
with tf.Session() as session:
    for _ in range(5):
        session.run(y, {x: [[1.0, 2.0, 3.0, 4.0]]})
        time.sleep(0.02)
    for _ in range(3):
        session.run(slow, {x: [[1.0, 2.0, 3.0, 4.0]]})
"""

DIES = f"""\
{UNTIL_NOTED}
import os, signal, threading
import tensorflow.compat.v1 as tf
x = tf.placeholder(tf.float32, [None, 4])
y = tf.reduce_sum(tf.tanh(x))
with tf.Session() as session:
    def several(count):
        for _ in range(count):
            session.run(y, {{x: [[1.0, 2.0, 3.0, 4.0]]}})
    several(1)
    beside = threading.Thread(target=several, args=[3])
    beside.start()
    beside.join()
    several(3)
    until_noted()
    os.kill(os.getpid(), signal.SIGKILL)
"""

PRECISION_NS = 20_000_000
"""The system says in hundredths of a second when a process was started."""


def recorded(folder, source, *options, code=0):
    """The directory that a program was recorded in, and how long that took as its caller saw it."""
    (folder / "train.py").write_text(source)
    began = time.monotonic_ns()
    done = started_python.run(
        [sys.executable, "-m", "stepscope", "run", "--out", "out", *options, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        timeout=patient(200),
    )
    assert done.returncode == code, done.stderr
    return folder / "out", time.monotonic_ns() - began


@pytest.fixture(scope="module")
def loop(tmp_path_factory, tensorflow):
    """A custom training loop on TensorFlow."""
    del tensorflow
    return recorded(tmp_path_factory.mktemp("loop"), LOOP, "--engine", "tensorflow")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A TensorFlow 1 program on the embedded engine."""
    return recorded(tmp_path_factory.mktemp("graph"), GRAPH, "--engine", "embedded")


# -- notes -------------------------------------------------------------------------------------


def test_process_script_and_imports_are_noted(loop):
    [program] = programs(loop[0])
    process, script = program.last(PROCESS), program.last(SCRIPT)
    assert process.what == script.what == "train.py"
    assert process.started_ns < script.started_ns < script.ended_ns < process.ended_ns
    [imported] = [note for note in program.of(IMPORT) if note.what == "tensorflow"]
    assert imported.where == f"{loop[0].parent / 'train.py'}:2"
    assert script.started_ns < imported.started_ns < imported.ended_ns < script.ended_ns


def test_each_graph_of_a_function_is_noted_with_what_it_is_for(loop):
    script = loop[0].parent / "train.py"
    [program] = programs(loop[0])
    traces = [note for note in program.of(TRACE) if note.what == "train_step"]
    assert [note.details["arguments"] for note in traces] == [
        [["tensor", "x", "float32", "[32, 64]"], ["value", "scale", "int", "0"]],
        [["tensor", "x", "float32", "[32, 64]"], ["value", "scale", "int", "1"]],
        [["tensor", "x", "float32", "[32, 64]"], ["value", "scale", "int", "2"]],
        [["tensor", "x", "float32", "[17, 64]"], ["value", "scale", "int", "2"]],
    ]
    assert [note.where for note in traces] == [f"{script}:23"] * 3 + [f"{script}:25"]
    assert {note.details["defined"] for note in traces} == {f"{script}:6"}
    assert len({note.details["function"] for note in traces}) == 1
    assert all(note.ns >= 50_000_000 and note.details["nodes"] > 10 for note in traces)
    lambdas = [note for note in program.of(TRACE) if note.details["defined"] == f"{script}:27"]
    assert len({note.details["function"] for note in lambdas}) == 3


def test_runs_say_when_they_were_called(loop):
    [program] = programs(loop[0])
    steps = [run for run in program.runs() if run.what == "train_step"]
    assert len(steps) == 13
    for run in steps:
        assert run.call.thread == program.main_thread
        assert run.call.started_ns <= run.metadata.ops.start_ns.min() < run.call.ended_ns


def test_plans_of_the_embedded_engine_are_noted(graph):
    [program] = programs(graph[0])
    plans = program.of(PLAN)
    assert plans
    runs = list(program.runs())
    assert [run.kind for run in runs] == [runs[0].kind] * 5 + [runs[5].kind] * 3
    first = runs[0].call
    assert first.started_ns <= plans[0].started_ns <= plans[0].ended_ns <= first.ended_ns


# -- account -----------------------------------------------------------------------------------


def test_the_rows_of_a_loop_sum_to_what_its_caller_saw(loop):
    found = account(loop[0])
    assert sum(row.ns for row in found.rows) == found.whole_ns
    assert found.whole_ns < loop[1] + PRECISION_NS
    assert found.ended
    assert (found.runs, found.first_runs) == (16, 7)


def test_a_loop_s_time_is_where_the_loop_spent_it(loop):
    parts = Counter({row.key: row.ns for row in account(loop[0]).rows})
    [program] = programs(loop[0])
    imports = [note.ns for note in program.of(IMPORT)]
    assert 0 < parts["imports"] <= sum(imports)
    traces = [note.ns for note in program.of(TRACE) if not note.details["inside"]]
    assert 0 < parts["tracing"] <= sum(traces)
    # What recording cost is known in all, and taken from where most of it must have been: on a busy
    # machine from more than that.
    recording = parts["recording"]
    assert recording > 0
    assert parts["tracing"] + recording >= 4 * 0.05e9  # the first one imports modules
    assert parts["python_ops"] + recording >= 5 * 0.02e9  # what computes meanwhile is computing
    assert parts["input"] + recording >= 3 * 0.03e9  # all but the first of each loop is made ahead
    assert parts["between"] + recording >= 12 * 0.01e9
    assert parts["after"] + recording >= 0.2e9


def test_the_rows_of_an_embedded_program_sum_to_what_its_caller_saw(graph):
    found = account(graph[0])
    assert sum(row.ns for row in found.rows) == found.whole_ns
    assert found.whole_ns < graph[1] + PRECISION_NS
    parts = Counter({row.key: row.ns for row in found.rows})
    assert (found.runs, found.first_runs) == (8, 2)
    recording = parts["recording"]
    assert parts["before"] + recording >= 0.1e9
    assert parts["between"] + recording >= 5 * 0.02e9
    assert parts["python_ops"] + recording >= 2 * 0.03e9
    assert parts["planning"] > 0
    assert found.ns("planning", "before") == parts["planning"] + parts["before"]


def test_a_program_that_died_is_told_up_to_its_death(tmp_path, command):
    folder, took_ns = recorded(tmp_path, DIES, "--engine", "embedded", code=-signal.SIGKILL)
    found = account(folder)
    assert not found.ended
    assert found.died
    assert found.whole_ns < took_ns + PRECISION_NS
    assert sum(row.ns for row in found.rows) == found.whole_ns
    assert (found.runs, found.first_runs, found.other_runs) == (4, 1, 3)
    assert {"imports", "before", "between", "first_runs"} <= {row.key for row in found.rows}
    assert "\nit died: this is up to its death\n" in command("account", folder)[1]


def test_account_as_json_and_csv(graph, command):
    code, out, _ = command("account", graph[0], "--json")
    found = json.loads(out)
    assert code == 0
    assert sum(row["ns"] for row in found["rows"]) == found["whole_ns"]
    lines = command("account", graph[0], "--csv")[1].splitlines()
    assert lines[0] == "part,key,ns,share,count,mostly,where"
    assert len(lines) == 1 + len(found["rows"])


# -- retraces ----------------------------------------------------------------------------------


def test_each_cause_of_a_retrace_is_named_with_its_line(loop, command):
    script = loop[0].parent / "train.py"
    found = json.loads(command("retraces", loop[0], "--json")[1])
    rows = {row["cause"]: row for row in found["rows"]}
    assert set(rows) == {"value", "shape", "new function"}
    number, shape, anew = rows["value"], rows["shape"], rows["new function"]
    assert (number["argument"], number["values"]) == ("scale", ["0", "1", "2"])
    assert (number["times"], number["where"]) == (2, f"{script}:23")
    assert shape["values"] == ["float32[32,64]", "float32[17,64]"]
    assert (shape["times"], shape["where"]) == (1, f"{script}:25")
    assert (anew["times"], anew["defined"], anew["where"]) == (2, f"{script}:27", f"{script}:28")
    assert number["lost_ns"] >= 2 * 0.05e9
    assert sum(row["lost_ns"] for row in found["rows"]) == found["lost_ns"]
    out = command("retraces", loop[0], columns=160)[1]
    assert "0 → 1 → 2" in out
    assert "pass scale as a tensor" in out


def test_a_program_without_functions_has_none(graph, command):
    code, out, _ = command("retraces", graph[0])
    assert code == 0
    assert "there was none" in out
