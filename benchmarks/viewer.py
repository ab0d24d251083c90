"""The viewer with large runs: how much is sent, held and waited for.

In Chromium without a window. Runs are synthetic, on four threads: a thousand ops, a million in a
file of TensorFlow's format, ten million in a store (the file would have 1.9 GB).
"""

from __future__ import annotations

import gzip
import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.harness import Result, at_most
from benchmarks.timeline import MILLION, synthetic
from stepscope.store import Store
from stepscope.web.page_files import CONTENT_TYPES, page_file
from stepscope.web.recordings import Recordings
from stepscope.web.report import write_report
from stepscope.web.run_sources import FilesSource

FRAMES = 240
VISITS = 5

# Resolves to the milliseconds between pictures, with a turn of the wheel for each of them: it zooms
# in and out again, and in between the view is moved along.
TURN = """
async frames => {
  const canvas = document.querySelector("canvas.timeline");
  const box = canvas.getBoundingClientRect();
  const took = [];
  const next = () => new Promise(requestAnimationFrame);
  let before = await next();
  for (let frame = 0; frame < frames; frame += 1) {
    const pan = frame % 8 >= 5;
    const into = Math.floor(frame / 60) % 2 === 0 ? -1 : 1;
    canvas.dispatchEvent(new WheelEvent("wheel", {
      deltaX: pan ? 90 : 0, deltaY: pan ? 0 : 110 * into, bubbles: true, cancelable: true,
      clientX: box.left + 700 + (frame % 50), clientY: box.top + 120,
    }));
    const now = await next();
    took.push(now - before);
    before = now;
  }
  return took;
}
"""
# What pages ask for when they are looked at one after the other.
ASKED = (
    "session", "runs", "overview", "timeline", "tile?level=0&index=0", "tile?level=3&index=4",
    "tile?level=12&index=2000", "range?from=0&to=1000000", "ops", "ops?by=name", "ops?by=layer",
    "icicle", "icicle?by=bytes", "index", "graph", "graph?scope=layer_7", "memory",
    "memory?by=layer", "op?name=layer_0/block_0/MatMul", "layer?name=layer_7",
    "timeline?run=all", "tile?run=all&level=2&index=1",
)  # fmt: skip


def _row(what: str, figure: float, limit: float, note: str = "") -> Result:
    target, met = at_most(limit, figure)
    return Result(what, figure, limit, figure, target, met, unit="", note=note)


@contextmanager
def _served(path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of `stepscope view` on a path, and its process."""
    command = [sys.executable, "-m", "stepscope", "view", "--no-browser", str(path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if "http://" in line)
        yield re.findall(r"http://\S+", line)[0], server
    finally:
        server.terminate()
        server.wait()


@contextmanager
def _browser() -> Iterator[Callable[[], Any] | None]:
    """A function that opens a window; None where there is no browser."""
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        print("no browser here: what it draws was not measured", file=sys.stderr)
        yield None
        return
    from playwright import sync_api

    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=program, chromium_sandbox=os.geteuid() != 0
        )

        def window() -> Any:
            page = started.new_page(viewport={"width": 1600, "height": 900})
            page.set_default_timeout(300_000)
            return page

        yield window
        started.close()


def _asker(address: str) -> Callable[[str], int]:
    """A function that asks a server for a resource and gives the bytes that came over the wire."""
    parts = urlsplit(address)
    (token,) = parse_qs(parts.query)["token"]

    def ask(resource: str) -> int:
        connection = http.client.HTTPConnection(parts.netloc, timeout=600)
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
        connection.request("GET", f"/api/{resource}", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        # A run whose memory was not recorded has no page of it, and says so.
        assert answer.status in (200, 422), (resource, answer.status, body[:300])
        return len(body)

    return ask


def viewer_reports(_tf: Any) -> Iterator[Result]:
    """The size of the report of a thousand ops, and of the code in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "thousand.pb"
        synthetic(1000).save(path)
        report = Path(folder) / "report.html"
        write_report(Recordings(FilesSource([path]), follow=False), report)
        yield _row("report of 1,000 ops, KB", report.stat().st_size / 1e3, 600)
        code = sum(len(page_file(name)) for name in CONTENT_TYPES)
        sent = sum(len(gzip.compress(page_file(name))) for name in CONTENT_TYPES)
        yield _row("code in a report, KB", code / 1e3, 350, f"{sent / 1e3:.0f} KB over the wire")


def viewer_million(_tf: Any) -> Iterator[Result]:
    """A million ops: the first picture of `view` and of a report, then panning and zooming."""
    with tempfile.TemporaryDirectory() as folder, _browser() as window:
        path = Path(folder) / "million.pb"
        synthetic(MILLION).save(path)
        report = Path(folder) / "report.html"
        began = time.perf_counter()
        write_report(Recordings(FilesSource([path]), follow=False), report)
        wrote = time.perf_counter() - began
        yield _row("report of a million ops, MB", report.stat().st_size / 1e6, 20,
                   f"written in {wrote:.1f} s")  # fmt: skip
        if window is None:
            return
        drawn = statistics.median(_until_drawn(window, report.as_uri()) for _ in range(VISITS))
        yield _row("report of a million ops, s until its timeline is drawn", drawn, 4)
        with _served(path) as (address, _):
            ask = _asker(address)
            for resource in ASKED[:5]:
                ask(resource)
            for page in ("overview", "timeline"):
                took = [_until_drawn(window, address, page) for _ in range(VISITS)]
                yield _row(f"view of a million ops, server warm: s until {page} is drawn",
                           statistics.median(took), 2)  # fmt: skip
            frames = _frames(window(), address)
        slowest = sorted(frames)[int(len(frames) * 0.95)]
        yield _row("panning and zooming over a million ops: ms a picture, median",
                   statistics.median(frames), 33, f"95% take at most {slowest:.1f} ms")  # fmt: skip


def _until_drawn(window: Callable[[], Any], address: str, page: str = "timeline") -> float:
    """Seconds from the request to the page with its data."""
    opened = window()
    began = time.perf_counter()
    opened.goto(f"{address}#page={page}", wait_until="commit")
    if page == "timeline":
        opened.locator("canvas.timeline[data-boxes]:not([data-boxes='0'])").wait_for()
    else:
        opened.locator("main.overview .verdict .headline").first.wait_for()
    took = time.perf_counter() - began
    opened.close()
    return took


def _frames(window: Any, address: str) -> list[float]:
    window.goto(f"{address}#page=timeline")
    window.locator("canvas.timeline[data-frames]").wait_for()
    # Once to have the tiles of this way here: what is measured is drawing.
    window.evaluate(TURN, FRAMES)
    took: list[float] = window.evaluate(TURN, FRAMES)
    return took


def viewer_ten_million(_tf: Any) -> Iterator[Result]:
    """Ten million ops in one run: the server's memory, and the largest answer to a page."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", _STORED, folder], check=True, cwd=Path(__file__).parents[1]
        )
        with _served(Path(folder)) as (address, server):
            ask = _asker(address)
            began = time.perf_counter()
            sent = {resource: ask(resource) for resource in ASKED}
            took = time.perf_counter() - began
            held = int(re.findall(r"VmHWM:\s+(\d+)", _status(server.pid))[0]) * 1024
        largest = max(sent, key=lambda resource: sent[resource])
        yield _row("server of ten million ops, GB of memory at most", held / 1e9, 2,
                   f"all pages in {took:.0f} s")  # fmt: skip
        yield _row("view of ten million ops, KB over the wire at most", sent[largest] / 1e3, 100,
                   largest)  # fmt: skip


# In a process of its own, so that its memory is given back.
_STORED = """
import sys
from benchmarks.viewer import stored
stored(sys.argv[1], 10_000_000)
"""


def stored(directory: str, ops: int) -> None:
    """Put a run of so many ops into a store."""
    with Store(Path(directory)) as store:
        store.add(synthetic(ops), "step")


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


GROUPS = (viewer_reports, viewer_million, viewer_ten_million)
