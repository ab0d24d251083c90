"""What the tests of exporters share."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[4] / "shared" / "tools" / "perfetto_check"


@pytest.fixture
def perfetto():
    """A function that gives what Perfetto's importer says of files, and fails on its errors.

    Skips where the importer is not there.
    """
    if not CHECK.exists() or shutil.which("node") is None:
        pytest.skip("Perfetto's importer is not there")

    def check(*paths):
        command = [CHECK, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return check
