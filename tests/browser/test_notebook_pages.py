"""The viewer's pages inside a notebook, in a real browser: no server, no network, no URL."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from patience import patient
from stepscope.analysis import advise, diff, op_profile
from stepscope.metadata import iter_runs, readable

RECORDED = Path(__file__).parents[2] / "docs" / "questions" / "recorded"


@pytest.fixture
def cell(browser, tmp_path):
    """What a notebook's page has of a cell's value, and what went wrong in it."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(patient(30) * 1000)
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: troubles.append(asked.url) if "http" in asked.url else None)

    def shown(value):
        file = tmp_path / "notebook.html"
        file.write_text(f"<!doctype html><h1>Mine</h1>{value._repr_html_()}")
        page.goto(file.as_uri())
        return page.frame_locator("iframe")

    yield shown
    page.close()
    assert troubles == []


def test_runs_show_themselves_and_every_page_can_be_gone_to(cell):
    runs = list(iter_runs(RECORDED / "classify"))
    frame = cell(stepscope.show(runs))
    frame.get_by_text("5 runs", exact=False).first.wait_for()
    for page in ("Timeline", "Ops", "Overview"):
        tab = frame.get_by_role("tab", name=page).or_(frame.get_by_role("link", name=page))
        tab.first.click()
        frame.locator(f"[aria-current='page']:has-text('{page}')").first.wait_for()


def test_an_analysis_begins_with_the_page_that_shows_it(cell):
    runs = list(iter_runs(RECORDED / "classify"))
    profile = op_profile(runs)
    frame = cell(profile.show(runs))
    top = profile.rows[0]
    row = frame.get_by_role("row").filter(has_text=top.key).first
    row.wait_for()
    assert readable.time(top.self_ns) in row.inner_text()


def test_an_analysis_shows_the_runs_it_was_made_of(cell):
    runs = list(iter_runs(RECORDED / "classify"))
    profile = op_profile(runs)
    frame = cell(profile.show())
    frame.get_by_role("row").filter(has_text=profile.rows[0].key).first.wait_for()
    frame.get_by_text("5 runs", exact=False).first.wait_for()
    base, new = (list(iter_runs(RECORDED / name)) for name in ("base", "new"))
    frame = cell(diff(base, new).show())
    frame.locator("[aria-current='page']:has-text('Compare')").first.wait_for()


def test_an_analysis_of_a_path_shows_what_was_recorded_there(cell):
    frame = cell(advise(RECORDED / "classify").show())
    frame.get_by_text("5 runs", exact=False).first.wait_for()


def test_a_diff_begins_with_what_became_slower(cell):
    base, new = (list(iter_runs(RECORDED / name)) for name in ("base", "new"))
    frame = cell(diff(base, new).show(base, new))
    frame.locator("[aria-current='page']:has-text('Compare')").first.wait_for()


def test_a_run_shows_itself(cell):
    (run, *_) = iter_runs(RECORDED / "classify")
    frame = cell(run.metadata.show(height=500))
    frame.get_by_text("Overview", exact=False).first.wait_for()
