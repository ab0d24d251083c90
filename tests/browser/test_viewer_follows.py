"""What a page says of a directory that grows, is empty, damaged or deleted; and that it goes on."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from stepscope.analysis import op_profile
from stepscope.metadata import iter_runs

RECORDED = Path(__file__).parents[2] / "docs" / "questions" / "recorded" / "classify"


def add(place, number):
    """One more run, as a program writes it: whole at once."""
    made = shutil.copytree(RECORDED / f"run_{number:06}", place.parent / "made")
    made.rename(place / f"run_{number:06}")


def header(page, text):
    page.window.locator("header", has_text=text).wait_for()


def shows_all(page, place):
    """Wait until the table of types of op has those of all runs."""
    for row in op_profile([(run.name, run.metadata) for run in iter_runs(place)], "type").rows[:5]:
        mine = page.window.get_by_text(row.key, exact=True)
        cells = page.window.locator("tr[aria-rowindex]").filter(has=mine).locator("td")
        cells.filter(has_text=re.compile(f"^{row.calls:,}$")).first.wait_for()


def test_a_directory_from_empty_to_deleted(watched, view, tmp_path):
    place = tmp_path / "runs"
    place.mkdir()
    page = watched(view(place))
    page.window.get_by_text("no run in this directory").first.wait_for()
    # The first run comes, and the page shows it by itself; so it does with the next.
    add(place, 1)
    header(page, "1 run")
    page.go("ops")
    shows_all(page, place)
    add(place, 2)
    header(page, "2 runs")
    shows_all(page, place)
    # It is deleted: the page says so, and what was read stays.
    shutil.rmtree(place)
    alert = page.window.get_by_role("alert")
    alert.filter(has_text="there is no such file").wait_for()
    assert page.rows("Ops by type")
    page.go("timeline")
    page.window.locator("canvas.timeline[data-boxes]:not([data-boxes='0'])").wait_for()
    # It is there again, and the page goes on.
    place.mkdir()
    for number in (1, 2, 3):
        add(place, number)
    header(page, "3 runs")
    page.go("ops")
    shows_all(page, place)
    alert.first.wait_for(state="detached")
    # A browser notes what the server refused for want of runs; nothing else went wrong.
    refused = re.compile("422|410")
    assert [error for error in page.errors if not refused.search(error)] == []


def test_a_damaged_directory_shows_what_can_be_read(watched, view, tmp_path):
    place = tmp_path / "runs"
    place.mkdir()
    for number in (1, 2, 3):
        add(place, number)
    (place / "run_000002" / "run_metadata.pb").write_bytes(b"\xff" * 100)
    page = watched(view(place))
    header(page, "2 runs")
    page.go("overview")
    assert "run_000002" in page.text("body")
    page.go("ops")
    assert page.rows("Ops by type")
    assert page.errors == []
