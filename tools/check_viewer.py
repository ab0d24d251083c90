"""Looks at the viewer's source: types, strictly, and its unit tests under node's own test runner.

The type checker has a lock file of its own (`viewer/check`), as building the page does not need it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from viewer_page import node_and_npm

VIEWER = Path(__file__).resolve().parent.parent / "viewer"


def fetch(folder: Path, npm: list[str]) -> None:
    """Install what a folder's lock file names, unless that was done since it changed."""
    done = folder / "node_modules" / ".package-lock.json"
    if done.exists() and done.stat().st_mtime >= (folder / "package-lock.json").stat().st_mtime:
        return
    subprocess.run([*npm, "ci", "--no-progress", "--loglevel", "error"], cwd=folder, check=True)


def main() -> int:
    """The exit code: 0 where all is well."""
    node, npm = node_and_npm()
    fetch(VIEWER, npm)
    fetch(VIEWER / "check", npm)
    checker = VIEWER / "check" / "node_modules" / "typescript" / "bin" / "tsc"
    for command in ([node, str(checker), "-p", "."], [node, "test/run.mjs"]):
        if code := subprocess.run(command, cwd=VIEWER).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
