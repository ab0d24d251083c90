"""The report of `stepscope run` says what recording cost, all of it."""

import io
import re
import time

import pytest
from rich.console import Console

import stepscope as stepscope_module
from stepscope.analysis import account
from stepscope.cli.output import run_report, wording
from stepscope.metadata import programs
from stepscope.metadata.program_notes import COST, EXPORTING, RECORDING
from stepscope.metadata.readers.kept_file import recording_of
from stepscope.recorder.budget import Budget

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "min": 60.0}

STEPS = """
import time
import tensorflow as tf

@tf.function
def step(x):
    for _ in range(30):
        x = tf.tanh(tf.matmul(x, x))
    return x

x = tf.eye(8)
step(x)
began = time.perf_counter()
for _ in range(39):
    step(x)
with open("steps", "w") as file:
    file.write(str(time.perf_counter() - began))
"""

GRAPH = """
import tensorflow.compat.v1 as tf

x = tf.placeholder(tf.float32, [])
y = x + 1.0
with tf.Session() as session:
    for _ in range(5):
        session.run(y, {x: 1.0})
"""


def said(stderr):
    """The cost in seconds, and the whole time."""
    match = re.search(r"recording cost ([\d.,]+) (\S+), ([\d.]+)% of the ([\d.,]+) (\S+) ", stderr)
    assert match is not None, stderr
    cost, unit, share, whole, whole_unit = match.groups()
    cost, whole = float(cost) * UNITS[unit], float(whole) * UNITS[whole_unit]
    assert float(share) / 100 == pytest.approx(cost / whole, abs=0.01)
    return cost, whole


def test_all_that_a_script_waits_for_is_said(stepscope, script, tmp_path, tensorflow):
    del tensorflow
    began = time.perf_counter()
    # Every step is to be there: beside load a budget would keep some of them alone.
    done = stepscope(
        "run", "--engine", "tensorflow", "--budget", "off", "--out", "out", script(STEPS)
    )
    took = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    cost, whole = said(done.stderr)
    runs = stepscope_module.load(tmp_path / "out")
    steps = [run for run in runs if run.engine == "tensorflow function"]
    assert len(steps) == 40
    # Recorded, a step waits for far more than its ops take: nearly all of the loop is ours.
    loop = float((tmp_path / "steps").read_text())
    ops = sum(int(run.ops.end_ns.max() - run.ops.start_ns.min()) for run in steps[1:]) / 1e9
    assert cost > 0.5 * (loop - ops)
    assert cost < whole < took
    # Each run has its share; files, the timeline and the report are no single run's.
    assert 0 < sum(run.overhead.ns for run in runs) / 1e9 < cost


def test_the_embedded_engine_says_it_too(embedded, script):
    done = embedded("--out", "out", script(GRAPH))
    cost, whole = said(done.stderr)
    assert 0 < cost < whole


def test_the_first_line_has_what_recording_cost_by_then(embedded, script):
    done = embedded("--out", "out", script(GRAPH), columns=300)
    first = re.search(r"^[\d.,]+ \S+: .* ([\d.,]+) (\S+) recording so far$", done.stderr, re.M)
    assert first is not None, done.stderr
    cost, _ = said(done.stderr)
    assert 0 < float(first[1].replace(",", "")) * UNITS[first[2]] <= cost


def test_it_is_said_what_the_budget_is_for(embedded, script, tmp_path):
    done = embedded("--budget", "0.0001%", "--out", "out", script(GRAPH))
    (file,) = (tmp_path / "out").glob("*.stepscope")
    found = recording_of(file)
    share = 100 * found.spent_ns / found.own_ns
    said = " ".join(done.stderr.split())
    assert (
        f"the budget of 0.0001% is for noting runs, which took {wording.time(found.spent_ns)}, "
        f"{share:.1f}% of the {wording.time(found.own_ns)} from the first run on; starting and "
        "reporting come once, whatever the budget, and the first runs of each kind are noted in "
        "detail whatever that costs"
    ) in said


def test_nothing_is_said_of_a_budget_that_was_kept():
    budget = Budget(0.05)
    costs = run_report.Costs(10, 20, 10)
    assert "budget" not in run_report.cost(costs, 1000, budget).plain
    assert "budget of 5% is for noting runs" in run_report.cost(costs, 700, budget).plain


def test_a_report_that_was_asked_for_is_not_what_recording_cost(embedded, script, tmp_path):
    done = embedded("--out", "out", "--report", script(GRAPH))
    assert "more went into files asked for besides" in done.stderr
    rows = {row.key: row.ns for row in account(tmp_path / "out").rows}
    (program,) = programs(tmp_path / "out")
    (exporting,) = program.of(EXPORTING)
    assert rows["exporting"] == exporting.ns > 0
    writing = program.of(RECORDING)[-1]
    assert writing.started_ns <= exporting.started_ns < exporting.ended_ns <= writing.ended_ns
    # What the report says that recording cost is what is noted, and without it.
    cost, _ = said(done.stderr)
    noted = program.last(COST).details["total_ns"] / 1e9
    assert cost == pytest.approx(noted, rel=0.01)


def test_a_script_without_runs_has_no_cost_to_tell_of(embedded, script):
    done = embedded("--out", "out", script("print(1)"))
    assert "recording cost" not in done.stderr


def test_the_garbage_collector_looks_through_what_the_program_made(stepscope, script, tensorflow):
    del tensorflow
    source = "import gc\nbefore = gc.get_freeze_count()\nimport tensorflow\n"
    done = stepscope("run", script(f"{source}print(before, gc.get_freeze_count())"))
    before, after = map(int, done.stdout.split())
    # Full collections, and the one at the end, take as long as they would without us. What was
    # frozen can only become less.
    assert 0 < after <= before


def test_what_recording_cost_is_said_when_all_before_it_is_on_the_screen():
    out = io.StringIO()
    console = Console(file=out)
    found = []

    def cost():
        found.append(out.getvalue())
        return "the cost"

    run_report.show(["the ops", None, cost, "the files"], console)
    assert found == ["\nthe ops\n"]
    assert out.getvalue() == "\nthe ops\n\nthe cost\n\nthe files\n"
