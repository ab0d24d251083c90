"""A real browser, and a real TensorBoard for it to look at."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

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

    def start(logdir, load_fast="false"):
        command = [
            sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host",
            "127.0.0.1", "--port", "0", "--load_fast", load_fast, "--reload_interval", "1",
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


class Watched:
    """A page of the viewer: what it wrote to its console, and which requests it made."""

    def __init__(self, window, patience):
        self.window = window
        self.errors = []
        self.requests = []
        window.set_default_timeout(patience)
        window.on("pageerror", lambda error: self.errors.append(str(error)))
        window.on("console", self._heard)
        window.on("request", lambda request: self.requests.append(request.url))

    def _heard(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def go(self, page, **state):
        """Show one of its pages, as its tab does, with more of the state in the URL."""
        parts = [f"page={page}", *(f"{name}={quote(value)}" for name, value in state.items())]
        self.window.evaluate("fragment => { location.hash = fragment }", "&".join(parts))
        self.window.locator(f"main.{page}").wait_for()
        # What waits by evaluating a text is refused by the page's own policy.
        self.window.locator(".loading").first.wait_for(state="detached")

    def text(self, selector="main"):
        """What a person reads there."""
        return self.window.locator(selector).first.inner_text()

    def rows(self, label):
        """The cells of a table's rows, as they are shown."""
        table = self.window.locator(f".table[aria-label='{label}'] tbody tr[aria-rowindex]")
        table.first.wait_for()
        return [row.locator("td").all_inner_texts() for row in table.all()]

    def taken(self, section, kind="JSON"):
        """The rows of a section as its button downloads them."""
        with self.window.expect_download() as download:
            button = self.window.locator(f"[aria-label='{section}']")
            button.get_by_role("button", name=kind, exact=True).first.click()
        return json.loads(Path(download.value.path()).read_text())


@pytest.fixture
def watched(browser):
    """A function that opens an address in a window of its own."""
    windows = []

    def open_(address, **options):
        window = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **options})
        windows.append(window)
        page = Watched(window, patient(60) * 1000)
        window.goto(address)
        window.locator("main.page").wait_for()
        return page

    yield open_
    for window in windows:
        window.close()


@pytest.fixture(scope="session")
def view():
    """A function that starts `stepscope view` on paths and gives its address, with the secret."""
    servers = []

    def start(*paths):
        command = [sys.executable, "-m", "stepscope", "view", "--no-browser", *map(str, paths)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        servers.append(server)
        for line in server.stdout:
            if address := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                return address[0]
        return pytest.fail("stepscope view did not start")

    yield start
    for server in servers:
        server.terminate()
        server.wait(timeout=patient(30))
        server.stdout.close()
