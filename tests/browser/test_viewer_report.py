"""Each kind of input once as a report, opened from disk by a browser that has no network.

Every page that has something to show draws it; names and figures are those of the command line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kinds_of_input import KINDS, path_of
from patience import patient
from stepscope.cli.command_line import run_command_line
from stepscope.metadata import readable
from stepscope.web.recordings import Recordings
from stepscope.web.report import write_report
from stepscope.web.run_sources import FilesSource

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
PAGES = ["overview", "timeline", "ops", "graph", "memory", "compare", "cluster"]


@pytest.fixture
def said(capsys):
    """What a command says as JSON."""

    def run(*arguments):
        code = run_command_line([*map(str, arguments), "--json"])
        out = capsys.readouterr().out
        assert code == 0
        return json.loads(out)

    return run


@pytest.fixture
def report(watched, tmp_path):
    """A function that writes the report of a path and opens it, without a network."""

    def opened(path):
        file = tmp_path / "report.html"
        write_report(Recordings(FilesSource([path]), follow=False), file)
        return watched(file.as_uri(), offline=True)

    return opened


def pages_with_something(page):
    """The pages whose tabs are not faint."""
    tabs = page.window.get_by_role("navigation", name="Pages").locator("a:not(.nothing)")
    return [name.strip().lower() for name in tabs.all_inner_texts()]


def read_every_page(page, path, said):
    """Look at every page as a person does, and compare it with what commands say."""
    drawn = pages_with_something(page)
    assert {"overview", "timeline", "ops", "graph"} <= set(drawn)
    for name in PAGES:
        page.go(name)
        if name not in drawn:
            # What there is not, the page says, and what to do about it.
            assert page.text(f"main.{name} .empty")
            continue
        assert page.window.locator(f"main.{name} .empty").count() == 0
        READ[name](page, path, said)
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def read_overview(page, path, said):
    info = said("info", path)
    failed = [row for row in info["rows"] if row["status"] != "OK"]
    if failed:
        assert failed[0]["status"].split()[0] in page.text(".failure .headline")
    for row in info["verdict"]["rows"][:1]:
        step = row["step"]
        if step["lengths_ns"]:
            usual = step["median_ns"] or step["first_ns"]
            assert readable.time(usual) in page.text(".verdict .headline")


def read_timeline(page, path, said):
    shown = page.text(".timeline-page")
    ops = int(re.search(r"([\d,]+) ops? in", shown)[1].replace(",", ""))
    assert ops in [row["ops"] for row in said("info", path)["rows"]]
    page.window.locator("canvas.timeline[data-boxes]:not([data-boxes='0'])").wait_for()


def read_ops(page, path, said):
    wanted = said("top", path, "--by", "type")
    page.rows("Ops by type")
    taken = {row["key"]: row["self_ns"] for row in page.taken("Ops")}
    assert taken == {row["key"]: row["self_ns"] for row in wanted["rows"]}


def read_graph(page, path, said):
    page.window.locator("svg.graph [data-node]").first.wait_for()
    nodes = page.window.locator("svg.graph [data-node]").all()
    shown = [node.get_attribute("data-node") for node in nodes]
    # Beside those that ran there are some that did not: fed, pruned, folded.
    measured = [row["key"] for row in said("top", path, "--by", "name")["rows"]]
    ran = [scope for scope in shown if any(f"{name}/".startswith(f"{scope}/") for name in measured)]
    assert ran


def read_memory(page, path, said):
    live = int(page.window.locator("[data-testid='live']").get_attribute("data-bytes"))
    rest = page.window.locator("[data-testid='rest']")
    others = int(rest.get_attribute("data-bytes")) if rest.count() else 0
    assert sum(row["bytes"] for row in page.taken("Tensors alive")) + others == live


def read_compare(page, path, said):
    raise AssertionError("one path has nothing to compare")


def read_cluster(page, path, said):
    tasks = said("network", path)["tasks"]
    assert {cells[0] for cells in page.rows("Workers")} == set(tasks)


READ = {
    "overview": read_overview,
    "timeline": read_timeline,
    "ops": read_ops,
    "graph": read_graph,
    "memory": read_memory,
    "compare": read_compare,
    "cluster": read_cluster,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_of_a_report_draws_without_a_network(kind, report, said, tmp_path):
    path = path_of(kind, tmp_path)
    read_every_page(report(path), path, said)


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
    read_every_page(page, tmp_path, said)
    page.go("overview")
    assert "smooth" in page.text(".verdict")
