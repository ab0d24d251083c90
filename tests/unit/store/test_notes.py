"""Notes of what a program did beside its runs, in a store."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from recorded_examples import simple_run

from stepscope.errors import UnreadableFileError
from stepscope.metadata import CallTime, Note, Recording, RunMetadata, programs
from stepscope.metadata.program_notes import IMPORT, PROCESS
from stepscope.store import Store, add_note_to

IMPORTED = Note(IMPORT, 1_000, 2_500, 7, "tensorflow", "train.py:3", {"nodes": 12})


def test_notes_come_back_as_they_were_in_their_order(tmp_path):
    odd = Note(IMPORT, 5, what="mod\udcffule", details={"arguments": [["value", "n", "\udcff"]]})
    with Store(tmp_path) as store:
        store.note(IMPORTED)
        store.add(simple_run(1, 3), "step")
        store.note(odd)
    [program] = programs(tmp_path)
    first, second = program.notes
    assert first == IMPORTED
    assert first.ns == 1_500
    assert second.what == "mod\\xffule"
    assert second.details == odd.details
    assert second.ns == 0


def test_what_is_noted_again_holds(tmp_path):
    with Store(tmp_path) as store:
        store.note(Note(PROCESS, 10, thread=42))
        store.add(simple_run(1, 3), "step")
    add_note_to(store.path, Note(PROCESS, 10, 99, 42))
    [program] = programs(store.path)
    assert program.last(PROCESS).ended_ns == 99
    assert program.main_thread == 42
    assert program.last(IMPORT) is None


def test_a_run_says_when_it_was_called_and_of_what_graph_it_was(tmp_path):
    called, plain = RunMetadata(), RunMetadata()
    called.record(Recording(engine="embedded", call=CallTime(100, 900, 42)))
    plain.record(Recording(engine="embedded"))
    with Store(tmp_path) as store:
        for run in (called, plain, simple_run(1, 3), simple_run(2, 3), simple_run(3, 4)):
            store.add(run, "step")
    [program] = programs(tmp_path)
    runs = list(program.runs())
    assert [run.call for run in runs[:2]] == [CallTime(100, 900, 42), None]
    assert runs[2].kind == runs[3].kind != runs[4].kind


def test_a_note_is_there_after_a_kill_without_waiting_for_runs(tmp_path):
    program = textwrap.dedent(
        f"""
        import os, pathlib, signal, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from recorded_examples import simple_run
        from stepscope.metadata import Note
        from stepscope.store import Store
        store = Store(pathlib.Path({str(tmp_path)!r}))
        store.note(Note("import", 1, 2, what="numpy"))
        store.add(simple_run(1, 3), "step")
        store.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    [found] = programs(tmp_path)
    assert [note.what for note in found.notes] == ["numpy"]


def test_a_damaged_note_is_left_out(tmp_path):
    with Store(tmp_path) as store:
        store.note(IMPORTED)
        store.note(Note(IMPORT, 1, 2, what="keras"))
        store.add(simple_run(1, 3), "step")
    file = sqlite3.connect(store.path)
    file.execute("UPDATE notes SET started_ns = 3 WHERE number = 1")
    file.commit()
    file.close()
    [program] = programs(tmp_path)
    assert [note.what for note in program.notes] == ["keras"]


def test_a_store_of_an_earlier_version_says_that_it_has_none(tmp_path):
    with Store(tmp_path) as store:
        store.add(simple_run(1, 3), "step")
    file = sqlite3.connect(store.path)
    file.execute("DROP TABLE notes")
    file.execute("PRAGMA user_version = 2")
    file.close()
    with pytest.raises(UnreadableFileError, match="recorded by an earlier Stepscope"):
        programs(tmp_path)
