"""What commands show of a program with known times, letter by letter."""

import os
from pathlib import Path

import pytest

from recorded_program import keras_like, slow_map, waiting_for_input
from stepscope.cli.arguments.command_line import run_command_line

HERE = Path(__file__).parent


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("name", ["account", "retraces", "input"])
def test_what_the_command_shows(name, columns, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if name == "input":
        waiting_for_input(tmp_path, slow_map())
    else:
        keras_like(tmp_path)
    assert run_command_line([name, "."]) == 0
    text = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    path = HERE / f"{name}_{columns}.txt"
    if os.environ.get("STEPSCOPE_ACCEPT"):
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(len, text.splitlines())) <= columns
