"""What is found of a run that was under way when its process died, whatever it died of."""

import os

import pytest

import stepscope as stepscope_module
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log import build
from stepscope.metadata.readers.node_log_file import read_left_behind

FUNCTION = """
import os, signal, sys
import tensorflow as tf

calls = []

def stuck(value):
    calls.append(1)
    if len(calls) == 4:
        {death}
    return value

@tf.function
def step(x):
    y = tf.multiply(x, 2.0, name="before")
    y = tf.ensure_shape(tf.numpy_function(stuck, [y], tf.float32, name="stuck"), [2])
    return tf.add(y, 1.0, name="after")

for _ in range(10):
    step(tf.ones([2]))
"""

SESSION = """
import os, signal, sys
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
calls = []

def stuck(value):
    calls.append(1)
    if len(calls) == 4:
        {death}
    return value

x = tf.placeholder(tf.float32, [2])
y = tf.py_func(stuck, [tf.tanh(x, name="before")], tf.float32, name="stuck")
z = tf.add(y, 1.0, name="after")
with tf.Session() as session:
    for _ in range(10):
        session.run(z, {{x: [1.0, 2.0]}})
"""

DEATHS = {
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "segv": "import ctypes; ctypes.string_at(0)",
    "abort": "os.abort()",
    "exit": "os._exit(3)",
}


@pytest.mark.parametrize(
    ("program", "death"),
    [*((FUNCTION, death) for death in DEATHS), (SESSION, "kill")],
    ids=[*DEATHS, "session"],
)
def test_the_op_in_flight_is_known_after_any_death(
    native, stepscope, script, tmp_path, program, death
):
    done = stepscope("run", "--out", "out", script(program.format(death=DEATHS[death])))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    (run,) = read_left_behind(tmp_path / "out")
    assert run.status.code == "ABORTED"
    assert list(run.status.in_flight) == ["stuck"]
    assert "before" in run.ops.name
    assert not {"stuck", "after"} & set(run.ops.name)
    assert (run.ops.end_ns >= run.ops.start_ns).all()
    assert abs(int(run.ops.start_ns.max()) / 1e9 - os.stat(tmp_path / "out").st_mtime) < 600
    assert "ended while the run was under way" in run.completeness.losses[0].reason


def test_a_script_that_ends_well_leaves_nothing_behind(native, stepscope, script, tmp_path):
    done = stepscope("run", "--out", "out", script(FUNCTION.format(death="pass")))
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "out").glob("node_log*"))
    assert read_left_behind(tmp_path / "out") == []
    steps = [run for run in stepscope_module.load(tmp_path / "out") if "after" in run.ops.name]
    assert len(steps) == 10


def test_files_that_are_cut_short_or_strange_give_what_is_whole(
    native, stepscope, script, tmp_path
):
    stepscope("run", "--out", "out", script(FUNCTION.format(death=DEATHS["kill"])))
    (path,) = (tmp_path / "out").glob("node_log-*.map")
    content = path.read_bytes()
    graphs = path.with_name(path.name + ".graphs")
    facts = graphs.read_bytes()
    graphs.write_bytes(facts[:-1])
    (run,) = read_left_behind(path)
    assert "names of ops" in {loss.what for loss in run.completeness.losses}
    graphs.unlink()
    (run,) = read_left_behind(path)
    assert len(run.ops) == 0
    for data in (b"", content[:50], content[:5000], b"x" * len(content)):
        path.write_bytes(data)
        assert read_left_behind(tmp_path / "out") == []
    assert read_left_behind(tmp_path / "nowhere") == []


def test_a_directory_that_cannot_hold_it_costs_nothing_but_that(native, tmp_path):
    from stepscope.adapters.tensorflow.node_log.mapped_logs import MappedLogs

    assert adapter.prepare() == ""
    try:
        missing = MappedLogs(build.library(), tmp_path / "missing")
        assert missing.problem == "No such file or directory"
        missing.close()
        there = MappedLogs(build.library(), tmp_path)
        assert there.problem == ""
        assert len(list(tmp_path.glob("node_log-*"))) == 2
        there.close()
        assert not list(tmp_path.glob("node_log-*"))
    finally:
        build.turn_off()
