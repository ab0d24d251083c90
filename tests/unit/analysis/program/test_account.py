"""`account`: the wall clock of a program, in parts that sum to it."""

from __future__ import annotations

import pytest

from recorded_program import MS, at, keras_like, note, run
from stepscope.analysis import account
from stepscope.analysis.program.account import AccountedRuns, one_program
from stepscope.errors import UnreadableFileError
from stepscope.metadata import Note
from stepscope.metadata.program_notes import COST, PLAN, PROCESS, SCRIPT, STOPPED
from stepscope.store import Store


def milliseconds(found):
    assert sum(row.ns for row in found.rows) == found.whole_ns
    return {row.key: row.ns / MS for row in found.rows}


def test_each_moment_belongs_to_the_innermost_of_what_went_on(tmp_path):
    found = account(keras_like(tmp_path))
    parts = milliseconds(found)
    assert parts["imports"] == 290 + 20  # what we did in one is ours; one was inside of a trace
    assert parts["tracing"] == 150 - 20 + 40  # one graph was built inside of another
    assert parts["first_runs"] == 200 - 150 + 60 - 40
    assert parts["after"] == 140
    assert found.whole_ns == 1000 * MS
    assert (found.runs, found.first_runs, found.program) == (4, 2, "train.py")
    assert found.ended


def test_the_parts_of_steps_are_by_what_their_ops_did(tmp_path):
    parts = milliseconds(account(keras_like(tmp_path)))
    # 611 to 626 waited for input, to 641 and in the other step 10 more computed, 641 to 644 moved.
    assert (parts["input"], parts["transfers"], parts["python_ops"]) == (15 + 3, 3, 4)
    assert parts["threads"] == 0.5 + 0.5 + 0.5
    assert parts["computing"] + parts["calling"] == pytest.approx(15 + 10 + 6 + 5 + 0.5 - 2)


def test_runs_of_other_threads_are_said_apart(tmp_path):
    found = account(keras_like(tmp_path))
    assert (found.other_runs, found.other_ns) == (1, 20 * MS)


def test_what_recording_cost_is_taken_from_where_it_was(tmp_path):
    parts = milliseconds(account(keras_like(tmp_path)))
    assert parts["recording"] == 50 + 10 + 80 + 5 + 2
    assert parts["between"] == 10 + 40 + 10 - 5 - 3
    assert parts["before"] == 10 + 40


def test_the_largest_of_a_part_is_named(tmp_path):
    rows = {row.key: row for row in account(keras_like(tmp_path)).rows}
    assert (rows["imports"].mostly, rows["imports"].where) == ("tensorflow", "train.py:1")
    assert rows["imports"].count == 2
    assert (rows["tracing"].mostly, rows["tracing"].count) == ("train_step", 2)
    assert rows["first_runs"].mostly == "train_step"


def test_a_program_that_died_is_told_up_to_what_it_noted_last(tmp_path):
    found = account(keras_like(tmp_path, ended=False))
    assert not found.ended
    assert found.whole_ns == 780 * MS
    assert sum(row.ns for row in found.rows) == found.whole_ns


def test_first_runs_are_those_of_each_graph(tmp_path):
    with Store(tmp_path) as store:
        store.note(note(PROCESS, 0, 100, "graph.py"))
        store.note(note(SCRIPT, 0, 100, "graph.py"))
        store.note(note(PLAN, 11, 14, "3 nodes"))
        for began, op in ((10, "MatMul"), (20, "MatMul"), (30, "Conv2D"), (40, "MatMul")):
            ops = [(op, began + 2, began + 8)]
            store.add(run(began, began + 10, ops, engine="embedded", overhead_ns=MS))
    found = account(tmp_path)
    assert (found.runs, found.first_runs) == (4, 2)
    parts = milliseconds(found)
    assert parts["planning"] == 3
    assert parts["first_runs"] == 20 - 3 - 2
    assert parts["recording"] == 4
    assert (parts["before"], parts["after"]) == (10, 50)


def test_what_was_not_recorded_is_a_part_of_its_own(tmp_path):
    with Store(tmp_path) as store:
        store.note(note(PROCESS, 0, 100, "train.py"))
        store.add(run(10, 20, [("MatMul", 11, 19)]), "step")
        store.add(run(40, 50, [("MatMul", 41, 49)]), "step")
        store.note(Note(STOPPED, at(60)))
        store.note(note(SCRIPT, 0, 90, "train.py"))
        store.note(note(COST, 0, 100, around_ns=0, inside_ns=0, unrecorded_ns=12 * MS))
    parts = milliseconds(account(tmp_path))
    assert parts["unrecorded"] == 30 + 12
    assert (parts["between"], parts["after"]) == (20 - 12, 20)


def test_eager_ops_between_runs_are_no_run(tmp_path):
    with Store(tmp_path) as store:
        store.note(note(PROCESS, 0, 100, "eager.py"))
        store.note(note(SCRIPT, 0, 100, "eager.py"))
        store.add(run(40, 50, [("MatMul", 41, 49)]), "step")
        ops = [("Add", 10, 15), ("Mul", 14, 20), ("Add", 60, 61)]
        store.add(run(0, 0, ops, engine="tensorflow eager", called=False), "eager code")
    found = account(tmp_path)
    assert found.runs == 1
    assert milliseconds(found) == {"eager": 11, "first_runs": 10, "before": 30, "after": 49}


def test_runs_that_were_read_for_something_else_are_not_read_again(tmp_path):
    (tmp_path / "eager").mkdir()
    with Store(tmp_path / "eager") as store:
        store.note(note(PROCESS, 0, 100, "eager.py"))
        store.add(run(0, 0, [("Add", 10, 15)], engine="tensorflow eager", called=False), "eager")
    for folder in (keras_like(tmp_path), store.path):
        program = one_program(folder)
        times = AccountedRuns(program)
        names = [name for name, _ in times.passing(program.runs())]
        assert names == [found.name for found in program.runs()]
        assert account(program, times) == account(folder)


def test_runs_without_a_program_are_refused(tmp_path):
    with Store(tmp_path) as store:
        store.add(run(40, 50, [("MatMul", 41, 49)]), "step")
    with pytest.raises(UnreadableFileError, match="holds runs alone"):
        account(tmp_path)


def test_several_programs_are_named(tmp_path):
    one, other = keras_like(tmp_path), keras_like(tmp_path)
    with pytest.raises(UnreadableFileError, match="holds 2 programs") as several:
        account(tmp_path)
    assert str(one) in str(several.value)
    assert account(other).whole_ns == 1000 * MS
