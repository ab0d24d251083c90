"""Reading stores: while they grow, damaged, of another version, without the right to write."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_examples import GRAPH, recorded, simple_run

import stepscope
from random_examples import examples
from stepscope.errors import UnreadableFileError
from stepscope.metadata import iter_runs
from stepscope.store import Store

STORES = Path(__file__).parents[2] / "data" / "stores"


def steps(path: object) -> list[int]:
    return [run.step_id for run in stepscope.load(path)]


@pytest.fixture
def tmp_path(open_folder):
    return open_folder


@pytest.fixture
def stored(tmp_path):
    """A closed store of ten runs."""
    with Store(tmp_path) as store:
        for number in range(10):
            store.add(simple_run(number, 200), "train_step")
    return store.path


def test_a_store_is_read_while_it_grows(tmp_path):
    with Store(tmp_path) as store:
        store.add(simple_run(0))
        store.flush()
        reading = iter_runs(store.path)
        seen = [next(reading).metadata.step_id]
        for number in range(1, 200):
            store.add(simple_run(number))
        store.flush()
        # A reader that is in the middle finds what came meanwhile.
        seen += [run.metadata.step_id for run in reading]
        assert seen == list(range(200))
        assert steps(store.path) == list(range(200))
    assert steps(store.path) == list(range(200))


def test_another_process_reads_it_while_it_grows(tmp_path):
    program = "import stepscope, sys; print([r.step_id for r in stepscope.load(sys.argv[1])])"
    with Store(tmp_path) as store:
        for number in range(5):
            store.add(simple_run(number))
        store.flush()
        command = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout == "[0, 1, 2, 3, 4]\n"
        store.add(simple_run(5))
    assert steps(store.path) == list(range(6))


def test_reading_changes_nothing(stored):
    before = stored.read_bytes(), stored.stat().st_mtime_ns
    assert len(steps(stored)) == 10
    assert (stored.read_bytes(), stored.stat().st_mtime_ns) == before
    assert list(stored.parent.iterdir()) == [stored]


def test_runs_stay_readable_when_the_file_is_gone(stored):
    runs = stepscope.load(stored)
    stored.unlink()
    assert [len(run.ops) for run in runs] == [200] * 10


def test_a_store_with_one_run_is_a_list(tmp_path):
    with Store(tmp_path) as store:
        store.add(simple_run(4))
    assert [run.step_id for run in stepscope.load(store.path)] == [4]


def test_other_files_in_the_directory_are_read_but_for_copies_of_its_runs(stored):
    simple_run(0).save(stored.parent / "run_000001" / "run_metadata.pb")
    simple_run(77).save(stored.parent / "mine.run_metadata.pb")
    assert sorted(steps(stored.parent)) == [*range(10), 77]


def test_directories_of_older_recordings_are_read(tmp_path):
    for number in (1, 2):
        simple_run(number).save(tmp_path / f"run_00000{number}" / "run_metadata.pb")
    assert steps(tmp_path) == [1, 2]


def test_a_store_without_a_run_says_so(tmp_path):
    with Store(tmp_path) as store:
        with pytest.raises(UnreadableFileError, match="a store that holds no run, or none yet"):
            stepscope.load(store.path)
        with pytest.raises(UnreadableFileError, match="no run in this directory"):
            stepscope.load(tmp_path)


# -- without the right to write ----------------------------------------------------------------


@contextlib.contextmanager
def acting_as_nobody(folder: Path):
    """This process has the rights of a user who may read the folder and write nowhere in it."""
    folder.chmod(0o755)
    if os.getuid():
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_in_a_directory_that_may_not_be_written_to(stored):
    with acting_as_nobody(stored.parent):
        assert steps(stored) == list(range(10))


def killed_store(folder: Path) -> Path:
    """A store of three runs whose writer was killed."""
    program = textwrap.dedent(
        f"""
        import os, pathlib, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from recorded_examples import simple_run
        from stepscope.store import Store
        store = Store(pathlib.Path({str(folder)!r}))
        for number in range(3):
            store.add(simple_run(number))
        store.flush()
        os.kill(os.getpid(), 9)
        """
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    (store,) = folder.glob("*.stepscope")
    return store


def test_a_killed_store_where_one_may_not_write(tmp_path, monkeypatch):
    store = killed_store(tmp_path)
    assert Path(f"{store}-wal").stat().st_size
    Path(f"{store}-shm").unlink()
    copies = tmp_path / "copies"
    copies.mkdir()
    copies.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    with acting_as_nobody(tmp_path):
        assert steps(store) == [0, 1, 2]
        assert steps(tmp_path) == [0, 1, 2]
    assert list(copies.iterdir()) == []


def test_a_killed_store_where_one_may_write_nowhere_says_what_to_do(tmp_path, monkeypatch):
    store = killed_store(tmp_path)
    Path(f"{store}-shm").unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        acting_as_nobody(tmp_path),
        pytest.raises(UnreadableFileError, match=rf"Copy {store.name}, {store.name}-wal to a"),
    ):
        stepscope.load(store)


def test_a_killed_store_that_was_copied_with_its_log(tmp_path):
    (tmp_path / "first").mkdir()
    store = killed_store(tmp_path / "first")
    (tmp_path / "second").mkdir()
    for name in ("", "-wal"):
        shutil.copy(f"{store}{name}", tmp_path / "second")
    assert steps(tmp_path / "second") == [0, 1, 2]


# -- other files and versions ------------------------------------------------------------------


def set_pragma(path: Path, what: str, value: int) -> None:
    file = sqlite3.connect(path)
    file.execute(f"PRAGMA {what} = {value}")
    file.close()


def test_a_later_version_is_refused(stored):
    set_pragma(stored, "user_version", 7)
    with pytest.raises(UnreadableFileError) as refused:
        stepscope.load(stored)
    assert str(refused.value) == (
        f"{stored}: is a store of version 7, of a later Stepscope; this one reads version 5: "
        "pip install --upgrade stepscope"
    )


def test_a_store_of_the_first_version_is_read(stored):
    now = [run.step_id for run in stepscope.load(stored)]
    set_pragma(stored, "user_version", 1)
    assert [run.step_id for run in stepscope.load(stored)] == now


def test_another_database_is_none(tmp_path):
    for name in ("other.stepscope", "other.db"):
        file = sqlite3.connect(tmp_path / name)
        file.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1); PRAGMA user_version = 3")
        file.close()
        with pytest.raises(UnreadableFileError, match="SQLite database"):
            stepscope.load(tmp_path / name)


def test_a_store_of_another_name_is_one(stored):
    renamed = stored.rename(stored.with_name("monday.db"))
    assert steps(renamed) == list(range(10))


@pytest.mark.parametrize("content", [b"", b"no store at all", b"SQLite format 3\x00"])
def test_a_file_that_only_has_the_name(tmp_path, content):
    (tmp_path / "x.stepscope").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"x\.stepscope: "):
        stepscope.load(tmp_path / "x.stepscope")


# -- damage ------------------------------------------------------------------------------------


def test_a_cut_store_gives_what_is_there(tmp_path):
    with Store(tmp_path) as store:
        for number in range(100):
            store.add(simple_run(number, 200))
    stored = store.path
    data = stored.read_bytes()
    stored.write_bytes(data[: len(data) * 2 // 3 // 8192 * 8192])
    runs = stepscope.load(stored)
    whole = [run.step_id for run in runs if len(run.ops) == 200]
    assert whole == list(range(len(whole)))
    assert 30 < len(whole) < 100
    (loss,) = runs[-1].completeness.damage
    found, whole = stored.stat().st_size, len(data)
    said = f"{stored.name}: it is cut short: {found:,} of its {whole:,} bytes are there; copy it"
    assert loss.reason.startswith(said)


@pytest.mark.parametrize("size", [1, 10, 60, 100, 2000, 8192, 3 * 8192])
def test_a_store_of_which_nothing_is_left_says_so_in_our_words(tmp_path, size):
    with Store(tmp_path) as store:
        for number in range(100):
            store.add(simple_run(number, 200))
    os.truncate(store.path, size)
    with pytest.raises(UnreadableFileError) as caught:
        stepscope.load(store.path)
    said = str(caught.value)
    assert f"cut short: {size:,} byte" in said or f"cut short: {size:,} of its " in said
    assert said.endswith("; copy it again from where it was recorded, or record again")
    assert "malformed" not in said
    assert "no such table" not in said


@pytest.mark.parametrize("missing", [9000, 10])
def test_a_store_that_lost_no_run_says_that_it_is_cut(stored, missing):
    file = sqlite3.connect(stored)
    file.executescript("CREATE TABLE beside (content); INSERT INTO beside VALUES (zeroblob(90000))")
    file.close()
    os.truncate(stored, stored.stat().st_size - missing)
    runs = stepscope.load(stored)
    assert [run.step_id for run in runs] == list(range(10))
    assert not any(run.completeness.damage for run in runs[:-1])
    (loss,) = runs[-1].completeness.damage
    assert "cut short" in loss.reason
    assert loss.reason.endswith("; all of its runs could be read")


def changed_row(path: Path, statement: str) -> None:
    file = sqlite3.connect(path)
    assert file.execute(statement).rowcount == 1
    file.commit()
    file.close()


def test_columns_that_were_changed_are_told_by_their_checksum(stored):
    changed_row(stored, "UPDATE runs SET content = zeroblob(length(content)) WHERE number = 4")
    runs = stepscope.load(stored)
    assert [len(run.ops) for run in runs] == [200] * 3 + [0] + [200] * 6
    (loss,) = runs[3].completeness.damage
    assert (loss.what, loss.count) == ("runs of the file", 1)
    assert runs[3].status.code == "DATA_LOSS"


def test_a_part_that_was_changed_is_left_out(tmp_path):
    with Store(tmp_path) as store:
        columns = simple_run(0).ops
        store.add(
            recorded(
                ops=lambda: columns,
                partition_graphs=lambda: [GRAPH],
                sources=lambda: {"n0": "train.py:3"},
            )
        )
    content = GRAPH.SerializeToString(deterministic=True)
    changed_row(
        store.path,
        f"UPDATE parts SET content = zeroblob(size) WHERE content = x'{content.hex()}'",
    )
    (run,) = stepscope.load(store.path)
    assert run.sources == {"n0": "train.py:3"}
    assert len(run.ops) == 3
    assert len(run.partition_graphs) == 0
    (loss,) = run.completeness.damage
    assert (loss.what, loss.count) == ("partition graphs of the file", 1)


@given(st.data())
@examples(40)
def test_damage_anywhere_is_refused_or_declared(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    with Store(folder) as store:
        for number in range(6):
            store.add(simple_run(number, 300))
    content = bytearray(store.path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.sampled_from([1, 100, 8192]))
    content[place : place + length] = os.urandom(len(content[place : place + length]))
    store.path.write_bytes(content)
    try:
        runs = stepscope.load(store.path)
    except UnreadableFileError:
        return
    finally:
        shutil.rmtree(folder)
    told = [run for run in runs if run.completeness.damage]
    right = [run for run in runs if not run.completeness.damage]
    for run in right:
        assert len(run.ops) == 300
        assert run == simple_run(run.step_id, 300)
    assert told or len(right) == 6


def test_a_damaged_store_beside_good_files(stored):
    damaged = stored.parent / "damaged.stepscope"
    damaged.write_bytes(b"SQLite format 3\x00" + bytes(3000))
    runs = stepscope.load(stored.parent)
    assert sorted(run.status.code for run in runs) == ["DATA_LOSS"] + ["OK"] * 10


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_what_an_earlier_stepscope_wrote_is_read(version):
    # Written by `stepscope run program.py` of that time.
    start, step, again, loop, failed = stepscope.load(STORES / f"version_{version}.stepscope")
    assert [len(run.ops) for run in (start, step, again, loop, failed)] == [4, 26, 26, 37, 7]
    assert failed.status.code == "INVALID_ARGUMENT"
    assert failed.status.in_flight == ["bad"]
    assert step.ops.name.tolist() == again.ops.name.tolist()
    assert step.sources["product"].endswith("tiny.py:7")
    assert again.ops.start_ns[0] > step.ops.end_ns[-1] > step.ops.start_ns[0]
    rows = step.allocations
    assert [
        (name, event, size)
        for name, event, size in zip(rows.name, rows.event, rows.bytes.tolist(), strict=True)
    ][:4] == [
        ("w", "held", 8),
        ("x", "held", 16),
        ("product", "allocate", 8),
        ("loss", "allocate", 4),
    ]
    assert step.peak_bytes() == 44
    assert loop.ops.name.tolist().count("loop/add") == 3
