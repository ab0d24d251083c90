"""`make test-hard`: what it starts ends with it, and what fails is counted and named."""

from __future__ import annotations

import os
import re
import signal
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


TESTS = Path(__file__).parents[1]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from session_outcome import register

def pytest_configure(config):
    register(config)
"""
SMALL = """
import os, time
from pathlib import Path
import pytest
from patience import FACTOR, patient

HERE = Path(__file__).parent
WORKER = os.environ.get("PYTEST_XDIST_WORKER")
AFFINITY = os.sched_getaffinity(0)

@pytest.fixture(scope="session")
def sessions():
    # Nobody goes on before another one is there: alone, a session waits here for ever.
    (HERE / f"session {os.getpid()}").touch()
    limit = time.monotonic() + patient(60)
    while len(found := list(HERE.glob("session *"))) < 2 and time.monotonic() < limit:
        time.sleep(0.01)
    return len(found)

def test_two_are_there_at_once(sessions):
    assert sessions >= 2

def test_limits_are_longer():
    assert (FACTOR, os.environ["PYTEST_TIMEOUT"]) == (3.0, "900.0")

def test_fails_in_rounds():
    assert WORKER

def test_fails_everywhere():
    assert False

def test_the_whole_is_on_one_core():
    assert WORKER is None or len(AFFINITY) == 1
"""


def test_rounds_run_at_once_and_failures_are_counted_over_them_and_named(tmp_path, capfd):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_small.py").write_text(SMALL)
    how = ["--rounds", "4", "--at-once", "2", "--workers", "1", "--load", "0", "--patience", "3"]
    assert run_hard.main([*how, str(tmp_path)]) == 1
    said = capfd.readouterr().out.splitlines()
    # Tests are named from the folder that all of what pytest was given lies in.
    assert [re.sub(r"\S*/", "", line) for line in said[-3:]] == [
        "FAILED 5 OF 5: test_small.py::test_fails_everywhere",
        "FAILED 4 OF 5: test_small.py::test_fails_in_rounds",
        "hard: 2 failed",
    ]
    heads = [line for line in said if line.startswith("== ")]
    core = min(os.sched_getaffinity(0))
    assert heads[0] == "== 4 rounds, 2 at once, beside 0 processes"
    assert sorted(heads[1:-1]) == [f"== round {n} of 4: 2 failed" for n in (1, 2, 3, 4)]
    assert heads[-1] == f"== all on core {core}, beside 0 processes"
    # What each of the four rounds printed, and the whole suite.
    assert sum("2 failed, 3 passed" in line for line in said) == 4
    assert sum("1 failed, 4 passed" in line for line in said) == 1


@pytest.mark.parametrize(
    ("half", "sessions", "heads"),
    [
        ("rounds", 2, ["== 2 rounds,", "== round 1 of", "== round 2 of"]),
        ("whole", 1, ["== all on"]),
    ],
)
def test_one_half_can_be_run_alone(tmp_path, capfd, half, sessions, heads):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_small.py").write_text("def test_fails(): assert False")
    how = ["--rounds", "2", "--at-once", "1", "--workers", "1", "--load", "0", "--half", half]
    assert run_hard.main([*how, str(tmp_path)]) == 1
    said = capfd.readouterr().out.splitlines()
    shown = [line for line in said if line.startswith("== ")]
    assert [line.startswith(head) for line, head in zip(shown, heads, strict=True)] == [
        True for _ in heads
    ]
    assert said[-2].startswith(f"FAILED {sessions} OF {sessions}: ")


def test_a_session_that_dies_is_a_failure(tmp_path, capfd):
    (tmp_path / "conftest.py").write_text("import os\nos._exit(3)")
    assert run_hard.main(["--rounds", "1", "--workers", "1", "--load", "0", str(tmp_path)]) == 1
    assert capfd.readouterr().out.splitlines()[-2:] == [
        "FAILED 2 OF 2: (the session did not come to its end: exit code 3)",
        "hard: 1 failed",
    ]


def test_sessions_end_when_it_is_terminated(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "test_waits.py").write_text(
        f"import threading\n"
        f"def test_waits():\n"
        f"    with open({str(fifo)!r}, 'w') as held:\n"
        f"        held.write('here\\n'); held.flush()\n"
        f"        threading.Event().wait()\n"
    )
    how = ["--rounds", "2", "--at-once", "2", "--load", "0"]
    command = [sys.executable, str(HARD / "run_hard.py"), *how, str(tmp_path)]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with fifo.open() as reader:
        assert [reader.readline() for _ in range(2)] == ["here\n"] * 2
        started.terminate()
        # The end of the file comes when both sessions, which hold its other end, are over.
        assert reader.read() == ""
    assert started.wait() == 128 + signal.SIGTERM
