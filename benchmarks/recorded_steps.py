"""Commands on a recording with a budget of a million steps: each a process of its own.

The store is made by the recorder's code under a clock that is set (`tests/many_steps.py`; a minute
or two). `STEPSCOPE_STEPS=1000000` says of how many steps.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Result, clock

STEPS: Final = int(os.environ.get("STEPSCOPE_STEPS", "1000000"))
ASKED: Final = (
    "info", "top", "top --by name", "top --by line", "steps", "path", "memory", "account", "diff",
)  # fmt: skip
MOST_S: Final = 2.0
_ROUNDS: Final = 5
_MAKER: Final = Path(__file__).parents[1] / "tests" / "many_steps.py"


def million_steps(tf: Any) -> list[Result]:
    """Each command, beside what it may take."""
    del tf
    with tempfile.TemporaryDirectory() as folder:
        began = clock()
        subprocess.run([sys.executable, str(_MAKER), folder, str(STEPS)], check=True)
        made_s = (clock() - began) / 1e9
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        note = f"made in {made_s:.0f} s, {size / 1e6:.1f} MB"
        return [_row(asked, folder, note) for asked in ASKED]


GROUPS = (million_steps,)


def _row(asked: str, folder: str, note: str) -> Result:
    command, *options = asked.split()
    places = [folder, folder] if command == "diff" else [folder]
    took = []
    for _ in range(_ROUNDS):
        began = clock()
        subprocess.run(
            [sys.executable, "-m", "stepscope", command, *options, *places],
            check=True, capture_output=True,
        )  # fmt: skip
        took.append((clock() - began) / 1e9)
    median = statistics.median(took)
    return Result(
        f"stepscope {asked} of {STEPS:,} steps", median * 1e3, MOST_S * 1e3, median / MOST_S,
        "<= 1", median <= MOST_S, note=note,
    )  # fmt: skip
