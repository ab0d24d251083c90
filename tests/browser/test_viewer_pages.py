"""Each page of the viewer once, in `stepscope view`, as a person reads it.

Numbers are compared with what the command line says of the same runs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf1
from patience import patient
from stepscope.cli import wording
from stepscope.metadata import readable

RECORDED = Path(__file__).parents[2] / "docs" / "questions" / "recorded"
FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
PAGES = ["overview", "timeline", "ops", "graph", "memory", "compare", "cluster"]
LOGITS = "output/logits"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A directory of four runs of a small network, the last of them failed."""
    folder = tmp_path_factory.mktemp("runs")
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf1.float32, [None, 64], name="x")
        with tf1.name_scope("hidden"):
            hidden = tf1.nn.relu(tf1.matmul(x, tf1.ones([64, 256]), name="product"), name="relu")
        with tf1.name_scope("output"):
            logits = tf1.matmul(hidden, tf1.ones([256, 8]), name="logits")
        with tf1.name_scope("checks"):
            checked = tf1.reshape(logits, [7, -1], name="sevenths")
    batch = np.ones((64, 64), np.float32)
    with tf1.Session(graph=graph) as session:
        for number, fetch in enumerate([logits, logits, logits, checked]):
            metadata = tf1.RunMetadata()
            try:
                session.run(fetch, {x: batch}, options=FULL, run_metadata=metadata)
            except tf1.errors.InvalidArgumentError:
                assert fetch is checked
            metadata.save(folder / f"run_{number}.pb")
    return folder


@pytest.fixture(scope="module")
def address(view, runs):
    return view(runs)


def command(*words):
    """What a command says as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, words), "--json"],
        capture_output=True, text=True, check=True, timeout=patient(60),
    )  # fmt: skip
    return json.loads(done.stdout)


def test_overview_says_how_it_ended_first_and_what_limits_it(watched, address, runs):
    page = watched(address)
    page.go("overview")
    assert "INVALID_ARGUMENT" in page.text(".failure .headline")
    assert "checks/sevenths" in page.text(".failure")
    assert "failed" in page.text(".state")
    rows = command("steps", runs)["rows"]
    longest = max(rows, key=lambda row: row["runs"])
    assert readable.time(longest["median_ns"]) in page.text(".steps")
    assert "of Session.run" in page.text("header")
    assert page.errors == []


def test_overview_says_what_to_change(watched, view):
    path = RECORDED / "classify"
    page = watched(view(path))
    page.go("overview")
    best = command("advise", path)["rows"][0]
    shown = page.text(".advice")
    assert best["sentence"].replace("`", "") in shown
    assert f"stepscope advise --check {best['id']}" in shown
    assert page.errors == []


def test_ops_are_the_rows_of_top(watched, address, runs):
    page = watched(address)
    for by in ("type", "name"):
        page.go("ops", by=by)
        wanted = command("top", "--by", by, runs)["rows"]
        shown = {cells[0]: cells for cells in page.rows(f"Ops by {by}")}
        for row in wanted[:5]:
            cells = shown[row["key"]]
            assert f"{row['calls']:,}" in cells
            assert wording.spent(row["self_ns"]) in cells
        taken = {row["key"]: row for row in page.taken("Ops")}
        assert {key: row["self_ns"] for key, row in taken.items()} == {
            row["key"]: row["self_ns"] for row in wanted
        }
    assert page.errors == []


def test_the_timeline_has_a_box_for_every_op_and_keys_move_it(watched, address):
    page = watched(address)
    page.go("timeline", run="1")
    canvas = page.window.locator("canvas.timeline")
    said = page.text(".timeline-page")
    count = int(re.search(r"([\d,]+) ops? in", said)[1].replace(",", ""))
    page.window.locator(f"canvas.timeline[data-boxes='{count}']").wait_for()
    canvas.focus()
    page.window.keyboard.press("w")
    page.window.wait_for_url(re.compile("view="))
    page.window.keyboard.press("f")
    page.window.wait_for_url(re.compile("^((?!view=).)*$"))
    # A drag on the ruler measures what lies in that time.
    box = canvas.bounding_box()
    page.window.mouse.move(box["x"] + 300, box["y"] + 40)
    page.window.mouse.down()
    page.window.mouse.move(box["x"] + 900, box["y"] + 40, steps=4)
    page.window.mouse.up()
    page.window.locator("section.range tbody tr").first.wait_for()
    assert "MatMul" in page.text("section.range")
    assert page.errors == []


def test_the_graph_folds_scopes_and_opens_them(watched, address):
    page = watched(address)
    page.go("graph", run="1")
    page.window.locator("[data-node='hidden']").dispatch_event("dblclick")
    page.window.locator("[data-node='hidden/product']").wait_for()
    assert "MatMul" in page.window.locator("[data-node='hidden/product'] title").inner_html()
    assert page.errors == []


def test_the_tensors_of_an_instant_sum_to_the_live_bytes(watched, address, runs):
    page = watched(address)
    page.go("memory", run="1")
    peak = max(device["peak_bytes"] for device in peaks(command("memory", runs / "run_1.pb")))
    assert readable.size(peak) in page.text(".memory-page")

    def check():
        live = int(page.window.locator("[data-testid='live']").get_attribute("data-bytes"))
        rest = page.window.locator("[data-testid='rest']")
        others = int(rest.get_attribute("data-bytes")) if rest.count() else 0
        rows = page.taken("Tensors alive")
        assert sum(row["bytes"] for row in rows) + others == live
        return live

    assert check() == peak
    # Somewhere else on the curve, too.
    box = page.window.locator(".memory-chart .u-over").bounding_box()
    page.window.mouse.click(box["x"] + box["width"] * 0.1, box["y"] + box["height"] / 2)
    page.window.wait_for_url(re.compile("at="))
    check()
    assert page.errors == []


def peaks(memory):
    return memory if isinstance(memory, list) else memory.get("devices", [memory])


def test_the_selected_op_is_the_same_on_every_page(watched, address):
    page = watched(address)
    page.go("overview")
    page.window.keyboard.press("/")
    page.window.keyboard.type("logits")
    page.window.locator("#found li", has_text=LOGITS).first.wait_for()
    page.window.locator("#found li", has_text="op").filter(has_text=LOGITS).first.dispatch_event(
        "mousedown"
    )
    for name in PAGES:
        page.window.get_by_role("navigation", name="Pages").get_by_text(
            name.capitalize(), exact=True
        ).click()
        page.window.locator(f"main.{name}").wait_for()
        assert page.text("[data-testid='selected']") == LOGITS
    facts = page.text("aside.panel")
    assert "MatMul" in facts
    assert "[64,8]" in facts.replace(" ", "")
    # The link shows what its sender saw.
    other = watched(address)
    other.window.goto(page.window.url)
    other.window.locator("[data-testid='selected']").wait_for()
    assert other.text("[data-testid='selected']") == LOGITS
    assert page.errors == []
    assert other.errors == []


def test_compare_has_the_statistics_of_diff(watched, view):
    page = watched(view(RECORDED / "base", RECORDED / "new"))
    page.go("compare")
    wanted = command("diff", RECORDED / "base", RECORDED / "new")
    rows = {row["name"]: row for row in page.taken("Changes")}
    for row in wanted["rows"]:
        assert rows[row["name"]]["base"] == row["base"]
        assert rows[row["name"]]["p"] == row["p"]
    assert f"{wanted['total']['change']:+.1%}" in page.text(".sentences")
    assert page.errors == []


def test_cluster_has_every_worker(watched, view):
    page = watched(view(RECORDED / "cluster"))
    page.go("cluster")
    tasks = command("network", RECORDED / "cluster")["tasks"]
    assert {cells[0] for cells in page.rows("Workers")} == set(tasks)
    assert page.errors == []


HOSTILE = [
    "<img src=x onerror='window.hacked=1'>",
    "</script><script>window.hacked=1</script>",
    "a\u202eb\x1b[2Jc\x00d",
    "x" * 1_000_000,
    "javascript:window.hacked=1//",
]


def test_hostile_names_are_nothing_but_text(watched, view, tmp_path):
    metadata = stepscope.RunMetadata()
    device = metadata.step_stats.dev_stats.add(device="<svg onload='window.hacked=1'>")
    for place, name in enumerate(HOSTILE):
        device.node_stats.add(
            node_name=name, timeline_label=f"{name} = <b>Op</b>(x)", thread_id=place,
            all_start_micros=1000 + place * 100, op_end_rel_micros=90, all_end_rel_micros=90,
        )  # fmt: skip
    metadata.save(tmp_path / "<b>run</b>.pb")
    page = watched(view(tmp_path))
    for name in PAGES:
        page.go(name)
        assert page.window.evaluate("window.hacked") is None
        assert page.window.locator("main img, main b > i, main svg[onload]").count() == 0
    page.go("ops", by="name")
    shown = [cells[0] for cells in page.rows("Ops by name")]
    assert HOSTILE[0] in shown
    assert "a\\u202eb\\x1b[2Jc\\x00d" in shown
    assert all(len(text) < 200 for text in shown)
    page.go("timeline", select=f"op::{HOSTILE[1]}")
    assert page.text("[data-testid='selected']") == HOSTILE[1]
    assert page.window.evaluate("window.hacked") is None
    assert page.errors == []


def test_it_says_that_the_server_ended_and_keeps_what_is_drawn(watched, tmp_path, runs):
    command_ = [sys.executable, "-m", "stepscope", "view", "--no-browser", str(runs)]
    server = subprocess.Popen(command_, stdout=subprocess.PIPE, text=True)
    try:
        line = next(line for line in server.stdout if "http://" in line)
        page = watched(re.search(r"http://\S+", line)[0])
        page.go("ops")
        page.rows("Ops by type")
    finally:
        server.terminate()
        server.wait(timeout=patient(30))
        server.stdout.close()
    page.window.get_by_role("alert").filter(has_text="has ended").wait_for()
    assert page.rows("Ops by type")
