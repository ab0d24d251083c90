"""The report on a script that died: what it says, and what it takes to make it."""

from __future__ import annotations

import signal
import time
import weakref

from recorded_program import run
from stepscope.cli.script import death as script_death
from stepscope.cli.script import outside
from stepscope.metadata import InFlight, Recording, RunMetadata, Status, iter_runs
from stepscope.store import Store

OPS = 400


def recorded(folder, runs):
    """A store of so many runs, each with times of its own, and one that did not end."""
    folder.mkdir()
    with Store(folder) as store:
        for number in range(runs):
            ops = [(f"Op{i % 50}", number + i / 1e3, number + i / 900) for i in range(OPS)]
            store.add(run(number, number + 0.9, ops), "step")
        cut_off = RunMetadata()
        status = Status("UNKNOWN", "did not end", (InFlight("stuck", "running"),))
        cut_off.record(Recording(engine="tensorflow function", status=status))
        store.add(cut_off, "step")
    return folder


def test_of_runs_that_were_read_only_their_ends_stay(tmp_path):
    endings, read = script_death._Endings(), []
    for _, metadata in endings.passing(iter_runs(recorded(tmp_path / "runs", 30))):
        assert sum(earlier() is not None for earlier in read) == 0
        read.append(weakref.ref(metadata))
        del metadata
    assert len(read) == len(endings.runs) == 31
    assert [len(ending.ops) for _, ending in endings.runs] == [0] * 31
    assert endings.runs[-1][1].status.in_flight == ["stuck"]


def test_the_report_says_how_it_died_and_writes_no_timeline_of_too_many_ops(tmp_path, capsys):
    notes = outside.Notes()
    notes.recording()
    ended = outside.ProcessEnd(signal.SIGKILL, 0, time.monotonic_ns())
    folder = recorded(tmp_path / "runs", 60)
    script_death.show(ended, notes, "train.py", folder, "full", 5, report=False)
    said = capsys.readouterr().err
    assert "the script was killed by SIGKILL" in said
    assert "in flight  stuck (in " in said
    assert "61 runs · 24,000 ops" in said
    assert "as a Chrome trace: stepscope timeline" in said
    assert not (folder / "timeline.json").exists()
