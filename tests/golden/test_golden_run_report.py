"""What `stepscope run` shows, letter by letter.

To accept a change: STEPSCOPE_ACCEPT=1 pytest tests/golden, then look at the difference in git.
"""

import io
import os
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

import started_python
from patience import patient
from stepscope.analysis import OpProfile, OpRow
from stepscope.cli.output import run_report
from stepscope.metadata import Completeness, InFlight, Loss, Recording, RunMetadata, Status

HERE = Path(__file__).parent
MISTAKE = '    smoothed = tf.py_func(smooth, [images], tf.float32, name="smooth")'
DEMO = HERE.parents[1] / "examples" / "demo.py"


def compare(name, text):
    path = HERE / name
    if os.environ.get("STEPSCOPE_ACCEPT"):
        path.write_text(text)
    assert text == path.read_text()


def row(op, calls, total_ns, max_ns, size, share, device="CPU:0"):
    device = device and f"/job:localhost/replica:0/task:0/device:{device}"
    return OpRow(
        key=op,
        op=op,
        device=device,
        calls=calls,
        total_ns=total_ns,
        self_ns=total_ns,
        covered_ns=total_ns,
        share=share,
        mean_ns=total_ns / calls,
        max_ns=max_ns,
        p50_ns=total_ns / 3,
        p90_ns=total_ns / 3,
        p99_ns=total_ns / 3,
        bytes=size,
    )


TABLE = OpProfile(
    by="type",
    rows=(
        row("MatMul", 24, 41_234_567, 3_100_000, 8_234_567, 0.746),
        row("SparseSoftmaxCrossEntropyWithLogits", 8, 9_999_600, 1_400_000, 40_960, 0.181),
        row("Mean", 1_024, 3_000_123, 300_000, 4_096, 0.0543, device=""),
        row("TruncatedNormal", 3, 999_600, 999_600, 1 << 20, 0.0181, device="CPU:1"),
        row("Const", 100, 12_345, 900, 0, 0.0002),
        row("NoOp", 9, 999, 120, 0, 0.0),
    ),
    runs=3,
    calls=1_168,
    total_ns=55_247_234,
    self_ns=55_247_234,
    covered_ns=50_000_000,
)


def run(code="OK", message="", in_flight=(), losses=()):
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine="embedded",
            status=Status(code, message, in_flight),
            completeness=Completeness(losses),
        )
    )
    return metadata


RUNS = [
    ("run_000001", run()),
    (
        "run_000002",
        run(
            "DEADLINE_EXCEEDED",
            "Timed out after 100 ms; an op that cannot be interrupted was left behind",
            [InFlight("slow/py_func", "abandoned"), InFlight("dequeue", "waited_for", 1_200_000)],
            [Loss("executions", 0, "the run ended early"), Loss("records", 12, "abandoned")],
        ),
    ),
    ("run_000003", run(losses=[Loss("executions", 0, "the run ended early")])),
]


@pytest.mark.parametrize("width", [80, 160])
def test_a_report(width):
    shown = io.StringIO()
    console = Console(file=shown, width=width, highlight=False, markup=False, emoji=False)
    run_report.show(
        [
            run_report.heading("examples/demo.py", "embedded (NumPy 2.4.0)", "full", TABLE),
            run_report.ops(TABLE, width, top=5),
            run_report.failures(RUNS),
            run_report.losses(RUNS),
            run_report.notes(["recording ended after 3 (--limit); later runs are not here"]),
            run_report.files(Path("out/demo/runs-7-1.stepscope"), Path("out/demo/timeline.json")),
        ],
        console,
    )
    text = "\n".join(line.rstrip() for line in shown.getvalue().splitlines()) + "\n"
    assert max(map(len, text.splitlines()[:10])) <= width
    compare(f"run_report_{width}.txt", text)


def masked(text):
    """Times, shares, bars and the version of NumPy hidden; rows by name, not by time."""
    text = re.sub(r"NumPy [\w.]+", "NumPy X", text)
    text = re.sub(r"runs-\d+-1", "runs-PROCESS-1", text)
    text = re.sub(r"[\d.,]+ (ns|µs|ms|s)\b", "TIME", text)
    text = re.sub(r"[\d.]+%", "SHARE", text)
    # No time at all is a dash; whether a tiny op took a nanosecond is the machine's affair.
    text = re.sub(r"(?<= )-(?= +(?:-|TIME|SHARE))", "TIME", text)
    text = re.sub(r"[█▏▎▍▌▋▊▉]+", "", text)
    lines = [re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines()]
    lines = [re.sub(r"─+", "─", line) for line in lines]
    # What limits the script is told by its figures: it has a test of its own.
    said, table = lines.index("", 2), lines.index("─") - 1
    del lines[said + 1 : table]
    ruler = lines.index("─")
    end = lines.index("", ruler)
    return "\n".join([*lines[: ruler + 1], *sorted(lines[ruler + 1 : end]), *lines[end:]]) + "\n"


@pytest.mark.parametrize("width", [80, 160])
def test_the_demo(tmp_path, width):
    (tmp_path / "demo.py").write_text(DEMO.read_text())
    options = ["--top", "50", "--out", "out", "--budget", "off"]
    done = started_python.run(
        [sys.executable, "-m", "stepscope", "run", "--engine", "embedded", *options, "demo.py"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": str(width)},
        timeout=patient(240),
        check=True,
    )
    assert max(map(len, done.stderr.splitlines()[:10])) <= width
    compare(f"demo_{width}.txt", masked(done.stderr))
    said = " ".join(done.stderr.split())
    assert re.search(r"[\d.]+ m?s: .* in 119 steps\b.* recording cost ", said)
    line = 1 + DEMO.read_text().splitlines().index(MISTAKE)
    step = (
        r"Session\.run\(train, loss/mean\) [\d.]+ m?s a step \(p90 [\d.]+ m?s, first [\d.]+ m?s\)"
    )
    assert re.search(step + rf", \d\d% in Python, the op `smooth` \(demo\.py:{line}\)", said)
    assert "in place of the Python op `smooth` would save" in said
    assert f" a step: demo.py:{line} " in said
    assert "next stepscope advise out stepscope top --by line out " in said
