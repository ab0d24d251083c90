"""Each kind of input once as a report, opened from disk by a browser that has no network.

Every page that has something to show draws it; names and figures are those of the command line.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from read_pages import read_every_page

from kinds_of_input import KINDS, path_of
from patience import patient

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def read_without_network(page, path, said):
    read_every_page(page, path, said)
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_of_a_report_draws_without_a_network(kind, report, said, tmp_path):
    path = path_of(kind, tmp_path)
    read_without_network(report(path), path, said)


def test_the_report_of_the_demo_draws_without_a_network(watched, said, tmp_path):
    """As `make demo` writes it, of fewer steps."""
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", "--engine", "embedded", "--trace", "full",
         "--report", "--out", str(tmp_path), str(DEMO), "--steps", "8"],
        capture_output=True, text=True, timeout=patient(120), check=True,
    )  # fmt: skip
    file = tmp_path / "report.html"
    assert str(file) in done.stdout + done.stderr
    page = watched(file.as_uri(), offline=True)
    assert "demo.py" in page.text("header")
    read_without_network(page, tmp_path, said)
    page.go("overview")
    assert "smooth" in page.text(".verdict")
