"""Control-C wherever the recorder is at work: no run that ended is lost, and later ones are kept.

The scripts interrupt themselves, each time at the next of all places at which Python looks for
signals while it executes our code.
"""

from collections import Counter
from pathlib import Path

import pytest

import stepscope as package
from stepscope.metadata import iter_runs
from stepscope.metadata.readers.kept_file import recording_of

SWEEP = """
import signal
import sys
import tensorflow as tf

ran, made = [], []

def interrupted(step, after):
    # Once at each place before what it runs, or after that.
    place, hit = 0, True
    while hit:
        place, left, hit = place + 1, place, False
        ran.clear()

        def profile(frame, event, argument):
            # Python looks where a function begins, and when one that is written in C has returned.
            nonlocal left, hit
            here = event in ("call", "c_return") and "OWN" in frame.f_code.co_filename
            if here and bool(ran) == after and not hit:
                left -= 1
                if left < 0:
                    hit = True
                    signal.raise_signal(signal.SIGINT)

        sys.setprofile(profile)
        try:
            step()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        made.append(bool(ran))
    assert place > 8, place

def runs(x):
    ran.append(True)
    return x

def says(name):
    print(name, sum(made), flush=True)
    made.clear()
"""
FUNCTION = """
@tf.function
def before():
    return tf.numpy_function(runs, [1.0], tf.float32)

@tf.function
def after():
    return tf.numpy_function(runs, [1.0], tf.float32)

for step in before, after:
    for _ in range(3):
        step()
interrupted(before, after=False)
says("before")
interrupted(after, after=True)
says("after")
"""
SESSION = """
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    before = tf.numpy_function(runs, [1.0], tf.float32, name="before")
    after = tf.numpy_function(runs, [1.0], tf.float32, name="after")
    for step in before, after:
        for _ in range(3):
            session.run(step)
    interrupted(lambda: session.run(before), after=False)
    says("before")
    interrupted(lambda: session.run(after), after=True)
    says("after")
"""
TAPE = """
weight = tf.Variable(3.0)

def step():
    with tf.GradientTape() as tape:
        ran.append(True)
        weight * weight

step()
interrupted(step, after=False)
step()
says("tape")
"""

EAGER = """
count = tf.Variable(0.0)

def step():
    with tf.GradientTape():
        ran.append(True)
        count.assign_add(1.0)

step()
interrupted(step, after=True)
step()
print("executed", int(count.numpy()))
"""


@pytest.fixture
def swept(native, stepscope, script):
    """Record a script; gives how many runs it says that it made, by their names."""
    del native

    def run(source, budget="off"):
        own = str(Path(package.__file__).parent)
        name = script(SWEEP.replace("OWN", own) + source)
        done = stepscope("run", "--engine", "tensorflow", "--budget", budget, "--out", "out", name)
        assert done.returncode == 0, done.stderr
        said = map(str.split, done.stdout.splitlines())
        return {name: int(made) for name, made in said}

    return run


def recorded(place, op):
    """How many runs there are that executed this op, or an op of this type."""
    return sum(op in (*run.ops.name, *run.ops.op) for _, run in iter_runs(place))


def named(place):
    """How many runs there are by what ran."""
    return Counter(name.partition(" ")[2] for name, _ in iter_runs(place))


def test_calls_of_functions(swept, tmp_path):
    made = swept(FUNCTION)
    assert made["after"] > 20
    assert named(tmp_path / "out")["after"] == made["after"] + 3
    assert recorded(tmp_path / "out", "PyFunc") == made["before"] + made["after"] + 6


def test_runs_of_sessions(swept, tmp_path):
    made = swept(SESSION)
    assert made["after"] > 20
    for name in "before", "after":
        assert recorded(tmp_path / "out", name) == made[name] + 3


def test_gradient_tapes(swept, tmp_path):
    made = swept(TAPE)
    # One is ended by the next one, or by the script's end.
    assert recorded(tmp_path / "out", "Mul") == made["tape"] + 2


def test_eager_ops_are_recorded_or_declared(swept, tmp_path):
    made = swept(EAGER)
    runs = [run for _, run in iter_runs(tmp_path / "out")]
    rows = sum(list(run.ops.op).count("AssignAddVariableOp") for run in runs)
    broken_off = [
        loss
        for run in runs
        for loss in run.completeness.losses
        if "AssignAddVariableOp" in loss.reason
    ]
    assert {loss.what for loss in broken_off} == {"op executions"}
    # Python cannot tell of some calls whether they had ended: of others it is known.
    declared = sum(loss.count for loss in broken_off)
    assert 0 < declared < 5
    assert made["executed"] > 5
    assert made["executed"] - declared <= rows <= made["executed"] + declared


def test_runs_under_a_budget(swept, tmp_path):
    made = swept(FUNCTION, "5%")
    (file,) = (tmp_path / "out").glob("*.stepscope")
    counted = {one.kind: sum(one.at) for one in recording_of(file).summaries}
    assert counted["after"] == made["after"] + 3
