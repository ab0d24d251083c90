"""Runs that are fed and fetched in several calls, beside real TensorFlow's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1
from stepscope.errors import InvalidArgumentError


@pytest.fixture(params=["stepscope", pytest.param("tensorflow", marks=pytest.mark.tensorflow)])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One engine after the other under the same test, in a graph of its own."""
    found = tf1
    if request.param == "tensorflow":
        found = request.getfixturevalue("tf").compat.v1
    with warnings.catch_warnings(), found.Graph().as_default():
        warnings.simplefilter("ignore")
        yield found


def numbers(tf: Any) -> list[Any]:
    a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
    first = tf.add(a, b, name="first")
    return [a, b, c, first, tf.multiply(first, c, name="second")]


def wrong(tf: Any, *args: str) -> Any:
    return pytest.raises(tf.errors.InvalidArgumentError, match="|".join(args))


def test_a_run_goes_on_from_what_it_knows(engine: Any) -> None:
    a, b, c, first, second = numbers(engine)
    with engine.Session() as session:
        handle = session.partial_run_setup([first, second], [a, b, c])
        assert session.partial_run(handle, first, {a: 1, b: 2}) == 3
        assert session.partial_run(handle, {"found": second}, {"c:0": 4}) == {"found": 12}
        with wrong(engine, "Must run 'setup' before performing partial runs!"):
            session.partial_run(handle, second, {c: 4})
        with wrong(engine, "Must run 'setup'"):
            session.partial_run("nothing", second)


def test_what_is_asked_for_wrongly_leaves_the_run_as_it_was(engine: Any) -> None:
    a, b, c, first, second = numbers(engine)
    with engine.Session() as session:
        handle = session.partial_run_setup([first, second], [a, b, c])
        with wrong(engine, "can't be computed from the feeds that have been fed so far"):
            session.partial_run(handle, second, {a: 1, b: 2})
        assert session.partial_run(handle, [], {a: 1}) == []
        with wrong(engine, "The feed a:0 has already been fed."):
            session.partial_run(handle, first, {a: 1, b: 2})
        assert session.partial_run(handle, first, {b: 2}) == 3
        with wrong(engine, "The fetch first:0 has already been fetched."):
            session.partial_run(handle, first)
        with wrong(engine, "The fetch a:0 was not specified in partial_run_setup."):
            session.partial_run(handle, a)
        with wrong(engine, "The feed first:0 was not specified in partial_run_setup."):
            session.partial_run(handle, [], {first: 1})
        assert session.partial_run(handle, second, {c: 2}) == 6
        with wrong(engine, "a:0 is both fed and fetched."):
            session.partial_run_setup([a, first], [a, b])
        with wrong(engine, "."):
            session.partial_run_setup([], [a])
        with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
            session.partial_run_setup(["nothing:0"], [a])


def test_an_op_executes_once(engine: Any) -> None:
    a, b, *_ = numbers(engine)
    count = engine.get_variable("count", [], engine.float32, engine.zeros_initializer())
    more = engine.assign_add(count, 1.0)
    chance = engine.random_uniform([3])
    with engine.control_dependencies([more]):
        one, other = chance + a, chance * 1.0 + b
    with engine.Session() as session:
        session.run(engine.global_variables_initializer())
        handle = session.partial_run_setup([one, other, more], [a, b])
        before = session.partial_run(handle, one, {a: 0})
        after = session.partial_run(handle, [other, more], {b: 0})
        np.testing.assert_array_equal(before, after[0])
        assert after[1] == session.run(count) == 1


def test_ops_execute_and_are_not_fetched(engine: Any) -> None:
    a, b, _, first, _ = numbers(engine)
    count = engine.get_variable("count", [], engine.float32, engine.zeros_initializer())
    more = engine.assign_add(count, a).op
    with engine.Session() as session:
        session.run(engine.global_variables_initializer())
        handle = session.partial_run_setup([first, more], [a, b])
        with pytest.raises(RuntimeError, match="requires empty `target_list`"):
            session.partial_run(handle, more, {a: 1})
        assert session.partial_run(handle, first, {a: 5, b: 1}) == 6
        assert session.run(count) == 5


def test_branches_and_loops(engine: Any) -> None:
    a, b, _, first, _ = numbers(engine)
    grown = engine.while_loop(lambda n: n < 10, lambda n: n + a, [a])
    picked = engine.cond(a > 1, lambda: a * b, lambda: a + grown)
    with engine.Session() as session:
        handle = session.partial_run_setup([grown, picked, first], [a, b])
        assert session.partial_run(handle, grown, {a: 4}) == 12
        assert session.partial_run(handle, [picked, first], {b: 3}) == [12, 7]


def test_what_was_returned_belongs_to_the_caller() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        a, b = tf1.placeholder(tf1.float32, [2]), tf1.placeholder(tf1.float32, [2])
        one = a + 1
        two = one + a + b
        handle = session.partial_run_setup([one, two], [a, b])
        fed = np.zeros(2, "float32")
        found = session.partial_run(handle, one, {a: fed})
        found[:], fed[:] = 77, 77
        assert session.partial_run(handle, two, {b: [0, 0]}).tolist() == [1, 1]


def test_an_error_of_an_op_ends_the_run() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        a, b = tf1.placeholder(tf1.float32, []), tf1.placeholder(tf1.float32, [])
        checked = tf1.check_numerics(a, "not a number here")
        handle = session.partial_run_setup([checked, b + 1], [a, b])
        with pytest.raises(InvalidArgumentError, match="not a number here"):
            session.partial_run(handle, checked, {a: np.nan})
        with pytest.raises(InvalidArgumentError, match="Must run 'setup'"):
            session.partial_run(handle, checked, {a: 1})
