"""Work that runs did: operations and bytes by their shapes, and how near the machine's reach."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from analysed_runs import run_of
from stepscope.analysis import work_profile
from stepscope.analysis.work import machine
from stepscope.analysis.work.machine import Reach, machine_reach

ROWS, WIDTH, UNITS = 32, 784, 100


@pytest.fixture(scope="module")
def runs() -> dict[str, Any]:
    """A layer and a pool: with shapes, with the graph too, and without either."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, WIDTH], "x")
        w = tf.get_variable("w", [WIDTH, UNITS])
        layer = tf.tanh(tf.matmul(x, w))
        image = tf.reshape(layer, [-1, 10, 10, 1])
        pool = tf.nn.max_pool(image, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = {}
            for name, options in {
                "full": tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
                "graph": tf.RunOptions(
                    trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True
                ),
                "software": tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE),
            }.items():
                found[name] = tf.RunMetadata()
                feed = {x: np.ones((ROWS, WIDTH), np.float32)}
                session.run(pool, feed, options=options, run_metadata=found[name])
    return found


def test_operations_and_bytes_by_type(runs: dict[str, Any]) -> None:
    profile = work_profile([runs["graph"]] * 3)
    rows = {row.key: row for row in profile}
    assert rows["MatMul"].flops == 3 * 2 * ROWS * WIDTH * UNITS
    assert rows["MatMul"].bytes == 3 * 4 * (ROWS * WIDTH + WIDTH * UNITS + ROWS * UNITS)
    assert rows["Tanh"].flops == 3 * ROWS * UNITS
    assert rows["MaxPool"].flops == 3 * 4 * ROWS * 25
    assert (rows["Reshape"].flops, rows["Reshape"].bytes) == (0, 0)
    assert (profile.runs, profile.uncounted, profile.lacking) == (3, 0, ())
    matmul = rows["MatMul"]
    assert matmul.flops_per_s == pytest.approx(1e9 * matmul.flops / matmul.self_ns)
    assert (matmul.reach, matmul.bound) == (0.0, "")


def test_what_a_record_lacks_is_said(runs: dict[str, Any]) -> None:
    without_graph = work_profile(runs["full"])
    assert [(lack.what, lack.calls) for lack in without_graph.lacking] == [
        ("the graph is not there, which has 'ksize' of MaxPool", 1)
    ]
    row = next(row for row in without_graph if row.key == "MaxPool")
    assert (row.flops, row.uncounted, row.flops_per_s) == (0, 1, 0.0)
    without_shapes = work_profile(runs["software"])
    assert without_shapes.uncounted == without_shapes.calls > 0
    assert without_shapes.lacking[0].what == "no shapes were recorded"


def test_a_file_of_tensorflows(data_dir: Path) -> None:
    run = stepscope.load(data_dir / "mlp_adam_refvars" / "run_metadata.pb")
    rows = {row.key: row for row in work_profile(run)}
    forward, backward = 64 * 128 + 128 * 10, 64 * 128 + 2 * 128 * 10
    assert rows["MatMul"].flops == 2 * 32 * (forward + backward)
    assert rows["MatMul"].uncounted == 0


def test_reach_by_the_roofline() -> None:
    """A sum of 250 numbers each: 1 us of memory, of which it took 2 us; operations take 0.25 us."""
    run = run_of(
        ("a", "Const", [], 1, 0, 0, 10, "/device:CPU:0", 1000),
        ("b", "Const", [], 1, 10, 10, 20, "/device:CPU:0", 1000),
        ("c", "Add", ["a", "b"], 1, 20, 20, 2020, "/device:CPU:0", 1000),
    )
    row = work_profile(run, machine=Reach(flops_per_s=1e9, bytes_per_s=3e9)).rows[0]
    assert (row.key, row.flops, row.bytes) == ("Add", 250, 3000)
    assert row.reach == pytest.approx(0.5)
    assert row.bound == "memory"
    fast_memory = work_profile(run, machine=Reach(flops_per_s=1e9, bytes_per_s=1e12)).rows[0]
    assert fast_memory.reach == pytest.approx(0.125)
    assert fast_memory.bound == "compute"


def test_grouped_as_time_is(runs: dict[str, Any]) -> None:
    by_name = work_profile(runs["graph"], "name")
    assert by_name.flops == work_profile(runs["graph"], "layer").flops > 0
    assert {row.key for row in by_name} >= {"MatMul", "Tanh", "MaxPool"}
    with pytest.raises(ValueError, match="by must be one of type, name"):
        work_profile(runs["graph"], "colour")


def test_a_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tries = []

    def measure() -> Reach:
        tries.append(1)
        return Reach(1e9, 2e9, machine._machine(), "2026-01-01")

    first, file = machine_reach(measure)
    assert machine_reach(measure) == (first, file)
    assert file == tmp_path / "stepscope" / "machine.json"
    assert len(tries) == 1
    file.write_text(file.read_text().replace("cores", "other cores"))
    assert machine_reach(measure)[0] == first
    file.write_text("{")
    assert machine_reach(measure)[0] == first
    assert len(tries) == 3


def test_what_is_measured_is_positive() -> None:
    reach = machine.measured_reach()
    assert reach.flops_per_s > 0
    assert reach.bytes_per_s > 0


def test_the_worked_examples_are_true() -> None:
    assert doctest.testmod(machine).failed == 0
