"""One damaged file in a directory: the others are read, and the damage is a declared loss."""

from __future__ import annotations

import gzip
import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import corpus

from stepscope.metadata import iter_runs, load
from stepscope.metadata.readers import _load
from stepscope.metadata.xplane import XSpace

PROFILES = sorted((corpus.DATA / "xplane").glob("*.xplane.pb.gz"))


def whole(name: str) -> bytes:
    return gzip.decompress((corpus.DATA / "xplane" / f"{name}.xplane.pb.gz").read_bytes())


def with_damaged_start() -> bytes:
    """A profile whose statement of when it began is no message."""
    space = XSpace()
    plane = space.planes.add(name="Task Environment")
    plane.stat_metadata[1].name = "profile_start_time"
    broken = plane.SerializeToString() + b"\x32\x03\x08\x01\xff"
    return b"\x0a" + bytes([len(broken)]) + broken + whole("session")


def test_a_profile_with_a_damaged_start_does_not_end_the_reading(tmp_path):
    (tmp_path / "a.xplane.pb").write_bytes(with_damaged_start())
    (tmp_path / "b.xplane.pb").write_bytes(whole("function"))
    damaged, good = load(tmp_path)
    assert (len(damaged.ops), len(good.ops)) == (6, 36)
    assert [loss.what for loss in damaged.completeness.damage] == ["bytes of the file"]
    assert not good.completeness.damage


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_wrong_with_one_file_the_others_are_there(seed, tmp_path):
    chance = random.Random(seed)
    for number in range(4):
        (tmp_path / f"broken_{number}.xplane.pb").write_bytes(
            corpus.broken(gzip.decompress(chance.choice(PROFILES).read_bytes()), chance)
        )
    name, content = corpus.mutated(seed)
    (tmp_path / f"broken_{name}").write_bytes(content)
    (tmp_path / "good.xplane.pb").write_bytes(whole("keras"))
    runs = dict(iter_runs(tmp_path))
    assert len(runs["good"].ops) == 96
    assert all(len(run.ops) or run.completeness.losses for run in runs.values())


def test_an_error_of_our_own_in_one_file_is_a_loss_of_that_file(tmp_path, monkeypatch):
    (tmp_path / "a.xplane.pb").write_bytes(whole("session"))
    (tmp_path / "b.xplane.pb").write_bytes(whole("function"))
    read = _load.xplane_pb.runs

    def failing(path, data):
        if path.name == "a.xplane.pb":
            raise KeyError("unforeseen")
        return read(path, data)

    monkeypatch.setattr(_load.xplane_pb, "runs", failing)
    bad, good = load(tmp_path)
    assert bad.status.code == "DATA_LOSS"
    assert "unforeseen" in bad.completeness.losses[0].reason
    assert len(good.ops) == 36


@pytest.mark.parametrize("name", ["run_metadata.pb", "x.pb", "a.xplane.pb", "a.tfevents.1"])
def test_a_pipe_in_a_directory_is_not_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    (tmp_path / "good.xplane.pb").write_bytes(whole("session"))
    runs = dict(iter_runs(tmp_path))
    assert len(runs["good"].ops) == 6
