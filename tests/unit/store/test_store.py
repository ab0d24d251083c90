"""The store as a program has it: handing over, waiting, closing, and what goes wrong."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading

import pytest
from recorded_examples import recorded, simple_run

import stepscope
from patience import patient
from stepscope.metadata import Note, OpColumns, RunMetadata
from stepscope.metadata.program_notes import IMPORT
from stepscope.metadata.stored.stored_run import SharedPart
from stepscope.store import Store
from stepscope.store.database import Database
from stepscope.store.store import WAITING


def steps(path: object) -> list[int]:
    return [run.step_id for run in stepscope.load(path)]


def test_runs_come_back_in_order_under_their_names(tmp_path):
    with Store(tmp_path) as store:
        store.add(simple_run(5), "train_step")
        store.add(simple_run(6))
    assert steps(tmp_path) == [5, 6]
    names = [run.name for run in stepscope.metadata.iter_runs(tmp_path)]
    assert names == ["run_000001 train_step", "run_000002"]


def test_a_closed_store_is_one_file_that_can_be_copied(tmp_path):
    (tmp_path / "here").mkdir()
    with Store(tmp_path / "here") as store:
        for number in range(10):
            store.add(simple_run(number))
    assert [path.name for path in (tmp_path / "here").iterdir()] == [store.path.name]
    copy = shutil.copy(store.path, tmp_path / "copy.stepscope")
    assert steps(copy) == list(range(10))


def test_flush_waits_for_what_was_added(tmp_path):
    with Store(tmp_path) as store:
        store.add(simple_run(1))
        store.flush()
        assert store.stored == 1
        assert steps(store.path) == [1]


def test_a_later_run_in_the_same_object_is_another_run(tmp_path):
    metadata, other = simple_run(1), simple_run(2)
    with Store(tmp_path) as store:
        store.add(metadata)
        metadata.CopyFrom(other)
        store.add(metadata)
    assert steps(store.path) == [1, 2]


def late_run(go_on: threading.Event, **parts: int) -> RunMetadata:
    """A run whose ops are there when it may go on."""
    columns = simple_run(0).ops

    def late() -> OpColumns:
        go_on.wait(patient(60))
        return columns

    return recorded(ops=late, **parts)


def test_adding_does_not_wait_for_a_run_to_be_decoded(tmp_path):
    go_on = threading.Event()
    with Store(tmp_path) as store:
        store.add(late_run(go_on, step_id=1))
        store.add(simple_run(2))
        assert store.stored == 0
        go_on.set()
        store.flush()
        assert store.stored == 2
    assert steps(store.path) == [1, 2]


def test_the_queue_is_bounded_and_loses_nothing(tmp_path):
    go_on = threading.Event()
    added = []
    with Store(tmp_path) as store:

        def add() -> None:
            store.add(late_run(go_on))
            for number in range(1, 3 * WAITING):
                store.add(simple_run(number))
                added.append(number)

        adding = threading.Thread(target=add)
        adding.start()
        while len(added) < WAITING and adding.is_alive():
            pass
        adding.join(0.05)
        assert adding.is_alive()
        assert len(added) == WAITING
        waited = store.waited_ns
        go_on.set()
        adding.join()
        assert store.waited_ns > waited
    assert steps(store.path) == list(range(3 * WAITING))


def test_many_threads_add(tmp_path):
    with Store(tmp_path) as store:
        threads = [
            threading.Thread(
                target=lambda first=first: [
                    store.add(simple_run(first + number)) for number in range(20)
                ]
            )
            for first in range(0, 100, 20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = steps(store.path)
    assert sorted(found) == list(range(100))
    for first in range(0, 100, 20):
        own = [step for step in found if first <= step < first + 20]
        assert own == sorted(own)


def test_the_users_graph_is_kept_once(tmp_path):
    graph = SharedPart(b"x" * 100_000 + os.urandom(1000))
    with Store(tmp_path) as store:
        for number in range(50):
            store.add(simple_run(number), graph=graph)
    assert store.path.stat().st_size < 100_000


def test_two_stores_of_one_process(tmp_path):
    with Store(tmp_path) as one, Store(tmp_path) as other:
        one.add(simple_run(1))
        other.add(simple_run(2))
    assert one.path != other.path
    assert steps(tmp_path) == [1, 2]
    names = [run.name for run in stepscope.metadata.iter_runs(tmp_path)]
    assert names == [f"{one.path.stem}/run_000001", f"{other.path.stem}/run_000001"]


def test_a_store_without_a_run_leaves_no_file(tmp_path):
    with Store(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_is_waiting_is_written_when_the_program_ends(tmp_path):
    program = textwrap.dedent(
        f"""
        import pathlib, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from recorded_examples import simple_run
        from stepscope.store import Store
        store = Store(pathlib.Path({str(tmp_path)!r}))
        for number in range(30):
            store.add(simple_run(number))
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert steps(tmp_path) == list(range(30))
    assert len(list(tmp_path.iterdir())) == 1


# -- what goes wrong ---------------------------------------------------------------------------


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        Store(tmp_path / "nowhere")


def test_a_run_that_cannot_be_decoded_is_left_out(tmp_path):
    def fails() -> OpColumns:
        raise RuntimeError("no columns today")

    with Store(tmp_path) as store:
        store.add(simple_run(1))
        store.add(recorded(ops=fails))
        store.add(simple_run(3))
    assert store.problem == "a run could not be stored: RuntimeError: no columns today"
    assert steps(store.path) == [1, 3]


def test_a_directory_that_is_removed_is_one_problem(tmp_path):
    (tmp_path / "out").mkdir()
    with Store(tmp_path / "out") as store:
        store.add(simple_run(1))
        store.flush()
        shutil.rmtree(tmp_path / "out")
        for number in range(3 * WAITING):
            store.add(simple_run(number))
        store.flush()
    assert store.problem == f"{store.path} could not be written: No such file or directory"


def test_a_full_disk_keeps_what_was_stored(tmp_path):
    program = textwrap.dedent(
        f"""
        import pathlib, resource, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from recorded_examples import simple_run
        from stepscope.store import Store
        store = Store(pathlib.Path({str(tmp_path)!r}))
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most))
        number = 0
        while store.problem is None:
            store.add(simple_run(number, 500))
            store.flush()
            number += 1
        store.add(simple_run(0))
        store.close()
        print(store.stored)
        print(store.problem)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    stored, problem = done.stdout.decode().splitlines()
    assert " could not be written: " in problem
    assert "full" in problem or "I/O error" in problem
    assert int(stored) > 3
    assert steps(tmp_path) == list(range(int(stored)))


def test_a_file_system_without_shared_memory(tmp_path):
    # What SQLite keeps in shared memory has this name; a folder in its place cannot be mapped.
    (tmp_path / f"runs-{os.getpid()}-1.stepscope-shm").mkdir()
    with Store(tmp_path) as store:
        for number in range(5):
            store.add(simple_run(number))
        store.flush()
        assert not (tmp_path / f"{store.path.name}-wal").exists()
        assert steps(store.path) == list(range(5))
    assert store.problem is None
    assert steps(store.path) == list(range(5))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_takes_nothing_and_leaves_the_file_alone(tmp_path):
    with Store(tmp_path) as store:
        store.add(simple_run(1))
        store.flush()
        child = os.fork()
        if not child:
            store.add(simple_run(99))
            store.flush()
            store.close()
            del store
            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.add(simple_run(2))
        store.flush()
        # Before it is closed: a fork that had closed the file would have removed its log.
        assert steps(store.path) == [1, 2]
    assert steps(store.path) == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_that_ends_as_programs_do(tmp_path):
    program = textwrap.dedent(
        f"""
        import os, pathlib, sys, warnings
        warnings.simplefilter("ignore")
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from recorded_examples import simple_run
        from stepscope.store import Store
        store = Store(pathlib.Path({str(tmp_path)!r}))
        store.add(simple_run(1))
        store.flush()
        child = os.fork()
        if not child:
            with Store(pathlib.Path({str(tmp_path)!r})) as own:
                own.add(simple_run(50))
            sys.exit()
        os.waitpid(child, 0)
        store.add(simple_run(2))
        store.flush()
        os.kill(os.getpid(), 9)
        """
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    assert sorted(steps(tmp_path)) == [1, 2, 50]


def test_the_file_says_what_it_is(tmp_path):
    with Store(tmp_path) as store:
        store.add(RunMetadata(), "nothing")
    file = sqlite3.connect(store.path)
    assert file.execute("PRAGMA application_id").fetchone() == (0x53537470,)
    assert file.execute("PRAGMA user_version").fetchone() == (5,)
    assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert file.execute("SELECT number, what, status FROM runs").fetchall() == [
        (1, "nothing", "OK")
    ]
    file.close()


def test_runs_that_are_kept_elsewhere_are_gathered(tmp_path):
    commits = []
    with Store(tmp_path, lambda runs: commits.append(len(runs))) as store:
        for number in range(500):
            store.add(simple_run(number), kept=1 / 250)
        store.flush()
        # Whenever the thread looked, there were many.
        assert sum(commits) == 500
        assert max(commits) > 1
        store.add(simple_run(900), kept=1 / 250)
        store.add(simple_run(901))
        store.flush()
    assert steps(tmp_path) == [*range(500), 900, 901]


def test_a_run_that_is_kept_elsewhere_waits_for_none_for_long(tmp_path):
    stored = threading.Event()
    with Store(tmp_path, lambda _: stored.set()) as store:
        store.add(simple_run(1), kept=1 / 250)
        assert stored.wait(patient(60))


def test_runs_that_take_much_room_where_they_are_kept_do_not_wait(tmp_path):
    with Store(tmp_path) as store:
        for number in range(8):
            store.add(simple_run(number), kept=1)
    assert steps(tmp_path) == list(range(8))


def test_a_note_is_written_before_the_runs_that_are_gathered(tmp_path, monkeypatch):
    monkeypatch.setattr("stepscope.store.store.PAUSE_S", patient(600))
    monkeypatch.setattr("stepscope.store.store.GATHER_S", patient(600))
    committed, commit = threading.Event(), Database.commit

    def commit_and_say(database):
        commit(database)
        committed.set()

    monkeypatch.setattr(Database, "commit", commit_and_say)
    with Store(tmp_path) as store:
        store.add(simple_run(1), kept=1 / 250)
        store.note(Note(IMPORT, 1, 2, what="module"))
        assert committed.wait(patient(60))
        reader = sqlite3.connect(store.path)
        assert reader.execute("SELECT count(*) FROM notes").fetchone() == (1,)
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        reader.close()
    assert steps(tmp_path) == [1]
