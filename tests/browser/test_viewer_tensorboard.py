"""The viewer inside of a real TensorBoard, with each of its loaders, in a real browser."""

from __future__ import annotations

import pytest

from kinds_of_input import two_sets
from patience import patient
from stepscope.analysis import op_profile
from stepscope.metadata import iter_runs
from stepscope.metadata.readable import number


@pytest.mark.parametrize("load_fast", ["true", "false"])
def test_the_page_in_tensorboards_frame_shows_the_runs(browser, serve, tmp_path, load_fast):
    logdir = two_sets(tmp_path)
    runs = [(run.name, run.metadata) for run in iter_runs(logdir)]
    window = browser.new_page(viewport={"width": 1280, "height": 800})
    try:
        window.set_default_timeout(patient(60) * 1000)
        window.goto(f"{serve(logdir, load_fast)}#stepscope")
        frame = window.frame_locator("iframe")
        # TensorBoard reads its files while it serves; the page follows.
        frame.locator("header", has_text=number(len(runs), "run")).wait_for()
        frame.get_by_role("navigation", name="Pages").get_by_text("Ops", exact=True).click()
        rows = frame.locator(".table[aria-label='Ops by type'] tbody tr[aria-rowindex]")
        rows.first.wait_for()
        shown = {
            cells[0]: cells for cells in (r.locator("td").all_inner_texts() for r in rows.all())
        }
        for row in op_profile(runs, "type").rows[:5]:
            assert f"{row.calls:,}" in shown[row.key]
    finally:
        window.close()
