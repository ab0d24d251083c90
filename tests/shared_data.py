"""Optional data beside the repository; tests that want it are skipped where it is not there.

Nothing else in the tests looks outside the repository. `STEPSCOPE_SHARED` names the folder where it
is not `shared` beside the clone.
"""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2] / "shared"
_SHARED = Path(os.environ.get("STEPSCOPE_SHARED") or _BESIDE)

ARTEFACTS = _SHARED / "artefacts"
"""What TensorFlow wrote: a folder for each program."""
SEEDS = _SHARED / "seeds"
"""The documents that Stepscope was made from."""
PERFETTO = _SHARED / "tools" / "perfetto_check"
"""A program that says what Perfetto's importer makes of files."""


def seed_text(number: int) -> str:
    """The seed document of that number."""
    (path,) = SEEDS.glob(f"{number:03d}_*.txt")
    return path.read_text()


def fenced_programs(number: int) -> list[str]:
    """The programs that stand in it, as they are."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", seed_text(number), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(body) for language, body in blocks if language in ("python", "jsx")]
