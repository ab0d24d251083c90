"""`.ci/run`: what a second try may mend and what it may not, on small real sessions of pytest."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from session_outcome import register

def pytest_configure(config):
    register(config)
"""
SMALL = """
import os, pathlib, pytest

def first_time(name):
    mark = pathlib.Path(name)
    was = mark.exists()
    mark.touch()
    return not was

@pytest.mark.parametrize("text", ["plain", "a b ü::[x]"])
def test_right(text):
    assert text
"""
ONCE = """
@pytest.mark.parametrize("text", ["a b ü::[x]"])
def test_once(text):
    assert not first_time("once")
"""
AT_THE_END = """
@pytest.fixture
def held():
    yield
    assert not first_time("held")

def test_leaves_something(held):
    pass
"""
ALWAYS = """
def test_always():
    assert False, "as ever"
"""
SKIPPED_THEN = """
def test_skipped_then():
    if not first_time("skipped"):
        pytest.skip("not now")
    assert False
"""
CRASH = """
def test_crash():
    if first_time("crash"):
        os._exit(9)
"""


@pytest.fixture
def project(tmp_path):
    """A repository with a `make test` of its own, in a folder with a blank and an umlaut."""
    folder = tmp_path / "a b ü"
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / ".ci", folder / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)

    def run(*texts, check="true", options="-p no:xdist"):
        (folder / "test_small.py").write_text("\n".join(texts))
        command = f".venv/bin/python -m pytest -q -p no:cacheprovider {options}"
        (folder / "Makefile").write_text(f"smoke-lowest:\ntest:\n\t{check}\n\t{command}\n")
        return subprocess.run(
            [folder / ".ci" / "run"],
            cwd=tmp_path,
            env={**os.environ, "CI": "true", "PYTEST_ADDOPTS": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    return run


def test_what_passes_needs_no_second_try(project):
    done = project(SMALL)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert "SECOND" not in done.stdout


def test_what_passes_alone_is_named_in_capitals_and_is_no_failure(project):
    done = project(SMALL, ONCE, AT_THE_END)
    assert done.returncode == 0, done.stdout
    assert "1 failed, 3 passed, 1 error" in done.stdout
    named = [line.partition(":")[0] for line in done.stdout.splitlines()[-2:]]
    assert named == [
        f"{name} FAILED AND PASSED THE SECOND TIME"
        for name in ("TEST_ONCE", "TEST_LEAVES_SOMETHING")
    ]


@pytest.mark.parametrize("other", [ALWAYS, SKIPPED_THEN], ids=["fails", "is skipped"])
def test_a_test_that_does_not_pass_the_second_time_is_a_failure(project, other):
    done = project(SMALL, ONCE, other)
    assert done.returncode != 0
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED TWICE: ")]
    assert line.partition("::")[2] in other
    assert "TEST_ONCE" in done.stdout


def test_more_than_three_failures_are_no_accident(project):
    several = [ONCE.replace("test_once", f"test_{n}").replace("once", f"{n}") for n in range(4)]
    done = project(SMALL, *several)
    assert done.returncode != 0
    assert "No second try: 4 tests failed" in done.stdout
    assert "4 failed, 2 passed" in done.stdout


@pytest.mark.parametrize(
    ("texts", "how"),
    [
        ([SMALL], {"check": "false"}),
        ([SMALL, "import no_such_module"], {}),
        ([SMALL], {"options": "--no-such-option"}),
        (["import os\n\ndef test_gone():\n    os._exit(0)\n"], {}),
        (["import os\n\ndef test_gone():\n    os._exit(1)\n"], {}),
        ([SMALL, ONCE], {"options": "-p no:xdist && false", "check": "touch once"}),
    ],
    ids=["lint", "collection", "usage", "process gone", "process gone with 1", "after the tests"],
)
def test_what_is_no_failure_of_a_test_is_not_tried_again(project, texts, how):
    done = project(*texts, **how)
    assert done.returncode != 0, done.stdout
    assert "Again, alone" not in done.stdout


def test_the_test_that_a_worker_crashed_in_is_tried_again_and_both_are_named(project):
    done = project(SMALL, CRASH, options="-n 1 --dist loadfile")
    assert done.returncode == 0, done.stdout
    assert "WORKER GW0 CRASHED" in done.stdout
    assert "TEST_CRASH FAILED AND PASSED THE SECOND TIME: A DEFECT TO MEND NEXT" in done.stdout
    assert " passed in " in done.stdout
