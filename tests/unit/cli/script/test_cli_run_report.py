"""What the report makes of errors and losses."""

import io

import pytest
from rich.console import Console

from stepscope.cli.output import run_report
from stepscope.metadata import Completeness, Loss, Recording, RunMetadata, Status

GRAPH_ERROR = """Graph execution error:

Detected at node checked defined at (most recent call last):
  File "train.py", line 8, in <module>

  File "train.py", line 5, in divide

bad ratio : Tensor had Inf values
\t [[{{node checked}}]] [Op:__inference_divide_8]"""


def shown(part):
    text = io.StringIO()
    Console(file=text, width=120, highlight=False, markup=False).print(part)
    return text.getvalue()


def run(message="", losses=()):
    metadata = RunMetadata()
    status = Status("INVALID_ARGUMENT", message) if message else Status()
    metadata.record(Recording(engine="x", status=status, completeness=Completeness(losses)))
    return metadata


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (GRAPH_ERROR, "bad ratio : Tensor had Inf values"),
        ("Graph execution error:\n\nNode: 'a'\nno such key\n\t [[{{node a}}]]", "no such key"),
        ("Graph execution error:", "Graph execution error:"),
        ("plain\nand more", "plain"),
    ],
)
def test_a_failure_is_told_in_one_line(message, line):
    _, row = shown(run_report.failures([("run_000001 divide", run(message))])).splitlines()
    assert row.split(None, 3)[3].rstrip() == line


def test_losses_of_runs_and_of_none():
    runs = [("a", run(losses=[Loss("ops", 3, "cut")])), ("b", run(losses=[Loss("ops", 4, "cut")]))]
    lines = shown(run_report.losses(runs, ["5 runs: busy"])).splitlines()
    assert [line.rstrip() for line in lines] == [
        "not measured",
        "  5 runs: busy",
        "  7 ops (in 2 runs): cut",
    ]
    assert run_report.losses([("a", run())]) is None
    assert "busy" in shown(run_report.losses([], ["busy"]))


def test_a_long_loss_is_one_indented_paragraph():
    run = RunMetadata()
    losses = (Loss("memory", 0, "not seen " * 12),)
    run.record(Recording(engine="test", completeness=Completeness(losses)))
    screen = Console(width=60, file=io.StringIO())
    screen.print(run_report.losses([("a", run)], width=60))
    _, first, *rest = screen.file.getvalue().splitlines()
    assert first.startswith("  memory (in 1 run): not seen")
    assert rest
    assert all(line.startswith(("    not", "    seen")) for line in rest)
