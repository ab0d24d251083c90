"""`stepscope run --budget off` against plain `python`: unchanged programs, all runs in full.

Each program is run in pairs, once by Python and once by `stepscope run`, and says itself how long
its loop took. From outside the whole process is measured, the report included. TensorFlow has its
defaults.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import Pairs, Result, clock, in_pairs, paired

PROGRAMS = Path(__file__).with_name("programs")
PAIRS = int(os.environ.get("STEPSCOPE_PAIRS", "7"))
MOST_LONGER_S = 1.0
_LOOP = re.compile(r"the loop took ([\d.]+) s")


class Target(NamedTuple):
    """What one program may take longer, and what may be written of it."""

    program: str
    what: str
    ratio: float
    most_mb: float | None = None


TARGETS = (
    Target("keras_mlp.py", "Keras MLP, fit of 200 steps", 1.25, 10),
    Target("keras_resnet50.py", "Keras ResNet50 at 64x64, fit of 20 steps", 1.08, 10),
    Target("monitored_session.py", "MonitoredTrainingSession, 1,000 steps", 1.25),
    Target("embedded_training.py", "embedded engine, training of 1,000 steps", 1.25),
)


class Program:
    """One program, run by Python or recorded; both sides' figures are kept."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._script = str(PROGRAMS / target.program)
        self._out = folder / "out"
        self.loops: dict[str, list[float]] = {"plain": [], "recorded": []}
        self.wholes: dict[str, list[float]] = {"plain": [], "recorded": []}
        self.bytes = 0

    def plain(self) -> None:
        self._run("plain", [sys.executable, self._script])

    def recorded(self) -> None:
        run = [sys.executable, "-m", "stepscope", "run", "--budget", "off"]
        self._run("recorded", [*run, "--out", str(self._out), self._script])
        self.bytes = sum(file.stat().st_size for file in self._out.glob("*.stepscope*"))

    def _run(self, side: str, command: list[str]) -> None:
        began = clock()
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        whole = clock() - began
        told = _LOOP.search(ran.stdout)
        if ran.returncode or told is None:
            raise RuntimeError(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr}")
        self.loops[side].append(float(told[1]) * 1e9)
        self.wholes[side].append(whole)


def scripts(tf: Any) -> list[Result]:
    """Every program in pairs."""
    del tf
    return [row for target in TARGETS for row in measured(target)]


def measured(target: Target, pairs: int = PAIRS) -> list[Result]:
    """The rows of one program: its loop, its whole process, what was written."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(target, Path(folder))
        in_pairs(program.recorded, program.plain, rounds=pairs, warmup=1)
        loop = Pairs.of(program.loops["recorded"][1:], program.loops["plain"][1:])
        whole = Pairs.of(program.wholes["recorded"][1:], program.wholes["plain"][1:])
    rows = [paired(f"{target.what}: the loop, recorded, against plain Python", loop, target.ratio)]
    more = statistics.median(
        a - b
        for a, b in zip(program.wholes["recorded"][1:], program.wholes["plain"][1:], strict=True)
    )
    rows.append(
        Result(
            f"{target.what}: the whole process, report included",
            whole.first / 1e6,
            whole.second / 1e6,
            whole.ratio,
            f"at most {MOST_LONGER_S:g} s longer",
            more <= MOST_LONGER_S * 1e9,
            note=f"{more / 1e9:.2f} s longer",
        )
    )
    if target.most_mb is not None:
        size = program.bytes / 1e6
        rows.append(
            Result(
                f"{target.what}: what was written",
                size,
                target.most_mb,
                size / target.most_mb,
                "<= 1",
                size <= target.most_mb,
                unit="MB",
            )
        )
    return rows


GROUPS = (scripts,)
