"""What is found of runs on TensorFlow when their process died, whatever it died of."""

import os
import re

import pytest

import stepscope as stepscope_module
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log import build
from stepscope.metadata.readers.node_log_file import left_behind

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
def test_what_had_ended_and_the_op_in_flight_are_known_after_any_death(
    native, stepscope, script, tmp_path, program, death
):
    done = stepscope("run", "--out", "out", script(program.format(death=DEATHS[death])))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    *ended, run = stepscope_module.load(tmp_path / "out")
    steps = [step for step in ended if "after" in step.ops.name]
    assert [step.status.code for step in steps] == ["OK"] * 3
    assert len({step.step_id for step in steps}) == 3, "no run is there twice"
    assert run.status.code == "ABORTED"
    assert list(run.status.in_flight) == ["stuck"]
    assert "before" in run.ops.name
    assert not {"stuck", "after"} & set(run.ops.name)
    assert (run.ops.end_ns >= run.ops.start_ns).all()
    assert abs(int(run.ops.start_ns.max()) / 1e9 - os.stat(tmp_path / "out").st_mtime) < 600
    assert "ended while the run was under way" in run.completeness.losses[0].reason
    what = "step" if program is FUNCTION else "Session.run"
    assert re.search(rf"in flight  stuck \(in run_0+{len(ended) + 1} {what}\)", done.stderr)


def test_a_script_that_ends_well_leaves_nothing_behind(native, stepscope, script, tmp_path):
    done = stepscope("run", "--out", "out", script(FUNCTION.format(death="pass")))
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "out").glob("*-log*"))
    steps = [run for run in stepscope_module.load(tmp_path / "out") if "after" in run.ops.name]
    assert len(steps) == 10


def test_files_that_are_cut_short_or_strange_give_what_is_whole(
    native, stepscope, script, tmp_path
):
    stepscope("run", "--out", "out", script(FUNCTION.format(death=DEATHS["kill"])))
    (path,) = (tmp_path / "out").glob("*-log")
    store = path.with_name(path.name.removesuffix("-log"))
    content = path.read_bytes()
    graphs = path.with_name(path.name + ".graphs")
    facts = graphs.read_bytes()

    def under_way():
        (found,) = [run for _, run in left_behind(store, ()) if not run.status.ok]
        return found

    assert "before" in under_way().ops.name
    graphs.write_bytes(facts[:-1])
    assert "names of ops" in {loss.what for loss in under_way().completeness.losses}
    graphs.unlink()
    assert len(under_way().ops) == 0
    for data in (b"", content[:50], content[:4000], b"x" * len(content)):
        path.write_bytes(data)
        assert left_behind(store, ()) == []
    assert left_behind(tmp_path / "nowhere", ()) == []


def test_a_directory_that_cannot_hold_it_costs_nothing_but_that(native, tmp_path):
    from stepscope.adapters.tensorflow.node_log.mapped_logs import MappedLogs

    assert adapter.prepare() == ""
    try:
        missing = MappedLogs(build.library(), tmp_path / "missing" / "runs")
        assert missing.problem == "No such file or directory"
        missing.close()
        there = MappedLogs(build.library(), tmp_path / "runs")
        assert there.problem == ""
        assert sorted(path.name for path in tmp_path.iterdir()) == ["runs-log", "runs-log.graphs"]
        there.close()
        assert not list(tmp_path.iterdir())
    finally:
        build.turn_off()


def test_a_log_is_kept_until_its_run_is_stored(native, tmp_path):
    from stepscope.adapters.tensorflow.node_log.log import NodeLog
    from stepscope.adapters.tensorflow.node_log.mapped_logs import MappedLogs

    assert adapter.prepare() == ""
    store = tmp_path / "runs"
    try:
        logs = MappedLogs(build.library(), store)
        for step, what in enumerate(["first", "second", "thïrd " + 90 * "x"], 1):
            log = NodeLog(outputs=True)
            log.stay(step, what)
            log.enter()
            log.leave()
            log.over(failed=step == 2)
            logs.ended(step, log)
        assert left_behind(store, ()) == [], "the process lives"
        copy = tmp_path / "copy"
        (tmp_path / "copy-log").write_bytes((tmp_path / "runs-log").read_bytes())
        found = [(what[:6], run.step_id, run.status.code) for what, run in left_behind(copy, {1})]
        assert found == [("second", 2, "UNKNOWN"), ("thïrd ", 3, "OK")]
        logs.stored([1, 2, 99])
        (tmp_path / "copy-log").write_bytes((tmp_path / "runs-log").read_bytes())
        assert [what[:5] for what, _ in left_behind(copy, ())] == ["thïrd"]
        logs.close()
        assert [what[:5] for what, _ in left_behind(store, ())] == ["thïrd"], "it was not stored"
    finally:
        build.turn_off()
