"""Which frames are Stepscope's is told by module, whatever files and folders are called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import stepscope
from patience import patient
from stepscope import own_code

PACKAGE = Path(stepscope.__file__).parent
EMBEDDED = """
import stepscope.tf1 as tf

def halves(x):
    if x > 1:
        raise ValueError("too large")
    return x

x = tf.constant(2.0, name="x")
print(x.op.source)
y = tf.cond(tf.constant(True), lambda: tf.square(x), lambda: tf.negative(x))
print([frame.filename for frame in y.op.traceback])
tf.cond(tf.constant(True), lambda: halves(2), lambda: x)
"""
REAL = """
import tensorflow as tf
x = tf.placeholder(tf.float32, [])
checked = tf.check_numerics(tf.log(x), "bad logarithm")
with tf.Session() as session:
    session.run(checked, {x: -1.0})
"""


@pytest.fixture(params=["linked", "copied"])
def elsewhere(request, tmp_path):
    """A folder with a blank and an umlaut, in which the package is; scripts lie beside it."""
    folder = tmp_path / "a b ü"
    folder.mkdir()
    if request.param == "linked":
        (folder / "stepscope").symlink_to(PACKAGE)
    else:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, folder / "stepscope", ignore=ignored)
    return folder


def run(folder, text, *arguments):
    script = folder / "stepscope_train.py"
    script.write_text(text)
    found = {"PYTHONPATH": str(folder), "COLUMNS": "200", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return script, subprocess.run(
        [sys.executable, "-m", "stepscope", "run", *arguments, "--out", "out", script.name],
        cwd=folder, env={**os.environ, **found}, capture_output=True, text=True, check=False,
        timeout=patient(300),
    )  # fmt: skip


def files_in(text):
    return set(re.findall(r'File "([^"]+)", line', text.partition("\n\nstepscope")[0]))


def test_lines_and_tracebacks_are_the_users_wherever_the_package_lies(elsewhere):
    script, done = run(elsewhere, EMBEDDED, "--engine", "embedded")
    source, frames = done.stdout.splitlines()
    line = EMBEDDED.splitlines().index('x = tf.constant(2.0, name="x")') + 1
    assert source == f"{script}:{line}"
    assert frames == repr([str(script)])
    assert done.returncode == 1
    assert files_in(done.stderr) == {str(script)}
    assert "in halves" in done.stderr
    assert done.stderr.count("ValueError: too large") == 1


@pytest.mark.tensorflow
@pytest.mark.usefixtures("tensorflow")
def test_and_on_tensorflow(elsewhere):
    script, done = run(elsewhere, REAL, "--engine", "tensorflow", "--tf1")
    assert done.returncode == 1
    assert "bad logarithm" in done.stderr
    shown = files_in(done.stderr)
    assert str(script) in shown
    assert not [file for file in shown if file.startswith(f"{elsewhere / 'stepscope'}{os.sep}")]
    assert not [file for file in shown if f"{os.sep}click{os.sep}" in file]


def test_where_we_raised_the_error_our_last_frames_stay():
    def users():
        stepscope.RunOptions(trace_level="no such level")

    try:
        own_code.without_ours(None)
        users()
    except (TypeError, ValueError) as error:
        whole = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        trace = own_code.without_ours(error.__traceback__)
        assert [frame.f_code.co_name for frame, _ in traceback.walk_tb(trace)] == whole
        assert own_code.is_ours(list(traceback.walk_tb(trace))[-1][0])
    else:
        pytest.fail("it was taken")
