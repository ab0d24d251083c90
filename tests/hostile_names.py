"""Names that somebody made to break a page or a terminal, and runs that have them everywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

HACKS = "window.hacked=1"
"""What any of the scripts in them would do."""
NAMES = (
    f"</script><script>{HACKS}</script>",
    f"<img src=x onerror='{HACKS}'>",
    f'" onload="{HACKS}',
    "a\u202eb\x1b[2Jc\x00d\u2028",
    "$",
    "x" * 1_000_000,
    "\udcff\udc80",
    "..%2f..%2fetc/passwd",
    f"javascript:{HACKS}//",
)
FOLDER = os.fsdecode(b"<svg onload='window.hacked=1'> \xff\x1b[2J")
"""The name of a directory, which is not UTF-8."""


def hostile_run() -> Any:
    """A run whose ops, types, devices, threads, annotations and lines have such names."""
    from stepscope.metadata import OpColumns, Recording, RunMetadata
    from stepscope.metadata.xplane.steps import ANNOTATION

    count = len(NAMES)
    start = [1_000 * place for place in range(count)] * 2
    ops = OpColumns.build(
        name=[*NAMES, *NAMES], op=[*NAMES, *[ANNOTATION] * count], device=[*NAMES, *NAMES],
        thread=[1] * count + [0] * count, scheduled_ns=start, start_ns=start,
        end_ns=[at + 900 for at in start], thread_names={1: NAMES[0]},
    )  # fmt: skip
    run = RunMetadata()
    sources = dict.fromkeys(NAMES, f"{NAMES[1]}.py:3")
    run.record(Recording(engine=NAMES[1], ops=lambda: ops, sources=lambda: sources))
    return run


def hostile_directory(place: Path) -> Path:
    """A directory of such a name, with such a run in it."""
    folder = place / FOLDER
    hostile_run().save(folder / NAMES[1] / "run_metadata.pb")
    return folder
