"""Memory where oneDNN is on, as it is by default: its allocator tells of large tensors only."""

import math
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from onednn_programs import HOW_MANY, SMALL

import started_python
import stepscope
from patience import patient
from stepscope.adapters.tensorflow.node_log.build import SWITCH
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.metadata import AllocationColumns

pytestmark = pytest.mark.usefixtures("tensorflow")


def recorded(engine, out, *how, executor="off"):
    """The metadata of a program's runs, in the order in which they were made."""
    program = Path(__file__).with_name("onednn_programs.py")
    out.mkdir()
    started_python.run(
        [sys.executable, program, engine, out, *how], cwd=out, check=True, timeout=patient(240),
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", SWITCH: executor},
    )  # fmt: skip
    return [stepscope.load(path) for path in sorted(out.glob("*.pb"))]


@pytest.mark.parametrize("engine", ["session", "function", "eager"])
def test_small_tensors_count_and_the_figure_is_called_an_estimate(engine, tmp_path, capsys):
    runs = recorded(engine, tmp_path / "runs")
    assert len(runs) == 3
    for run in runs:
        assert run.completeness.memory_is_estimated
        assert run.peak_bytes() >= HOW_MANY * SMALL * 4
        assert set(run.allocations.device) == set(run.ops.device)
    run_command_line(["memory", str(tmp_path / "runs" / "0.pb")])
    shown = capsys.readouterr().out
    assert "peak about " in shown
    assert "An estimate, by what ops put out" in shown.replace("\n", " ")
    run_command_line(["info", str(tmp_path / "runs" / "0.pb")])
    assert "(peak about " in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["session", "function"])
def test_our_executor_counts_what_the_allocator_counts(compiled, engine, tmp_path):
    told = recorded(engine, tmp_path / "told", executor="on")[-1]
    assert told.recorder == "executor"
    assert not told.completeness.memory_is_estimated
    events = recorded(engine, tmp_path / "events", "bfc")[-1].allocations
    events = events.select(events.event != "held")
    # The allocator gives more than it is asked for: up to twice as much, where it has that left.
    sizes = [
        math.copysign(4 * math.prod(shape), size)
        for shape, size in zip(events.shape, events.bytes, strict=True)
    ]
    asked = AllocationColumns.build(
        name=events.name, device=events.device, time_ns=events.time_ns, bytes=sizes
    )
    ours = told.allocations
    named = [
        Counter(zip(rows.name, rows.event, rows.bytes.tolist(), strict=True))
        for rows in (ours, asked)
    ]
    assert named[0] == named[1]
    # What the sum has for itself is as large as what it sums up.
    assert named[0]["Sum", "allocate", 10_000_000] == named[0]["Sum", "free", -10_000_000] == 1
    assert told.peak_bytes() == ours.peak_bytes() == asked.peak_bytes() == 20_010_000
