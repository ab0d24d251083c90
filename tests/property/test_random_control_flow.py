"""Random structured programs: branches and loops in each other give what plain Python gives.

Some read and assign reference variables on the way, one statement after the other; and what
branches in branches compute is differentiated, as is, twice, what loops and branches in each other
compute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structured_programs import NAMES, in_graph, in_python, names, programs, value, values_of

import stepscope.tf1 as tf
from random_examples import examples
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime.plan import plan


@examples(40)
@given(program=programs, start=st.tuples(*[st.integers(0, 50)] * 3))
def test_structured_programs(program: Any, start: tuple[int, int, int]) -> None:
    expected = in_python(program, dict(zip(NAMES, start, strict=True)))
    with tf.Graph().as_default() as graph:
        feeds = {name: tf.placeholder(tf.int32, [], name=name) for name in NAMES}
        results = in_graph(program, dict(feeds))
        fed = {feeds[name]: number for name, number in zip(NAMES, start, strict=True)}
        fetches = {name: tf.identity(results[name]) for name in NAMES}
    for pooled in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            config = ConfigProto()
            if pooled:
                patch.setattr(plan, "EXPENSIVE_NS", -1)
                pools = [ThreadPoolOptionProto(num_threads=2)]
                config = ConfigProto(session_inter_op_thread_pool=pools)
            metadata = RunMetadata()
            with tf.Session(graph=graph, config=config) as session:
                found = session.run(
                    fetches, fed, options=RunOptions(trace_level=3), run_metadata=metadata
                )
        assert found == expected
        rows = metadata.allocations
        assert (rows.live() >= 0).all()
        assert set(rows.alive_at(len(rows) - 1).kind) <= {"feed"} if len(rows) else True


# -- reference variables -----------------------------------------------------------------------

VARIABLES = "uv"
places = st.sampled_from(NAMES + VARIABLES)
mixed = st.tuples(
    st.sampled_from(["+", "-", "*"]), places, st.one_of(places, st.integers(0, 9))
)  # fmt: skip
statements = st.one_of(
    st.tuples(st.just("set"), names, mixed),
    st.tuples(st.just("store"), st.sampled_from(VARIABLES), mixed),
)
tests = st.tuples(places, st.integers(2, 4))


def _stateful_blocks(inner: Any) -> Any:
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), tests, block, block),
        st.tuples(st.just("while"), st.integers(0, 3), tests, block),
    )


stateful = st.lists(
    st.recursive(statements, _stateful_blocks, max_leaves=6), min_size=1, max_size=4
)  # fmt: skip


def as_stores(program: Any) -> Any:
    """The same program for Python, which has one kind of name."""
    made: list[Any] = []
    for kind, *rest in program:
        if kind == "store":
            made.append(("set", *rest))
        elif kind == "if":
            test, then, other = rest
            made.append((kind, test, as_stores(then), as_stores(other)))
        elif kind == "while":
            most, test, block = rest
            made.append((kind, most, test, as_stores(block)))
        else:
            made.append((kind, *rest))
    return made


class Sequence:
    """Builds a program whose statements wait for each other; `done` is what there is so far."""

    def __init__(self, variables: dict[str, Any], values: dict[str, Any]) -> None:
        self.variables = variables
        self.values = values
        self.done: list[Any] = []

    def after(self, make: Any) -> Any:
        with tf.control_dependencies(self.done):
            made = make()
        self.done = [*self.done, made] if isinstance(made, (tf.Tensor, tf.Operation)) else made
        return made

    def state(self) -> dict[str, Any]:
        return {**self.values, **self.variables}

    def add(self, program: Any) -> Sequence:
        for kind, *rest in program:
            if kind == "set":
                name, expression = rest
                made = self.after(lambda e=expression: tf.identity(value(self.state(), e)))
                self.values = self.values | {name: made}
            elif kind == "store":
                name, expression = rest
                self.after(
                    lambda n=name, e=expression: tf.assign(
                        self.variables[n], value(self.state(), e)
                    )
                )
            elif kind == "if":
                self._take(self.after(lambda r=rest: self._branch(*r)))
            else:
                self._take(self.after(lambda r=rest: self._loop(*r)))
        return self

    def _take(self, results: Any) -> None:
        self.values = dict(zip(NAMES, results, strict=True))
        self.done = list(results)

    def _block(self, block: Any, values: dict[str, Any]) -> list[Any]:
        inside = Sequence(self.variables, values).add(block)
        with tf.control_dependencies(inside.done):
            return [tf.identity(inside.values[name]) for name in NAMES]

    def _branch(self, test: Any, then: Any, other: Any) -> Any:
        name, n = test
        before = self.values
        return tf.cond(
            tf.equal(self.state()[name] % n, 0),
            lambda: self._block(then, before),
            lambda: self._block(other, before),
        )

    def _loop(self, most: int, test: Any, block: Any) -> Any:
        name, n = test

        # An iteration begins with its first loop variable: that one waits for the whole block. (A
        # counter made by `maximum_iterations` would be the first, and waits for nothing.)
        def goes_on(*given: Any) -> Any:
            state = dict(zip(NAMES, given[:-1], strict=True)) | self.variables
            return tf.logical_and(given[-1] < most, tf.not_equal(state[name] % n, 0))

        def body(*given: Any) -> Any:
            values = self._block(block, dict(zip(NAMES, given[:-1], strict=True)))
            return [*values, given[-1] + 1]

        before = [tf.identity(self.values[name]) for name in NAMES]
        return tf.while_loop(goes_on, body, [*before, tf.constant(0)])[:-1]


@examples(40)
@given(program=stateful, start=st.tuples(*[st.integers(0, 50)] * 5))
def test_programs_that_assign_variables(program: Any, start: tuple[int, ...]) -> None:
    everything = NAMES + VARIABLES
    expected = in_python(as_stores(program), dict(zip(everything, start, strict=True)))
    with tf.Graph().as_default() as graph:
        feeds = {name: tf.placeholder(tf.int32, [], name=name) for name in NAMES}
        variables = {
            name: tf.Variable(number, dtype=tf.int32, use_resource=False, name=name)
            for name, number in zip(VARIABLES, start[3:], strict=True)
        }
        built = Sequence(variables, dict(feeds)).add(program)
        with tf.control_dependencies(built.done):
            fetches = {name: tf.identity(x) for name, x in built.state().items()}
        initializer = tf.global_variables_initializer()
    fed = {feeds[name]: number for name, number in zip(NAMES, start, strict=False)}
    for pooled in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            config = ConfigProto()
            if pooled:
                patch.setattr(plan, "EXPENSIVE_NS", -1)
                pools = [ThreadPoolOptionProto(num_threads=2)]
                config = ConfigProto(session_inter_op_thread_pool=pools)
            with tf.Session(graph=graph, config=config) as session:
                for trace_level in (0, 3):
                    session.run(initializer)
                    metadata = RunMetadata()
                    options = RunOptions(trace_level=trace_level)
                    found = session.run(fetches, fed, options=options, run_metadata=metadata)
                    assert found == expected
                    assert {n: session.run(v) for n, v in variables.items()} == {
                        n: expected[n] for n in VARIABLES
                    }


# -- gradients ---------------------------------------------------------------------------------

BRANCHES = st.recursive(
    st.one_of(st.sampled_from("xw"), st.floats(-2, 2, width=16)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+*"), inner, inner),
        st.tuples(st.just("if"), st.sampled_from("pqr"), inner, inner),
    ),
    max_leaves=10,
)


def slope(term: Any, at: dict[str, Any], name: str) -> tuple[float, float]:
    """The value of a term and its derivative, by the rules of school."""
    if isinstance(term, str):
        return at[term], float(term == name)
    if isinstance(term, float):
        return term, 0.0
    if term[0] == "if":
        return slope(term[2] if at[term[1]] else term[3], at, name)
    (a, da), (b, db) = slope(term[1], at, name), slope(term[2], at, name)
    return (a + b, da + db) if term[0] == "+" else (a * b, da * b + a * db)


def as_tensor(term: Any, at: dict[str, Any]) -> Any:
    if isinstance(term, str):
        return at[term]
    if isinstance(term, float):
        return tf.constant(term, tf.float64)
    if term[0] == "if":
        return tf.cond(
            at[term[1]], lambda: as_tensor(term[2], at), lambda: as_tensor(term[3], at)
        )  # fmt: skip
    a, b = as_tensor(term[1], at), as_tensor(term[2], at)
    return a + b if term[0] == "+" else a * b


@examples(40)
@given(term=BRANCHES, bits=st.tuples(*[st.booleans()] * 3), use_resource=st.booleans())
def test_gradients_through_branches_in_branches(
    term: Any, bits: tuple[bool, ...], use_resource: bool
) -> None:
    at: dict[str, Any] = {"x": 0.75, "w": -1.25, **dict(zip("pqr", bits, strict=True))}
    with tf.Graph().as_default() as graph:
        given_bits = {name: tf.placeholder(tf.bool, [], name=name) for name in "pqr"}
        x = tf.placeholder(tf.float64, [], name="x")
        w = tf.Variable(np.float64(at["w"]), use_resource=use_resource)
        result = as_tensor(term, {"x": x, "w": w, **given_bits}) + 0.0 * (x + w)
        gradients = tf.gradients(result, [x, w])
        initializer = tf.global_variables_initializer()
    fed = {x: at["x"], **{tensor: at[name] for name, tensor in given_bits.items()}}
    with tf.Session(graph=graph) as session:
        session.run(initializer)
        found = session.run([result, *gradients], fed)
    expected = [slope(term, at, "x")[0], slope(term, at, "x")[1], slope(term, at, "w")[1]]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# -- gradients through loops ---------------------------------------------------------------------

LEARNED = "xw"
terms = st.tuples(st.sampled_from("+*s"), *[st.sampled_from(NAMES + LEARNED)] * 2)
sets = st.tuples(st.just("set"), names, terms)


def _smooth_blocks(inner: Any) -> Any:
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), names, block, block),
        st.tuples(st.just("while"), st.integers(0, 3), block),
        st.tuples(st.just("array"), names, st.integers(1, 3), block),
    )


smooth = st.lists(st.recursive(sets, _smooth_blocks, max_leaves=6), min_size=1, max_size=3)


@dataclass(frozen=True)
class Jet:
    """A number with its first and second derivatives with respect to `LEARNED`."""

    v: float
    d: Any
    h: Any

    def __add__(self, other: Jet) -> Jet:
        return Jet(self.v + other.v, self.d + other.d, self.h + other.h)

    def __mul__(self, other: Jet) -> Jet:
        cross = np.outer(self.d, other.d)
        return Jet(
            self.v * other.v,
            self.d * other.v + self.v * other.d,
            self.h * other.v + cross + cross.T + self.v * other.h,
        )

    def sin(self) -> Jet:
        s, c = math.sin(self.v), math.cos(self.v)
        return Jet(s, c * self.d, c * self.h - s * np.outer(self.d, self.d))


def _half(a: Any) -> Any:
    return a * Jet(0.5, np.zeros(2), np.zeros((2, 2))) if isinstance(a, Jet) else a * 0.5


def _sin(a: Any) -> Any:
    return a.sin() if isinstance(a, Jet) else tf.sin(a)


def term_of(state: dict[str, Any], term: Any) -> Any:
    how, left, right = term
    a, b = state[left], state[right]
    return _half(a + b) if how == "+" else _sin(a * b) if how == "*" else _sin(a) + _half(b)


def jets(program: Any, state: dict[str, Any]) -> dict[str, Any]:
    for kind, *rest in program:
        if kind == "set":
            name, term = rest
            state = state | {name: term_of(state, term)}
        elif kind == "if":
            name, then, other = rest
            state = jets(then if state[name].v > 0.123456 else other, state)
        elif kind == "while":
            for _ in range(rest[0]):
                state = jets(rest[1], state)
        else:
            name, count, block = rest
            total = state[name]
            for _ in range(count):
                total = _half(total + state[name])
                state = jets(block, state)
            state = state | {name: total}
    return state


def smooth_graph(program: Any, state: dict[str, Any]) -> dict[str, Any]:
    learned = {name: state[name] for name in LEARNED}
    for kind, *rest in program:
        if kind == "set":
            name, term = rest
            state = state | {name: term_of(state, term)}
            continue
        if kind == "if":
            name, then, other = rest
            results = tf.cond(
                state[name] > 0.123456,
                lambda s=state, b=then: values_of(smooth_graph(b, s)),
                lambda s=state, b=other: values_of(smooth_graph(b, s)),
            )
        elif kind == "while":
            count, block = rest
            results = tf.while_loop(
                lambda i, *_, n=count: i < n,
                lambda i, *given, b=block: [i + 1, *_block(b, given, learned)],
                [tf.constant(0), *values_of(state)],
            )[1:]
        else:
            results = _through_array(state, learned, *rest)
        state = learned | dict(zip(NAMES, results, strict=True))
    return state


def _block(block: Any, given: Any, learned: dict[str, Any]) -> list[Any]:
    return values_of(smooth_graph(block, learned | dict(zip(NAMES, given, strict=True))))


def _through_array(
    state: dict[str, Any], learned: dict[str, Any], name: str, count: int, block: Any
) -> list[Any]:
    """A loop that writes what a name is to an array, and one that reads it again."""
    at = NAMES.index(name)

    def writes(i: Any, array: Any, *given: Any) -> Any:
        return [i + 1, array.write(i, given[at]), *_block(block, given, learned)]

    array = tf.TensorArray(tf.float64, count, element_shape=[])
    zero = tf.constant(0)
    _, array, *results = tf.while_loop(
        lambda i, *_: i < count, writes, [zero, array, *values_of(state)]
    )
    kept = tf.TensorArray(tf.float64, count).unstack(array.stack())
    _, total = tf.while_loop(
        lambda i, _: i < count, lambda i, t: [i + 1, _half(t + kept.read(i))], [zero, state[name]]
    )
    results[at] = total
    return results


@examples(60)
@given(program=smooth, use_resource=st.booleans(), pooled=st.booleans())
def test_first_and_second_derivatives_through_loops(
    program: Any, use_resource: bool, pooled: bool
) -> None:
    numbers = {"a": 0.5, "b": -0.25, "c": 1.5, "x": 0.75, "w": -1.25}
    parts = {
        name: Jet(v, np.array([name == "x", name == "w"], float), np.zeros((2, 2)))
        for name, v in numbers.items()
    }
    expected = jets(program, parts)
    with tf.Graph().as_default() as graph:
        state = {n: tf.constant(numbers[n], tf.float64) for n in NAMES}
        x = tf.placeholder(tf.float64, [], name="x")
        w = tf.Variable(np.float64(numbers["w"]), use_resource=use_resource)
        made = smooth_graph(program, state | {"x": x, "w": w})
        result = tf.add_n(values_of(made)) + 0.0 * (x + w) * (x + w)
        slopes = tf.gradients(result, [x, w])
        bends = [tf.gradients(slope, [x, w]) for slope in slopes]
        initializer = tf.global_variables_initializer()
    total = expected["a"] + expected["b"] + expected["c"]
    config = ConfigProto()
    if pooled:
        config = ConfigProto(session_inter_op_thread_pool=[ThreadPoolOptionProto(num_threads=2)])
    with tf.Session(graph=graph, config=config) as session:
        session.run(initializer)
        found = session.run([result, slopes, bends], {x: numbers["x"]})
    np.testing.assert_allclose(found[0], total.v, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], total.d, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[2], total.h, rtol=1e-9, atol=1e-9)
