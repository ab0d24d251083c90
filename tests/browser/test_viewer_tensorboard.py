"""The viewer inside of a real TensorBoard, with each of its loaders, in a real browser."""

from __future__ import annotations

import pytest

from kinds_of_input import two_sets
from running_tensorboard import LOADERS
from stepscope.analysis import op_profile
from stepscope.metadata import iter_runs
from stepscope.metadata.readable import number


@pytest.mark.parametrize("load_fast", LOADERS)
def test_the_page_in_tensorboards_frame_shows_the_runs(watched, serve, tmp_path, load_fast):
    logdir = two_sets(tmp_path)
    runs = [(run.name, run.metadata) for run in iter_runs(logdir)]
    page = watched(f"{serve(logdir, load_fast)}#stepscope", "iframe")
    # TensorBoard reads its files while it serves; the page follows.
    page.window.locator("header", has_text=number(len(runs), "run")).wait_for()
    page.go("ops")
    shown = {cells[0]: cells for cells in page.rows("Ops by type")}
    for row in op_profile(runs, "type").rows[:5]:
        assert f"{row.calls:,}" in shown[row.key]
