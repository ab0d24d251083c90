"""Running the command as users do: a process of its own, in a directory of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def stepscope(tmp_path):
    """Call with arguments; gives the finished process. Paths are relative to `tmp_path`."""

    def run(*arguments, columns=120, **options):
        environment = {**os.environ, "COLUMNS": str(columns), "PYTHONWARNINGS": "error"}
        environment.pop("FORCE_COLOR", None)
        return subprocess.run(
            [sys.executable, "-m", "stepscope", *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            **options,
        )

    return run


@pytest.fixture
def embedded(stepscope):
    """`stepscope run` on the embedded engine, whether TensorFlow is installed or not."""
    return lambda *arguments, **options: stepscope(
        "run", "--engine", "embedded", *arguments, **options
    )


@pytest.fixture
def script(tmp_path):
    """Write a script and give its name."""

    def write(source, name="program.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
        return name

    return write


@pytest.fixture
def examples():
    return Path(__file__).parents[3] / "examples"
