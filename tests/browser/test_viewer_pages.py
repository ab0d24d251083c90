"""Each page of the viewer once, in `stepscope view`, as a person reads it.

Numbers are compared with what the command line says of the same runs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from read_pages import choose_op, is_chosen_on_every_page, read_memory

import stepscope
import stepscope.tf1 as tf1
from patience import patient
from stepscope.analysis.coverage.report import STATES
from stepscope.cli.output import wording
from stepscope.metadata import readable

RECORDED = Path(__file__).parents[2] / "docs" / "questions" / "recorded"
FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
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


def test_overview_says_how_it_ended_first_and_what_limits_it(watched, address, runs, said):
    page = watched(address)
    page.go("overview")
    assert "INVALID_ARGUMENT" in page.text(".failure .headline")
    assert "checks/sevenths" in page.text(".failure")
    assert "failed" in page.text(".state")
    rows = said("steps", runs)["rows"]
    longest = max(rows, key=lambda row: row["runs"])
    assert readable.time(longest["median_ns"]) in page.text(".steps")
    assert "of Session.run" in page.text("header")
    assert page.errors == []


def test_overview_says_what_to_change(watched, view, said):
    path = RECORDED / "classify"
    page = watched(view(path))
    page.go("overview")
    best = said("advise", path)["rows"][0]
    shown = page.text(".advice")
    assert best["sentence"].replace("`", "") in shown
    assert f"stepscope advise --check {best['id']}" in shown
    assert page.errors == []


def test_ops_are_the_rows_of_top(watched, address, runs, said):
    page = watched(address)
    for by in ("type", "name"):
        page.go("ops", by=by)
        wanted = said("top", "--by", by, runs)["rows"]
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
    count = int(re.search(r"([\d,]+) ops? in", page.text(".timeline-page"))[1].replace(",", ""))
    page.window.locator(f"canvas.timeline[data-boxes='{count}']").wait_for()
    canvas.focus()
    page.window.keyboard.press("w")
    page.window.wait_for_url(re.compile("view="))
    page.window.keyboard.press("f")
    page.window.wait_for_url(re.compile("^((?!view=).)*$"))
    # A drag on the ruler measures what lies in that time: all of it, right of the lanes' names.
    box = canvas.bounding_box()
    page.window.mouse.move(box["x"] + 170, box["y"] + 40)
    page.window.mouse.down()
    page.window.mouse.move(box["x"] + box["width"] - 1, box["y"] + 40, steps=4)
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


def test_a_node_that_did_not_run_says_what_became_of_it(watched, view, said):
    """Clicked in the graph, as somebody does who asks why an op is missing."""
    path = RECORDED / "optimised"
    page = watched(view(path))
    page.go("graph")
    states = {row["name"]: row["state"] for row in said("coverage", path)["rows"]}
    for name in ("mul_1", "summary", "x"):
        page.window.locator(f"[data-node='{name}']").dispatch_event("click")
        page.window.locator("[data-testid='selected']", has_text=name).wait_for()
        page.window.locator("aside.panel .lead", has_text=states[name]).wait_for()
        assert STATES[states[name]] in page.text("aside.panel .cause-of").lower()
    assert page.errors == []


def test_a_narrow_table_leaves_columns_out_and_says_which(watched, address):
    page = watched(address, viewport={"width": 900, "height": 700})
    page.go("ops")
    box = page.window.locator(".table[aria-label='Ops by type']")
    sizes = "box => [box.scrollWidth, box.clientWidth]"
    whole, shown = box.evaluate(sizes)
    assert whole <= shown
    assert "device" in page.text(".ops-page .rest")
    # What is left out is in what can be taken along.
    assert "p99_ns" in page.taken("Ops")[0]
    assert page.errors == []


def test_the_overview_names_the_slowest_ops(watched, address, runs, said):
    page = watched(address)
    page.go("overview")
    longest = said("top", runs, "--by", "name")["rows"][0]
    shown = page.text("[aria-label='Slowest ops']")
    assert longest["key"] in shown
    assert readable.time(longest["self_ns"]) in shown


def test_the_tensors_of_an_instant_sum_to_the_live_bytes(watched, address, runs, said):
    page = watched(address)
    page.go("memory", run="1")
    peak = max(device["peak_bytes"] for device in peaks(said("memory", runs / "run_1.pb")))
    assert readable.size(peak) in page.text(".memory-page")

    assert read_memory(page, runs, said) == peak
    # Somewhere else on the curve, too.
    box = page.window.locator(".memory-chart .u-over").bounding_box()
    page.window.mouse.click(box["x"] + box["width"] * 0.1, box["y"] + box["height"] / 2)
    page.window.wait_for_url(re.compile("at="))
    read_memory(page, runs, said)
    assert page.errors == []


def peaks(memory):
    return memory if isinstance(memory, list) else memory.get("devices", [memory])


def test_the_selected_op_is_the_same_on_every_page(watched, address):
    page = watched(address)
    page.go("overview")
    page.window.keyboard.press("/")
    page.window.keyboard.type("logits")
    page.window.locator("#found li", has_text=LOGITS).first.wait_for()
    choose_op(page, LOGITS)
    is_chosen_on_every_page(page, LOGITS)
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


def test_compare_has_the_statistics_of_diff(watched, view, said):
    page = watched(view(RECORDED / "base", RECORDED / "new"))
    page.go("compare")
    wanted = said("diff", RECORDED / "base", RECORDED / "new")
    rows = {row["name"]: row for row in page.taken("Changes")}
    for row in wanted["rows"]:
        assert rows[row["name"]]["base"] == row["base"]
        assert rows[row["name"]]["p"] == row["p"]
    assert f"{wanted['total']['change']:+.1%}" in page.text(".sentences")
    assert page.errors == []


def test_cluster_has_every_worker(watched, view, said):
    page = watched(view(RECORDED / "cluster"))
    page.go("cluster")
    tasks = said("network", RECORDED / "cluster")["tasks"]
    assert {cells[0] for cells in page.rows("Workers")} == set(tasks)
    assert page.errors == []


def test_it_says_that_the_server_ended_and_keeps_what_is_drawn(watched, tmp_path, runs):
    command = [sys.executable, "-m", "stepscope", "view", "--no-browser", str(runs)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
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
