"""Datasets against real TensorFlow, element by element, and what an iterator promises."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as ours
from patience import patient
from stepscope import errors
from stepscope.graph import Graph, import_graph_def
from stepscope.runtime import Session

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
sys.path.insert(0, str(Path(__file__).parents[1] / "ops" / "data"))

from cases_data import PIPELINES, leaves
from op_cases import assert_same_value

MOST = 200


def taken(session: Any, element: Any, end: type[BaseException]) -> list[list[Any]]:
    """All elements until the end, as lists of their components."""
    found = []
    for _ in range(MOST):
        try:
            found.append(leaves(session.run(element)))
        except end:
            return found
    raise AssertionError(f"more than {MOST} elements")


def all_of(tf: Any, build: Any) -> tuple[list[list[Any]], Any]:
    """The elements by an initializable iterator, twice over; and the types and shapes."""
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = build(tf)
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        found = []
        for _ in range(2):
            session.run(iterator.initializer)
            found += taken(session, element, tf.errors.OutOfRangeError)
        shapes = [
            s.rank is not None and s.as_list() for s in leaves(tf.data.get_output_shapes(dataset))
        ]
        types = [t.name for t in leaves(tf.data.get_output_types(dataset))]
    return found, (types, shapes)


def assert_same_elements(mine: list[list[Any]], theirs: list[list[Any]]) -> None:
    assert len(mine) == len(theirs)
    for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        for part, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same_value(a, b, 1e-6, f"element {number}, component {part}")


@pytest.mark.parametrize("name", PIPELINES)
def test_has_tensorflows_elements(tf: Any, name: str) -> None:
    expected, structure = all_of(tf.compat.v1, PIPELINES[name])
    found, own_structure = all_of(ours, PIPELINES[name])
    assert own_structure == structure
    assert_same_elements(found, expected)


@pytest.mark.parametrize("name", ["all at once", "flat_map", "map/loop", "shuffle/again", "zip"])
def test_a_graph_of_tensorflows_runs_here(tf: Any, name: str) -> None:
    graph = tf.Graph()
    v1 = tf.compat.v1
    with graph.as_default(), v1.Session() as session:
        element = leaves(v1.data.make_one_shot_iterator(PIPELINES[name](v1)).get_next())
        names = [t.name for t in element]
        expected = taken(session, tuple(element), tf.errors.OutOfRangeError)
    with Graph().as_default() as own:
        import_graph_def(graph.as_graph_def(), name="")
        with Session() as session:
            element = tuple(own.get_tensor_by_name(n) for n in names)
            assert_same_elements(taken(session, element, errors.OutOfRangeError), expected)


@pytest.mark.parametrize("name", ["all at once", "flat_map", "map/captured", "shuffle/again"])
def test_a_graph_of_ours_runs_on_tensorflow(tf: Any, name: str) -> None:
    with Graph().as_default() as graph, Session() as session:
        element = leaves(ours.data.make_one_shot_iterator(PIPELINES[name](ours)).get_next())
        names = [t.name for t in element]
        expected = taken(session, tuple(element), errors.OutOfRangeError)
        message = graph.as_graph_def().SerializeToString()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as theirs, v1.Session() as session:
        v1.import_graph_def(v1.GraphDef.FromString(message), name="")
        element = tuple(theirs.get_tensor_by_name(n) for n in names)
        assert_same_elements(taken(session, element, tf.errors.OutOfRangeError), expected)


# -- iterators ---------------------------------------------------------------------------------


@pytest.fixture
def session() -> Any:
    with Graph().as_default(), Session() as made:
        yield made


def numbers(count: int) -> Any:
    return ours.data.Dataset.range(count)


def values(session: Any, element: Any) -> list[Any]:
    return [parts[0] for parts in taken(session, element, errors.OutOfRangeError)]


def test_a_fed_dataset_begins_with_what_is_fed(session: Any) -> None:
    given = ours.placeholder(ours.int32, [None])
    iterator = ours.data.Dataset.from_tensor_slices(given).make_initializable_iterator()
    element = iterator.get_next()
    array = np.array([4, 5], np.int32)
    session.run(iterator.initializer, {given: array})
    array[:] = 0  # what was fed was borrowed
    assert values(session, element) == [4, 5]
    session.run(iterator.initializer, {given: [7]})
    assert values(session, element) == [7]


def test_one_iterator_for_two_datasets(session: Any) -> None:
    iterator = ours.data.Iterator.from_structure(ours.int64, ours.TensorShape([]))
    training, testing = map(iterator.make_initializer, (numbers(3), numbers(2).map(lambda x: -x)))
    element = iterator.get_next()
    session.run(training)
    assert session.run(element) == 0
    session.run(testing)
    assert values(session, element) == [0, -1]


def test_a_handle_that_is_fed_says_which_iterator(session: Any) -> None:
    handle = ours.placeholder(ours.string, [])
    element = ours.data.Iterator.from_string_handle(handle, ours.int64, []).get_next()
    one = numbers(3).make_one_shot_iterator()
    other = numbers(9).skip(5).make_initializable_iterator()
    session.run(other.initializer)
    first, second = session.run([one.string_handle(), other.string_handle()])
    assert [session.run(element, {handle: h}) for h in (first, second, first)] == [0, 5, 1]
    with pytest.raises(errors.InvalidArgumentError, match="handle of no iterator"):
        session.run(element, {handle: b"another"})


def test_each_session_has_its_own_place(session: Any) -> None:
    element = numbers(5).make_one_shot_iterator().get_next()
    session.run(element)
    with Session(graph=session.graph) as other:
        assert other.run(element) == 0
    assert session.run(element) == 1


def test_what_was_fetched_belongs_to_the_user(session: Any) -> None:
    rows = np.arange(6.0).reshape(3, 2)
    element = ours.data.Dataset.from_tensor_slices(rows).cache().repeat(2).make_one_shot_iterator()
    element = element.get_next()
    for _ in range(3):
        session.run(element)[:] = -1
    assert [v.tolist() for v in values(session, element)] == rows.tolist()


def test_a_variable_in_a_function_is_read_when_it_is_called(session: Any) -> None:
    factor = ours.get_variable("factor", initializer=2, use_resource=True, dtype=ours.int32)
    dataset = ours.data.Dataset.from_tensor_slices([1, 2, 3]).map(lambda x: x * factor)
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    session.run(ours.global_variables_initializer())
    session.run(iterator.initializer)
    assert session.run(element) == 2
    session.run(factor.assign(10))
    assert session.run(element) == 20


def test_an_error_in_one_element_leaves_the_others(session: Any) -> None:
    for calls in (None, 2):
        dataset = ours.data.Dataset.from_tensor_slices([1.0, 0.0, 4.0])
        dataset = dataset.map(lambda x: ours.check_numerics(1 / x, "inverse"), calls)
        element = dataset.make_one_shot_iterator().get_next()
        assert session.run(element) == 1
        with pytest.raises(errors.InvalidArgumentError, match="inverse") as error:
            session.run(element)
        assert "CheckNumerics" in str(error.value)
        assert session.run(element) == 0.25


def slow(event: threading.Event, calls: int | None = None) -> Any:
    """A dataset whose third element comes when the event is set."""

    def wait(x: Any) -> Any:
        if x == 2:
            assert event.wait(patient(60))
        return x

    return numbers(9).map(lambda x: ours.py_func(wait, [x], ours.int64), calls)


@pytest.mark.parametrize("make", [
    lambda event: slow(event).prefetch(1), lambda event: slow(event, 2),
    lambda event: slow(event).map(lambda x: x + 0, 1).prefetch(2),
], ids=["prefetch", "parallel", "both"])  # fmt: skip
def test_a_deadline_ends_the_wait_and_loses_no_element(session: Any, make: Any) -> None:
    event = threading.Event()
    element = make(event).make_one_shot_iterator().get_next("take")
    assert [session.run(element) for _ in range(2)] == [0, 1]
    with pytest.raises(errors.DeadlineExceededError) as error:
        session.run(element, options=ours.RunOptions(timeout_in_ms=50))
    assert error.value.run_metadata.status.in_flight == ["take"]
    event.set()
    assert values(session, element) == [2, 3, 4, 5, 6, 7, 8]


def test_closing_the_session_ends_the_threads_of_its_stages() -> None:
    with Graph().as_default():
        element = numbers(10**6).map(lambda x: x + 1, 3).prefetch(4).make_one_shot_iterator()
        element = element.get_next()
        before = set(threading.enumerate())
        session = Session()
        session.run(element)
        working = [
            t for t in threading.enumerate()
            if t not in before and t.name.startswith("stepscope/data/")
        ]  # fmt: skip
        assert len(working) == 4
        session.close()
    for thread in working:
        thread.join(patient(20))
        assert not thread.is_alive()


def test_a_run_that_waits_is_ended_by_closing_the_session() -> None:
    event = threading.Event()
    with Graph().as_default():
        element = slow(event).prefetch(1).make_one_shot_iterator().get_next()
        session = Session()
        [session.run(element) for _ in range(2)]
        failures: list[BaseException] = []

        def take() -> None:
            try:
                session.run(element)
            except BaseException as error:  # noqa: BLE001 - looked at below
                failures.append(error)

        thread = threading.Thread(target=take)
        thread.start()
        while not session._active:
            threading.Event().wait(0.001)
        session.close()
        thread.join(patient(20))
        event.set()
    assert isinstance(failures[0], errors.CancelledError)


def test_what_waits_in_buffers_is_held_memory() -> None:
    rows = np.zeros((64, 250), np.float32)
    with Graph().as_default():
        dataset = ours.data.Dataset.from_tensor_slices(rows).map(lambda x: x + 1).shuffle(16)
        element = dataset.make_one_shot_iterator().get_next()
        with Session() as session:
            session.run(element)
            held = session._resources.holdings()
            assert {h.kind for h in held} == {"iterator"}
            assert sum(h.bytes for h in held) == 15 * 1000
            device = session.list_devices()[0].name
            assert session._resources.held.on(device) == 15 * 1000
            taken(session, element, errors.OutOfRangeError)
            assert session._resources.held.on(device) == 0


def test_a_buffer_above_the_limit_is_an_error_that_names_the_stage() -> None:
    config = ours.ConfigProto()
    config.memory_limit_bytes[""] = 100_000
    with Graph().as_default():
        rows = ours.data.Dataset.from_tensor_slices(np.zeros((64, 5000), np.float32))
        element = rows.shuffle(32).make_one_shot_iterator().get_next()
        exhausted = pytest.raises(errors.ResourceExhaustedError, match="ShuffleDataset")
        with Session(config=config) as session, exhausted:
            session.run(element)


def test_a_function_above_the_limit_is_an_error_that_names_its_op() -> None:
    config = ours.ConfigProto()
    config.memory_limit_bytes[""] = 100_000
    with Graph().as_default():
        rows = ours.data.Dataset.range(4).map(
            lambda x: ours.reduce_sum(ours.fill([300, 300], x, name="large"))
        )
        element = rows.make_one_shot_iterator().get_next()
        exhausted = pytest.raises(errors.ResourceExhaustedError, match="large")
        with Session(config=config) as session, exhausted:
            session.run(element)


def test_python_does_not_iterate_over_a_dataset() -> None:
    with Graph().as_default(), pytest.raises(RuntimeError, match="make_one_shot_iterator"):
        list(numbers(3))


def test_a_cache_in_a_file_says_what_to_do(session: Any, tmp_path: Path) -> None:
    element = numbers(3).cache(str(tmp_path / "kept")).make_one_shot_iterator().get_next()
    with pytest.raises(errors.UnimplementedError, match="leave the file name out"):
        session.run(element)
