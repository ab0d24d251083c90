"""Runs whose files grow, break or go while they are shown."""

import shutil
import time

import pytest

from kinds_of_input import path_of
from patience import patient
from stepscope.metadata import iter_runs


@pytest.fixture
def growing(tmp_path):
    """A directory with the first two of some runs, and a function that adds another."""
    source = path_of("embedded_training", tmp_path)
    place = tmp_path / "growing"
    place.mkdir()

    def add(number):
        name = f"run_{number:06d}"
        shutil.copytree(source / name, place / name)

    add(1)
    add(2)
    return place, add


def until(client, what):
    """Ask as the page does until it is so."""
    deadline = time.monotonic() + patient(60)
    while True:
        found = client.value("changes?since=1")
        if what(found):
            return found
        assert time.monotonic() < deadline, found


def test_new_runs_show_as_they_come(view, growing):
    place, add = growing
    client = view(place)
    assert client.value("changes")["runs"] == 2
    before = client.value("runs")["name"]
    add(3)
    found = until(client, lambda now: now["generation"] == 2)
    assert (found["runs"], found["state"], found["growing"]) == (3, "ok", True)
    assert client.value("runs")["name"] == [*before, "run_000003"]
    assert client.value("timeline?run=2")["ops"] == len(list(iter_runs(place))[2].metadata.ops)


def test_what_is_deleted_is_said_and_what_was_read_stays(view, growing):
    place, _ = growing
    client = view(place)
    overview = client.value("overview")
    shutil.rmtree(place)
    found = until(client, lambda now: now["state"] == "gone")
    assert "there is no such file or directory" in found["message"]
    assert client.value("session")["state"] == "gone"
    assert client.value("overview")["verdict"] == overview["verdict"]
    status, error = client.error("compare?base=0&new=1")
    assert status == 422, error


def test_an_empty_directory_says_so_and_fills(view, growing, tmp_path):
    place, _ = growing
    empty = tmp_path / "empty"
    empty.mkdir()
    client = view(empty)
    session = client.value("session")
    assert session["state"] == "empty"
    assert session["message"].startswith("There is nothing here yet. ")
    assert "no run in this directory" in session["message"]
    assert client.error("overview")[0] == 422
    shutil.copytree(place / "run_000001", empty / "run_000001")
    found = until(client, lambda now: now["state"] == "ok")
    assert found["runs"] == 1


def test_a_file_that_is_cut_shows_what_is_there(view, growing):
    place, _ = growing
    whole = place / "run_000002" / "run_metadata.pb"
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (place / "run_000001" / "run_metadata.pb").write_bytes(b"\xff" * 100)
    client = view(place)
    session = client.value("session")
    assert session["state"] == "ok"
    assert len(session["damage"]) == 2
    assert client.value("runs")["number"].tolist() == [1]
    assert client.value("timeline?run=1")["ops"] > 0


def test_nothing_that_can_be_read(view, tmp_path):
    (tmp_path / "run_metadata.pb").write_bytes(b"\xff" * 100)
    client = view(tmp_path)
    session = client.value("session")
    assert session["state"] == "unreadable"
    assert "run_metadata.pb" in session["message"]
    assert client.error("timeline")[0] == 422
