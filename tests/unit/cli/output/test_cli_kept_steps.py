"""`stepscope info` of a recording with a budget: all steps, and why some were kept."""

from __future__ import annotations

import json

import numpy as np

import stepscope
import stepscope.tf1 as tf
from stepscope.cli.output import kept_steps
from stepscope.metadata.readers.kept_file import KeptRun
from stepscope.metadata.stored.step_summaries import Level


def record(place):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        tf.check_numerics(1.0 / x, "not a number", name="checked")
        with tf.Session() as session, stepscope.Recorder(place, budget="5%") as recorder:
            for step in range(200):
                try:
                    session.run("checked:0", {x: np.full(2, step != 150, np.float32)})
                except stepscope.errors.InvalidArgumentError:
                    recorder.keep("a step failed")


def test_info_says_what_was_seen_of_all_steps_and_why_runs_were_kept(tmp_path, command):
    record(tmp_path / "steps")
    code, shown, said = command("info", "steps")
    assert code == 0, said
    words = " ".join(shown.split())
    assert words.startswith("200 steps, of which ")
    assert "with a budget of 5%" in words
    assert "run_000151 Session.run(checked): " in words
    assert "ended with INVALID_ARGUMENT" in words
    assert "what was before was kept for: a step failed" in words


def test_info_says_which_lengths_have_recording_in_them():
    def kept(number, took_ns):
        return KeptRun(number, "step", Level.DETAIL, ("first",), took_ns=took_ns)

    runs = [kept(1, 150_000), kept(2, 152_000), kept(3, 160_000)]
    said = str(kept_steps.slowed(runs, [230_000, 229_000, 237_000]))
    assert "recorded runs, with what recording took in them: 77.0 µs more" in said
    assert kept_steps.slowed(runs, [150_100, 152_000, 160_300]) is None


def test_programs_get_the_reasons_as_data(tmp_path, command):
    record(tmp_path / "steps")
    code, output, said = command("info", "steps", "--json")
    assert code == 0, said
    kept = {run["number"]: run for run in json.loads(output)["kept"]}
    assert "failed" in kept[151]["reasons"]
    assert "first" in kept[1]["reasons"]


STEPS = """
import numpy as np
import stepscope.tf1 as tf
x = tf.placeholder(tf.float32, [64, 64], name="x")
total = tf.reduce_sum(tf.matmul(x, x), name="total")
with tf.Session() as session:
    for _ in range(1500):
        session.run(total, {x: np.ones([64, 64], np.float32)})
"""


def test_the_report_of_a_script_is_of_all_runs_whether_kept_or_not(embedded, script):
    ran = embedded("--budget", "1%", script(STEPS))
    assert ran.returncode == 0, ran.stderr
    words = " ".join(ran.stderr.split())
    assert "1,500 runs" in words
    assert "(estimated from " in words
    (row,) = [line for line in ran.stderr.splitlines() if line.startswith("MatMul ")]
    assert " 1,500 " in row
    assert "Session.run(total) " in words
    assert ", of 1,500 steps)" in words
