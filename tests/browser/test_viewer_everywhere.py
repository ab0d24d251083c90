"""Every page of every kind of input, everywhere that pages are shown: `make test-browser`.

`make test` has each page once in `stepscope view`, each kind once in a report and TensorBoard once
with each of its loaders; this is all of it. An op that was chosen is looked for on every page, too.
"""

from __future__ import annotations

import pytest
from read_pages import choose_op, is_chosen_on_every_page, read_every_page

from kinds_of_input import KINDS, path_of, two_sets
from running_tensorboard import LOADERS, TensorBoard
from stepscope.export import FileWriter
from stepscope.metadata import iter_runs
from stepscope.metadata.readable import number
from stepscope.store import Store

pytestmark = pytest.mark.everywhere


@pytest.fixture(params=KINDS)
def path(request, tmp_path):
    (tmp_path / "in").mkdir()
    return path_of(request.param, tmp_path / "in")


def read(page, path, said):
    read_every_page(page, path, said)
    page.go("ops", by="name", over="run")
    longest = page.taken("Ops")[0]["key"]
    assert longest in [row["key"] for row in said("top", path, "--by", "name")["rows"]]
    choose_op(page, longest)
    is_chosen_on_every_page(page, longest)
    assert page.errors == []


def test_in_view(path, view, watched, said):
    read(watched(view(path)), path, said)


def test_in_a_report(path, report, said):
    read(report(path), path, said)


def in_event_files(path, logdir):
    with FileWriter(logdir / "train") as writer:
        for place, run in enumerate(iter_runs(path)):
            writer.add_run_metadata(run.metadata, f"step_{place:06}", place)


def in_a_store(path, logdir):
    with Store(logdir) as store:
        for run in iter_runs(path):
            store.add(run.metadata, run.name)


@pytest.mark.parametrize("kept", [in_event_files, in_a_store])
@pytest.mark.parametrize("load_fast", LOADERS)
def test_in_tensorboard(path, kept, load_fast, watched, said, tmp_path):
    logdir = tmp_path / "logs"
    logdir.mkdir()
    kept(path, logdir)
    with TensorBoard(logdir, load_fast) as board:
        page = watched(f"{board.address}#stepscope", "iframe")
        shown = number(sum(1 for _ in iter_runs(logdir)), "run")
        page.window.locator("header", has_text=shown).wait_for()
        page.errors.clear()  # before it had read its files it refused what was asked of it
        read(page, logdir, said)


def test_two_sets_in_a_report(report, said, tmp_path):
    sets = two_sets(tmp_path)
    page = report(sets / "base", sets / "new")
    page.go("compare")
    wanted = said("diff", sets / "base", sets / "new")["rows"]
    shown = {row["name"]: row["p"] for row in page.taken("Changes")}
    assert {row["name"]: row["p"] for row in wanted}.items() <= shown.items()
    assert page.errors == []
