"""Running the command as users do: a process of its own, in a directory of its own."""

import os
import sys
from pathlib import Path

import pytest

import started_python
from patience import patient
from stepscope.cli.arguments.command_line import run_command_line


@pytest.fixture
def stepscope(tmp_path):
    """Call with arguments; gives the finished process. Paths are relative to `tmp_path`."""

    def run(*arguments, columns=120, timeout=240, **options):
        environment = {**os.environ, "COLUMNS": str(columns), "PYTHONWARNINGS": "error"}
        environment.pop("FORCE_COLOR", None)
        return started_python.run(
            [sys.executable, "-m", "stepscope", *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            timeout=patient(timeout),
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


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command in `tmp_path`, in this process; gives its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments, columns=100):
        monkeypatch.setenv("COLUMNS", str(columns))
        code = run_command_line(list(map(str, arguments)))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def recorded():
    """The runs that the documentation looks at: real ones, always the same."""
    return Path(__file__).parents[3] / "docs" / "questions" / "recorded"


@pytest.fixture
def native(tensorflow, monkeypatch):
    """A machine that has the compiled executor; skips where it cannot be had."""
    from stepscope.adapters import tensorflow as adapter
    from stepscope.adapters.tensorflow.node_log import build

    problem = adapter.prepare(250)
    build.turn_off()
    if problem == build.NO_COMPILER:
        pytest.skip(problem)
    assert not problem
    monkeypatch.delenv(build.SWITCH)
