"""The plugin in a real TensorBoard, with both of its loaders."""

import shutil
import urllib.error
from contextlib import ExitStack

import pytest

from kinds_of_input import path_of, two_sets
from running_tensorboard import LOADERS, TensorBoard
from stepscope.metadata import iter_runs
from stepscope.store import Store
from stepscope.web.frames import decoded

PREFIX = "data/plugin/stepscope"


@pytest.fixture(params=LOADERS)
def board(request):
    """A function that starts a TensorBoard for a logdir."""
    with ExitStack() as stack:
        yield lambda logdir: stack.enter_context(TensorBoard(logdir, request.param))


def is_listed(board):
    return board.json("data/plugins_listing")["stepscope"]["enabled"]


def value(board, resource):
    return decoded(board.get(f"{PREFIX}/api/{resource}"))


def test_runs_of_event_files(board, tmp_path):
    logdir = two_sets(tmp_path)
    shown = board(logdir)
    wanted = [len(run.metadata.ops) for run in iter_runs(logdir)]
    shown.until(lambda: is_listed(shown))
    shown.until(lambda: value(shown, "changes?since=0")["runs"] == len(wanted))
    session = value(shown, "session")
    assert (session["place"], session["state"]) == ("tensorboard", "ok")
    ops = value(shown, "ops?by=type")
    assert (ops["runs"], ops["calls"]) == (len(wanted), sum(wanted))
    assert b'content="tensorboard"' in shown.get(f"{PREFIX}/index.html")
    assert b"render" in shown.get(f"{PREFIX}/index.js")
    with pytest.raises(urllib.error.HTTPError) as refused:
        value(shown, "ops?by=colour")
    assert refused.value.code == 400
    refused.value.close()


def test_stores_of_our_own(board, tmp_path):
    (tmp_path / "train").mkdir()
    store = Store(tmp_path / "train")
    runs = list(iter_runs(path_of("embedded_training", tmp_path)))
    for run in runs:
        store.add(run.metadata, "train_step")
    store.close()
    shown = board(tmp_path)
    shown.until(lambda: is_listed(shown))
    shown.until(lambda: value(shown, "session")["state"] == "ok")
    assert value(shown, "runs")["ops"].tolist() == [len(run.metadata.ops) for run in runs]


def test_inactive_where_there_are_none(board, tmp_path):
    shutil.copy(path_of("tensorflows_own", tmp_path), tmp_path / "something.bin")
    assert is_listed(board(tmp_path)) is False
