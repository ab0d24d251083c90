"""A real browser, and a real TensorBoard for it to look at."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from patience import patient
from running_tensorboard import TensorBoard
from stepscope.web.recordings import Recordings
from stepscope.web.report import write_report
from stepscope.web.run_sources import FilesSource


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
    with ExitStack() as stack:
        yield (
            lambda logdir, load_fast="false": (
                stack.enter_context(TensorBoard(logdir, load_fast)).address
            )
        )


class Watched:
    """A page of the viewer: what it wrote to its console, and which requests it made.

    `window` is where it is: the browser's window, or in TensorBoard a frame inside of it.
    """

    def __init__(self, window):
        self.window = self._whole = window
        self.errors = []
        self.requests = []
        window.set_default_timeout(patient(60) * 1000)
        window.on("pageerror", lambda error: self.errors.append(str(error)))
        window.on("console", self._heard)
        window.on("request", lambda request: self.requests.append(request.url))

    def _heard(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def enter(self, frame):
        """From now on look at what is in a frame of it."""
        element = self._whole.locator(frame).element_handle()
        self.window = element.content_frame()

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
        with self._whole.expect_download() as download:
            button = self.window.locator(f"[aria-label='{section}']")
            button.get_by_role("button", name=kind, exact=True).first.click()
        return json.loads(Path(download.value.path()).read_text())


@pytest.fixture
def watched(browser):
    """A function that opens an address in a window of its own, or what is in a frame there."""
    windows = []

    def open_(address, frame=None, **options):
        window = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **options})
        windows.append(window)
        page = Watched(window)
        window.goto(address)
        if frame is not None:
            page.enter(frame)
        page.window.locator("main.page").wait_for()
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


@pytest.fixture
def report(watched, tmp_path):
    """A function that writes the report of paths and opens it, without a network."""

    def opened(*paths):
        file = tmp_path / "report.html"
        write_report(Recordings(FilesSource(paths), follow=False), file)
        return watched(file.as_uri(), offline=True)

    return opened
