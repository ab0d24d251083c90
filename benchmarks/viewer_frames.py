"""Panning and zooming over a million ops in `stepscope view`: how long a picture takes.

In Chromium without a window, on the timeline of one run of a million ops on four threads. Every
picture has another view: the wheel zooms in and out again, and in between the view is moved along.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Result, at_most
from benchmarks.timeline import MILLION, synthetic

FRAMES = 240

# Resolves to the milliseconds between pictures, with a turn of the wheel for each of them.
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


def viewer_frames(_tf: Any) -> Iterator[Result]:
    """The median picture while the view changes, in milliseconds."""
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        print("no browser here: the viewer's pictures were not measured", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.pb"
        synthetic(MILLION).save(path)
        command = [sys.executable, "-m", "stepscope", "view", "--no-browser", str(path)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://" in line)
            took = _frames(program, re.findall(r"http://\S+", line)[0])
        finally:
            server.terminate()
            server.wait()
    median = statistics.median(took)
    slowest = sorted(took)[int(len(took) * 0.95)]
    target, met = at_most(33, median)
    yield Result("panning and zooming over a million ops: ms a picture, median and of 95%", median,
                 slowest, median, target, met, unit="")  # fmt: skip


def _frames(program: str, address: str) -> list[float]:
    from playwright import sync_api

    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, chromium_sandbox=os.geteuid() != 0
        )
        window = browser.new_page(viewport={"width": 1600, "height": 900})
        window.set_default_timeout(300_000)
        window.goto(address)
        window.evaluate("location.hash = 'page=timeline'")
        window.locator("canvas.timeline[data-frames]").wait_for()
        # Once to have the tiles of this way here: what is measured is drawing.
        window.evaluate(TURN, FRAMES)
        took: list[float] = window.evaluate(TURN, FRAMES)
        browser.close()
    return took


GROUPS = (viewer_frames,)
