"""The plugin in a real TensorBoard, with both of its loaders."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from kinds_of_input import path_of, two_sets
from patience import patient
from stepscope.metadata import iter_runs
from stepscope.store import Store
from stepscope.web.frames import decoded

PREFIX = "data/plugin/stepscope"


@pytest.fixture(params=["true", "false"])
def board(request):
    """A function that starts a TensorBoard for a logdir and gives its address."""
    started = []

    def start(logdir):
        command = [
            sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host",
            "127.0.0.1", "--port", "0", "--load_fast", request.param, "--reload_interval", "1",
        ]  # fmt: skip
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        started.append(process)
        lines = []
        for line in process.stderr:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+/", line):
                return address[0]
        return pytest.fail("TensorBoard did not start:\n" + "".join(lines))

    yield start
    for process in started:
        process.terminate()
        process.wait(timeout=patient(30))
        process.stderr.close()


def got(address, path):
    with urllib.request.urlopen(f"{address}{path}", timeout=patient(60)) as response:
        return response.read()


def until(look):
    """What is there as soon as TensorBoard has read its files."""
    deadline = time.monotonic() + patient(90)
    while not (found := look()):
        assert time.monotonic() < deadline
    return found


def session(address):
    return decoded(got(address, f"{PREFIX}/api/session"))


def test_runs_of_event_files(board, tmp_path):
    logdir = two_sets(tmp_path)
    address = board(logdir)
    wanted = sum(1 for _ in iter_runs(logdir))
    until(lambda: json.loads(got(address, "data/plugins_listing"))["stepscope"]["enabled"])

    def all_there():
        found = decoded(got(address, f"{PREFIX}/api/changes?since=0"))
        return found["runs"] == wanted and found

    assert until(all_there)["state"] == "ok"
    assert session(address)["place"] == "tensorboard"
    shown = decoded(got(address, f"{PREFIX}/api/ops?by=type"))
    ours = [len(run.metadata.ops) for run in iter_runs(logdir)]
    assert (shown["runs"], shown["calls"]) == (wanted, sum(ours))
    assert b'content="tensorboard"' in got(address, f"{PREFIX}/index.html")
    assert b"render" in got(address, f"{PREFIX}/index.js")
    with pytest.raises(urllib.error.HTTPError) as refused:
        got(address, f"{PREFIX}/api/ops?by=colour")
    assert refused.value.code == 400
    refused.value.close()


def test_stores_of_our_own(board, tmp_path):
    (tmp_path / "train").mkdir()
    store = Store(tmp_path / "train")
    runs = list(iter_runs(path_of("embedded_training", tmp_path)))
    for run in runs:
        store.add(run.metadata, "train_step")
    store.close()
    address = board(tmp_path)
    until(lambda: json.loads(got(address, "data/plugins_listing"))["stepscope"]["enabled"])
    assert until(lambda: session(address)["state"] == "ok")
    shown = decoded(got(address, f"{PREFIX}/api/runs"))
    assert shown["ops"].tolist() == [len(run.metadata.ops) for run in runs]


def test_inactive_where_there_are_none(board, tmp_path):
    shutil.copy(path_of("tensorflows_own", tmp_path), tmp_path / "something.bin")
    address = board(tmp_path)
    listed = json.loads(got(address, "data/plugins_listing"))
    assert listed["stepscope"]["enabled"] is False
