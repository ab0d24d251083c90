"""The storage of variables: what a reader holds never changes, and no update is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from patience import patient
from stepscope.errors import FailedPreconditionError, InvalidArgumentError
from stepscope.graph.dtypes import float32, int64, string
from stepscope.graph.graph import Graph, GraphKeys
from stepscope.ops.state import variable_collections as variables
from stepscope.ops.state.variable_cells import VariableCell
from stepscope.runtime import Session


def cell_with(value: object, dtype: object = float32) -> VariableCell:
    cell = VariableCell("v", dtype)
    cell.assign(value)
    return cell


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001 - shown below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(60))
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_reading_before_the_first_assignment_names_the_variable() -> None:
    cell = VariableCell("layer/w", float32)
    assert (cell.initialized, cell.nbytes) == (False, 0)
    for use in (cell.read, lambda: cell.assign_add(np.float32(1)), lambda: cell.modify(print)):
        with pytest.raises(FailedPreconditionError) as error:
            use()
        assert error.value.message == "Attempting to use uninitialized value layer/w"


def test_a_value_that_was_read_stays_as_it_was() -> None:
    cell = cell_with([1.0, 2.0, 3.0])
    before = cell.read()
    view = cell.read()[1:]
    cell.assign_add(np.ones(3, np.float32))
    after_add = cell.read()
    cell.assign([7.0, 8.0, 9.0])
    cell.modify(lambda array: array.fill(0))
    assert before.tolist() == [1, 2, 3]
    assert view.tolist() == [2, 3]
    assert after_add.tolist() == [2, 3, 4]
    assert cell.read().tolist() == [0, 0, 0]


def test_a_view_alone_keeps_its_array_from_being_written() -> None:
    cell = cell_with([1.0, 2.0, 3.0])
    view = cell.read()[::2]
    memory = memoryview(cell.read())
    cell.assign_sub(np.ones(3, np.float32))
    assert view.tolist() == [1, 3]
    assert memory.tolist() == [1, 2, 3]


def test_a_value_nobody_holds_is_updated_in_place() -> None:
    cell = cell_with(np.zeros(1000))
    first = address(cell.read())
    cell.assign_add(np.ones(1000, np.float32))
    cell.assign_sub(np.full(1000, 3, np.float32))
    cell.assign(cell.read() * 2)
    cell.modify(lambda array: np.negative(array, out=array))
    assert address(cell.read()) == first
    assert cell.read().tolist() == [4.0] * 1000


def test_what_is_assigned_is_copied() -> None:
    given = np.array([1.0, 2.0], np.float32)
    cell = cell_with(given)
    given[:] = 9
    assert cell.read().tolist() == [1, 2]
    cell.assign(given)
    given[:] = 0
    assert cell.read().tolist() == [9, 9]


def test_a_variable_assigned_from_a_view_of_itself() -> None:
    cell = cell_with([1.0, 2.0, 3.0])
    cell.assign(cell.read()[::-1])
    assert cell.read().tolist() == [3, 2, 1]


def test_the_stored_array_is_read_only() -> None:
    cell = cell_with([1.0])
    cell.assign_add(np.ones(1, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        cell.read()[0] = 5


def test_a_failed_update_leaves_the_value() -> None:
    cell = cell_with([1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match=r"shape \[2\] using a Tensor with shape \[3\]"):
        cell.assign_add(np.ones(3, np.float32))

    def fail(_array: np.ndarray) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cell.modify(fail)
    assert cell.read().tolist() == [1, 2]
    assert not cell.read().flags.writeable


def test_scalars_and_strings() -> None:
    counter = cell_with(3, int64)
    counter.assign_add(np.int64(4))
    assert counter.read() == 7
    assert counter.read().dtype == np.int64
    texts = cell_with(np.array([b"a", b"b\0"], object), string)
    assert texts.read().tolist() == [b"a", b"b\0"]


def test_adding_from_many_threads_is_exact_and_no_reader_sees_half_of_it() -> None:
    cell = cell_with(np.zeros(256), int64)
    one = np.ones(256, np.int64)
    torn: list[np.ndarray] = []

    def work(i: int) -> None:
        for _ in range(500):
            if i % 2:
                cell.assign_add(one)
            else:
                seen = cell.read()
                kept = seen.copy()
                if seen.min() != seen.max() or not np.array_equal(seen, kept):
                    torn.append(seen)

    in_threads(8, work)
    assert torn == []
    assert cell.read().tolist() == [4 * 500] * 256


# -- in a session --------------------------------------------------------------------------------


def test_counts_of_many_runs_are_exact() -> None:
    graph = Graph()
    with graph.as_default():
        reference = variables.Variable(0, name="a")
        handle = variables.Variable([0.0, 0.0], name="b", use_resource=True)
        ops = [reference.assign_add(1).op, handle.assign_add([1.0, 2.0], read_value=False)]
        with Session(graph=graph) as session:
            session.run(variables.global_variables_initializer())
            in_threads(8, lambda _i: [session.run(ops) for _ in range(50)])
            counted, pair = session.run([reference, handle])
    assert counted == 400
    assert pair.tolist() == [400, 800]


def test_a_fetched_value_is_the_users_own() -> None:
    graph = Graph()
    with graph.as_default():
        v = variables.Variable([1.0, 2.0])
        w = variables.Variable([1.0, 2.0], use_resource=True)
        updates = [v.assign_add([1.0, 1.0]).op, w.assign_add([1.0, 1.0], read_value=False)]
        with Session(graph=graph) as session:
            session.run(variables.global_variables_initializer())
            fetched = session.run([v, v.value(), w, w.value()])
            session.run(updates)
            assert [f.tolist() for f in fetched] == [[1, 2]] * 4
            for array in fetched:
                array[:] = 100
            assert [f.tolist() for f in session.run([v, w])] == [[2, 3]] * 2


def test_sessions_do_not_share_variables_and_loading_sets_one() -> None:
    graph = Graph()
    with graph.as_default():
        v = variables.Variable([1.0, 2.0])
        with Session(graph=graph) as one, Session(graph=graph) as two:
            one.run(v.initializer)
            v.load([5.0, 6.0], one)
            assert v.eval(one).tolist() == [5, 6]
            with pytest.raises(FailedPreconditionError):
                two.run(v)


def test_collections() -> None:
    with Graph().as_default():
        a = variables.Variable(1.0, name="a")
        b = variables.Variable(1.0, name="b", trainable=False)
        c = variables.Variable(1.0, collections=[GraphKeys.LOCAL_VARIABLES], trainable=False)
        assert variables.global_variables() == [a, b]
        assert variables.trainable_variables() == [a]
        assert variables.local_variables() == [c]
        assert variables.global_variables("b") == [b]


def test_an_operator_of_a_variable_and_a_tensor() -> None:
    graph = Graph()
    with graph.as_default():
        v = variables.Variable([1.0, 2.0])
        with Session(graph=graph) as session:
            session.run(v.initializer)
            assert session.run(v.value() * v).tolist() == [1, 4]
            assert session.run([v, v][1] - [1.0, 0.0]).tolist() == [0, 2]
    with pytest.raises(TypeError, match="truth value"):
        bool(v)
