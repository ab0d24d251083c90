"""Where few tests failed, runs each again, alone, and says which passed the second time.

    python .ci/second_try.py OUTCOME

OUTCOME is what `tests/session_outcome.py` wrote of the first run. Exit code 0: at most three tests
failed, nothing else did, and each of them passes alone. They are defects all the same, and are
named at the end. The test that a worker was at when it died is one that failed. Else 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MOST = 3


def main(outcome: Path) -> int:
    """Judge the first run, and try again what may be tried again."""
    first = read(outcome)
    reason = hopeless(first)
    if reason:
        say(f"No second try: {reason}.")
        return 1
    passed, failed = [], []
    for node in first["failed"]:
        say(f"Again, alone: {node}")
        (passed if passes_alone(node) else failed).append(node)
    for crash in first["crashed"]:
        say(f"{crash.upper()}: A DEFECT TO MEND NEXT")
    for node in failed:
        say(f"FAILED TWICE: {node}")
    for node in passed:
        name = node.partition("[")[0].rpartition("::")[2].upper()
        say(f"{name} FAILED AND PASSED THE SECOND TIME: A DEFECT TO MEND NEXT: {node}")
    return 1 if failed else 0


def hopeless(first: dict[str, Any]) -> str:
    """Why a second try would say nothing; "" where it would."""
    if first["broken"]:
        return "; ".join(first["broken"])
    if len(first["crashed"]) > len(first["failed"]):
        return "; ".join(first["crashed"])
    if first["exit"] != 1 or not first["failed"]:
        return f"pytest ended with {first['exit']} and {len(first['failed'])} failed tests"
    if len(first["failed"]) > MOST:
        return f"{len(first['failed'])} tests failed, and more than {MOST} are no accident"
    return ""


def passes_alone(node: str) -> bool:
    """Whether a test passes in a session of its own; what that says is shown where it does not."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome.json"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", node],
            env={**os.environ, "STEPSCOPE_TEST_OUTCOME": str(outcome)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        second = read(outcome)
    if done.returncode == 0 and second and second["passed"] == [node]:
        return True
    for line in done.stdout.decode(errors="replace").splitlines():
        say(f"    {line}")
    return False


def read(outcome: Path) -> dict[str, Any]:
    """What a session left; empty where it left nothing."""
    try:
        found: dict[str, Any] = json.loads(outcome.read_bytes())
    except FileNotFoundError:
        return {}
    return found


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
