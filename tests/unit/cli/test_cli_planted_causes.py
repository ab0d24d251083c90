"""Programs with one planted mistake each: verdict and first finding name it and its line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import started_python
from patience import patient
from stepscope.analysis import advise
from stepscope.analysis.advice import GROWTH

PLANTED = Path(__file__).parents[2] / "planted"
MIB = 1 << 20
BOTH = ("embedded", "tensorflow")
TENSORFLOW = ("tensorflow",)
# Who holds memory from step to step is recorded on TensorFlow where it is asked for.
OPTIONS = {("leak", "tensorflow"): ("--memory",)}
# The program, where it makes sense, the rule that finds it, and the line that is at fault.
CAUSES = [
    ("slow_map", TENSORFLOW, "input-bound", "return found.map(decoded)\n"),
    ("small_batch", BOTH, "tiny-ops", "x = tf.placeholder("),
    ("python_op", BOTH, "python-op", "tf.py_func("),
    ("retraced_by_number", TENSORFLOW, "retracing", "train_step(batch, "),
    ("retraced_by_shape", TENSORFLOW, "retracing", "    train_step(batch)"),
    ("retraced_by_lambda", TENSORFLOW, "retracing", "    step(batch)"),
    ("fed_constant", BOTH, "fed-constant", "prepared = tf.nn.softmax("),
    ("summary_each_step", BOTH, "summaries", "tf.summary.histogram("),
    ("ping_pong", TENSORFLOW, "wrong-device", "hidden = tf.matmul(turned, hidden"),
    ("serial_chain", BOTH, "serial-path", 'name=f"branch_{number}/'),
    ("copies", BOTH, "copies", "tf.cast("),
    ("leak", BOTH, "leak", "queue.enqueue("),
]


def record(program, engine, out, *arguments, options=()):
    """Record a program; what `stepscope run` said of it."""
    # Tests have the recorder for TensorFlow off, users on.
    surroundings = {k: v for k, v in os.environ.items() if k != "STEPSCOPE_EXECUTOR"}
    command = [sys.executable, "-m", "stepscope", "run", "--budget", "off"]
    command += ["--engine", engine, *options, "--out"]
    done = started_python.run(
        [*command, str(out), str(PLANTED / f"{program}.py"), *arguments],
        cwd=out.parent, env={**surroundings, "COLUMNS": "400", "PYTHONWARNINGS": "ignore"},
        timeout=patient(200),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def lines_with(program, text):
    source = (PLANTED / f"{program}.py").read_text().splitlines(keepends=True)
    return [f"{program}.py:{number}" for number, line in enumerate(source, 1) if text in line]


@pytest.mark.parametrize(
    ("program", "engine", "rule", "text"),
    [
        pytest.param(program, engine, rule, text, id=f"{program}-{engine}")
        for program, engines, rule, text in CAUSES
        for engine in engines
    ],
)
def test_the_planted_cause_is_named_first_with_its_line(tmp_path, program, engine, rule, text):
    said = record(program, engine, tmp_path / "out", options=OPTIONS.get((program, engine), ()))
    first = advise(tmp_path / "out").rows[0]
    at = lines_with(program, text)
    assert first.rule == rule
    assert Path(first.line).name in at
    assert first.share > 0.05
    assert first.low <= first.gain <= first.high
    assert first.low < first.high or first.unit == GROWTH
    assert first.evidence
    verdict = said[: said.index("next  ")]
    assert any(line in verdict for line in at), verdict
    assert "would save" in verdict
    assert f"stepscope advise {tmp_path / 'out'}" in said


@pytest.mark.parametrize("engine", BOTH)
def test_a_program_without_a_mistake_gets_no_finding_above_5_percent(tmp_path, engine):
    said = record("clean", engine, tmp_path / "out")
    assert [row for row in advise(tmp_path / "out").rows if row.share > 0.05] == []
    assert "would save" not in said


def test_a_mended_leak_is_checked_by_what_grows_a_step(tmp_path):
    record("leak", "embedded", tmp_path / "old")
    record("leak", "embedded", tmp_path / "new", "mended")
    compare = ["--check", "leak", "old", "new", "--json"]
    done = started_python.run(
        [sys.executable, "-m", "stepscope", "advise", *compare],
        cwd=tmp_path, env=dict(os.environ), timeout=patient(60),
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert (found["before"], found["after"], found["achieved"]) == (MIB, 0, MIB)
    assert found["inside"]
    assert found["error"] == 0


def advise_command(place, *arguments):
    return started_python.run(
        [sys.executable, "-m", "stepscope", "advise", *arguments],
        cwd=place, env={**os.environ, "COLUMNS": "200"}, timeout=patient(120),
    )  # fmt: skip


def test_a_finding_is_proved_on_the_recorded_graph(tmp_path):
    record("copies", "embedded", tmp_path / "out")
    done = advise_command(tmp_path, "--prove", "out")
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "copies@copies.py" in said
    assert "predicted" in said
    assert "pairs of runs in turns" in said
    assert "results    the same" in said
    assert "fed        made values: x:0" in said
    [row] = json.loads(advise_command(tmp_path, "--prove", "out", "--json").stdout)["rows"]
    assert row["check"]["before"] - row["check"]["after"] == pytest.approx(row["check"]["achieved"])
    assert len(row["finding"]["rewrite"]["bypassed"]) == 6


def test_a_python_op_is_not_proved_and_the_reason_is_said(tmp_path):
    record("python_op", "embedded", tmp_path / "out")
    done = advise_command(tmp_path, "--prove", "--finding", "python-op", "out")
    assert "not proved: what would take the place of the Python function" in done.stdout
    wrong = advise_command(tmp_path, "--finding", "python-op", "out")
    assert wrong.returncode == 2
    assert "--finding goes with --prove" in wrong.stderr
