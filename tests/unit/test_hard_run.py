"""`make test-hard`: what it starts ends with it, and what fails is counted and named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HARD = Path(__file__).parents[1] / "hard"
sys.path.insert(0, str(HARD))
import run_hard  # noqa: E402


def test_every_file_that_is_run_again_and_again_is_there():
    assert [path for path in run_hard.PRONE if not (run_hard.ROOT / path).is_file()] == []


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_busy_processes_end_with_the_one_that_started_them(how):
    program = f"""
import sys, threading
sys.path.insert(0, {str(HARD)!r})
import run_hard
with run_hard.busy(2):
    print("busy", flush=True)
    threading.Event().wait()
"""
    started = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert started.stdout.readline() == b"busy\n"
    getattr(started, how)()
    # They hold the other end of the pipe too: it is closed when the last of them has ended.
    assert started.stdout.read() == b""
    started.stdout.close()
    assert started.wait() != 0


def test_failures_are_counted_over_all_rounds_and_named(monkeypatch, capsys):
    sessions = iter([[], ["a::b"], ["a::b", "c::d"]])
    asked = []

    def session(tests, patience, before=()):
        asked.append((list(tests), patience, list(before)[:2]))
        return next(sessions)

    monkeypatch.setattr(run_hard, "session", session)
    assert run_hard.main(["--rounds", "2", "--load", "0"]) == 1
    assert asked[0] == asked[1] == (list(run_hard.PRONE), 4, [])
    assert asked[2] == ([], 4, ["taskset", "-c"])
    said = capsys.readouterr().out.splitlines()
    assert said[-3:] == ["FAILED 2 OF 3: a::b", "FAILED 1 OF 3: c::d", "hard: 2 failed"]
