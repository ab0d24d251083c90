"""`stepscope run --memory`: allocations followed from the start of an unchanged script."""

import os
import re
import subprocess
import sys

import pytest

import stepscope
from patience import patient

SCRIPT = """
import tensorflow as tf

weights = tf.Variable(tf.random.uniform([512, 1024]), name="weights")
kept = []

@tf.function
def layer(x):
    return tf.nn.relu(tf.matmul(x, weights))

@tf.function
def wide(columns):
    return tf.reduce_sum(tf.random.uniform(tf.stack([1024, columns]), name="wide"))

for step in range(3):
    kept.append(layer(tf.random.uniform([256, 512])))
    wide(tf.constant(16))
try:
    wide(tf.constant(8192))
except tf.errors.ResourceExhaustedError as error:
    print(type(error).__module__, str(error))
"""


@pytest.fixture(scope="module")
def recorded(tensorflow, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    script = folder / "train.py"
    script.write_text(SCRIPT)
    command = ["-m", "stepscope", "run", "--memory", "--memory-limit", "32", "--out", "out"]
    command += ["--budget", "off"]
    done = subprocess.run(
        [sys.executable, *command, str(script)],
        cwd=folder, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"},
        capture_output=True, text=True, timeout=patient(240), check=True,
    )  # fmt: skip
    return folder / "out", done


def test_the_report_accounts_for_every_byte(recorded):
    folder, done = recorded
    failed = stepscope.load(folder)[6]
    chunks = re.findall(r"InUse at [0-9a-f]+ of size (\d+)", done.stderr)
    report = failed.out_of_memory
    assert report.live == sum(map(int, chunks))
    assert report.live == sum(row.bytes for row in report.rows)
    assert report.limit == 32 << 20
    assert report.request.op == "wide/RandomUniform"
    assert ("weights", "variable") in {(row.op, row.kind) for row in report.rows}
    unattributed = sum(row.bytes for row in report.rows if row.kind == "unattributed")
    assert unattributed <= report.live / 100


def test_what_grew_is_told_against_the_run_before_and_not_against_code_between(recorded):
    folder, _ = recorded
    fitted = stepscope.load(folder)[5].alive_at_peak()
    before = {}
    for name, size in zip(fitted.name.tolist(), fitted.bytes.tolist(), strict=True):
        before[name] = before.get(name, 0) + size
    failed = stepscope.load(folder)[6]
    held = {row.op for row in failed.out_of_memory.rows}
    grown = {row.op: row.before for row in failed.out_of_memory.grown}
    assert {"weights", "layer"} & set(before) <= held - set(grown)
    assert grown == {op: before.get(op, 0) for op in grown}


def test_runs_that_fit_have_the_variable_among_what_they_hold(recorded):
    folder, _ = recorded
    run = stepscope.load(folder)[5]
    held = run.alive_at_peak()
    assert ("weights", 512 * 1024 * 4) in set(zip(held.name, held.bytes, strict=True))
    assert run.peak_bytes() == int(held.bytes.sum())


def test_the_script_gets_what_tensorflow_raises(recorded):
    _, done = recorded
    assert done.stdout.startswith("tensorflow.python.framework.errors_impl")
    assert "add report_tensor_allocations_upon_oom to RunOptions" in done.stdout


def test_it_is_for_tensorflow_alone(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('never')\n")
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", "--engine", "embedded", "--memory", str(script)],
        cwd=tmp_path, capture_output=True, text=True, timeout=patient(60),
    )  # fmt: skip
    assert done.returncode == 2
    assert "--memory and --memory-limit are for TensorFlow" in done.stderr
    assert "never" not in done.stdout
