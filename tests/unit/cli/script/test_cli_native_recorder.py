"""`stepscope run` where our own executor logs the runs: nothing of them needs the profiler."""

import json
from collections import Counter

import pytest

import stepscope as stepscope_module
from ready_compiler import ReadyCompiler
from stepscope.adapters.tensorflow.node_log import build

KERAS = """
import numpy as np, tensorflow as tf

model = tf.keras.Sequential([
    tf.keras.Input((12,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(5)
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
random = np.random.default_rng(1)
x, y = random.random((48, 12), np.float32), random.integers(0, 5, 48)
tf.profiler.experimental.start("profile")  # the script's own, and ours is not in its way
model.fit(x, y, batch_size=4, verbose=0)
tf.profiler.experimental.stop(save=False)
print(model.predict(x[:4], verbose=0).shape)
"""

SESSIONS = """
import numpy as np, tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [4, 12], name="x")
w = tf.get_variable("w", (12, 8))
y = tf.py_func(lambda v: v, [tf.matmul(x, w, name="product")], tf.float32, name="python")
step = tf.train.get_or_create_global_step()
train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.matmul(x, w)), step)
value = np.ones((4, 12), np.float32)
with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(5)]) as session:
    while not session.should_stop():
        session.run(train, {x: value})
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(y, {x: value})
    call = session.make_callable(y, [x])
    call(value)
    bad = tf.debugging.check_numerics(y / 0.0, "not a number", name="bad")
    try:
        session.run(bad, {x: value})
    except tf.errors.InvalidArgumentError as error:
        print(type(error).__module__, "failed")
"""


def recorded(stepscope, script, tmp_path, source):
    done = stepscope("run", "--engine", "tensorflow", "--out", "out", script(source), timeout=240)
    assert done.returncode == 0, done.stderr
    return done, list(stepscope_module.load(tmp_path / "out"))


def losses(run):
    return {loss.what: loss for loss in run.completeness.losses}


def test_every_step_of_keras_is_recorded_without_the_profiler(
    native, stepscope, script, tmp_path, command
):
    done, runs = recorded(stepscope, script, tmp_path, KERAS)
    assert done.stdout.splitlines()[-1] == "(4, 5)"
    steps = [run for run in runs if run.engine == "tensorflow function"]
    assert len(steps) == 13
    assert "profiling or recording itself" not in done.stderr  # that takes nothing from ours
    train = steps[1:-1]
    assert len({len(run.ops) for run in train}) == 1
    for run in train:
        kinds = Counter(run.ops.op.tolist())
        assert kinds["IteratorGetNext"] == 1
        assert sum(kinds[kind] for kind in ("MatMul", "_FusedMatMul")) == 5
        assert "only TensorFlow's profiler" in losses(run)["input pipelines"].reason
        assert len(run.ops.tensors) > len(run.ops) // 2
        known = sum(name in run.sources for name in run.ops.name)
        assert known >= 0.95 * len(run.ops) - 1  # _SOURCE is made by no line
    code, out, err = command("coverage", "out", "--run", "5", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["unknown"] <= 0.01


def test_sessions_of_all_kinds_are_recorded_without_the_profiler(
    native, stepscope, script, tmp_path
):
    done, runs = recorded(stepscope, script, tmp_path, SESSIONS)
    assert done.stdout == "tensorflow.python.framework.errors_impl failed\n"
    trained = [run for run in runs if "GradientDescent" in " ".join(run.ops.name)]
    assert len(trained) == 5
    assert all(len(run.ops) == len(trained[0].ops) for run in trained[1:])
    python = [run for run in runs if "PyFunc" in run.ops.op]
    assert len(python) == 3
    for run in python:
        assert {"product", "python"} <= set(run.ops.name)
        (loss,) = (found for what, found in losses(run).items() if "ops inside of ops" in what)
        assert "PyFunc: what these ops run" in loss.reason
    failed = runs[-1]
    assert failed.status.code == "INVALID_ARGUMENT"
    assert "bad" not in failed.ops.name


def test_what_is_switched_off_is_recorded_by_the_profiler(
    native, stepscope, script, tmp_path, monkeypatch
):
    monkeypatch.setenv(build.SWITCH, "off")
    source = KERAS.replace("tf.profiler.experimental.start", "str").replace(
        "tf.profiler.experimental.stop(save=False)", ""
    )
    done, runs = recorded(stepscope, script, tmp_path, source)
    steps = [run for run in runs if run.engine == "tensorflow function"]
    assert len(steps) == 13
    assert "eager code between runs" not in done.stderr
    assert not any("input pipelines" in losses(run) for run in steps)


STEP = "import tensorflow as tf; print(float(tf.function(lambda x: x + 1.0)(tf.ones([]))))"


@pytest.fixture
def fresh(native, monkeypatch, tmp_path):
    """A machine that has no library yet, and what it is compiled by."""
    compiler = ReadyCompiler(tmp_path)
    monkeypatch.setenv("CXX", str(compiler.path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("stepscope.adapters.tensorflow.node_log.shipped.find", lambda _name: None)
    return compiler


def test_it_is_compiled_at_first_need_and_said_in_a_line(fresh, stepscope, script):
    said = []
    for _ in range(2):
        done = stepscope("run", "--out", "out", script(STEP), timeout=300)
        assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
        said.append([line for line in done.stderr.splitlines() if "stepscope: " in line])
    assert [len(lines) for lines in said] == [1, 0]
    assert "compiling the recorder for TensorFlow" in said[0][0]
    assert fresh.calls == 1


@pytest.mark.parametrize("lack", ["compiler", "home"])
def test_without_it_a_line_says_what_is_lost(fresh, stepscope, script, tmp_path, monkeypatch, lack):
    if lack == "compiler":
        monkeypatch.setenv("CXX", str(tmp_path / "none"))
    else:
        (tmp_path / "cache").write_text("no directory can be made here")
    done = stepscope("run", "--out", "out", script(STEP), timeout=300)
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
    (line,) = (
        line for line in done.stderr.splitlines() if line.startswith("stepscope: runs are recorded")
    )
    assert "by TensorFlow's profiler, which slows them down several times" in line
    assert fresh.calls == 0
    assert "AddV2" in done.stderr  # the table: it was recorded all the same
