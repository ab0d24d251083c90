"""A real browser, and a real TensorBoard for it to look at."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from patience import patient


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium (or Chrome), without a window."""
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        pytest.skip("no browser here: `apt-get install chromium`, which `make browser` does")
    from playwright import sync_api

    with sync_api.sync_playwright() as driver:
        # Chromium refuses to run as root with its sandbox, and containers have no other user.
        started = driver.chromium.launch(
            executable_path=program, chromium_sandbox=os.geteuid() != 0
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def serve():
    """A function that starts a TensorBoard for a directory and gives its address."""
    boards = []

    def start(logdir):
        command = [
            sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir),
            "--host", "127.0.0.1", "--port", "0", "--load_fast", "false",
        ]  # fmt: skip
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        board = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        boards.append(board)
        lines = []
        for line in board.stderr:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+/", line):
                return address[0]
        return pytest.fail("TensorBoard did not start:\n" + "".join(lines))

    yield start
    for board in boards:
        board.terminate()
        board.wait(timeout=patient(30))
        board.stderr.close()
