"""Where the output goes, and what if it cannot: never an exit code that means something else."""

import shlex
import subprocess
import sys

import pytest

from patience import patient
from stepscope.cli import top
from stepscope.cli.arguments.command_line import run_command_line


def shell(recorded, line):
    done = subprocess.run(
        ["sh", "-c", line.replace("stepscope", f"{shlex.quote(sys.executable)} -m stepscope")],
        cwd=recorded, capture_output=True, text=True, timeout=patient(240),
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("options", ["", "--json", "--csv"])
def test_a_disk_that_is_full_is_no_regression(recorded, options):
    code, said = shell(recorded, f"stepscope diff base new {options} > /dev/full")
    assert code == 2
    assert said == "stepscope: error: the output cannot be written: No space left on device\n"


def test_output_that_nobody_wants(recorded):
    assert shell(recorded, "stepscope top classify >&- 2>&-") == (0, "")
    assert shell(recorded, "stepscope top nowhere >&- 2>&-") == (2, "")


def test_an_error_of_our_own_is_no_regression(recorded, monkeypatch, capsys):
    def broken(*_arguments):
        raise ZeroDivisionError("our mistake")

    monkeypatch.setattr(top, "_columns", broken)
    assert run_command_line(["top", str(recorded / "classify")]) == 2
    said = capsys.readouterr().err
    assert "ZeroDivisionError: our mistake\n" in said
    assert said.endswith(
        "this is an error of Stepscope's own; please report it with the lines above\n"
    )


def test_a_device_is_written_to_and_not_replaced(recorded):
    code, said = shell(
        recorded, "stepscope export classify --to csv -o /dev/stdout | grep -c PyFunc"
    )
    assert (code, said) == (0, "")
