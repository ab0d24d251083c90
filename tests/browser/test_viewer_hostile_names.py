"""Hostile names are nothing but text: in `stepscope view`, in a report and in TensorBoard.

Of ops, types, devices, threads, annotations, lines, directories, files and tags.
"""

from __future__ import annotations

import pytest
from read_pages import PAGES

from hostile_names import FOLDER, NAMES, hostile_directory, hostile_run
from running_tensorboard import LOADERS
from stepscope.export import FileWriter
from stepscope.metadata.readable import plain
from stepscope.store import Store

SHORTEST = ("$", NAMES[3], NAMES[1], NAMES[2])


def are_nothing_but_text(page):
    """Look at every page, and at those names in it."""
    for name in PAGES:
        page.go(name)
        assert page.window.evaluate("window.hacked") is None
        assert page.window.locator("main img, main script, [onload], [onerror]").count() == 0
    page.go("ops", by="name")
    shown = [cells[0] for cells in page.rows("Ops by name")]
    assert {plain(name) for name in SHORTEST} <= set(shown)
    assert "\\xff\\x80" in shown
    assert all(len(text) < 200 for text in shown)
    for name in (NAMES[0], NAMES[1]):
        page.go("timeline", select=f"op::{name}")
        assert page.text("[data-testid='selected']") == name
        page.window.locator("aside.panel .lead").wait_for()
    page.go("ops", by="device")
    assert page.rows("Ops by device")
    assert page.window.evaluate("window.hacked") is None
    assert page.errors == []


def test_in_view(watched, view, tmp_path):
    page = watched(view(hostile_directory(tmp_path)))
    assert "\\xff\\x1b[2J" in page.text("header")
    are_nothing_but_text(page)


def test_in_a_report(report, tmp_path):
    page = report(hostile_directory(tmp_path))
    assert "\\xff\\x1b[2J" in page.window.title()
    are_nothing_but_text(page)


@pytest.mark.parametrize("load_fast", LOADERS)
def test_in_tensorboard(watched, serve, tmp_path, load_fast):
    run = hostile_run()
    with FileWriter(tmp_path / NAMES[1]) as writer:
        for step, tag in enumerate((*NAMES[:4], NAMES[5])):
            writer.add_run_metadata(run, tag, step)
    page = watched(f"{serve(tmp_path, load_fast)}#stepscope", "iframe")
    # TensorBoard's fast loader lists two of them and cannot read them, for what is in their tags.
    page.window.locator("header", has_text="3 runs" if load_fast == "true" else "5 runs").wait_for()
    assert ("TensorBoard lists it" in page.text("footer")) == (load_fast == "true")
    page.errors.clear()  # what it asked for before TensorBoard had read its files
    are_nothing_but_text(page)


def test_a_store_in_tensorboard_whose_path_is_not_utf_8(watched, serve, tmp_path):
    """TensorBoard finds no event files there; a store of ours is found."""
    (tmp_path / FOLDER).mkdir()
    with Store(tmp_path / FOLDER) as store:
        store.add(hostile_run(), NAMES[1])
    page = watched(f"{serve(tmp_path)}#stepscope", "iframe")
    page.window.locator("header", has_text="1 run").wait_for()
    are_nothing_but_text(page)
