"""Random structured programs: branches and loops in each other give what plain Python gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope.tf1 as tf
from random_examples import examples
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime import plan

NAMES = "abc"
BIG = 1009

names = st.sampled_from(NAMES)
expressions = st.tuples(
    st.sampled_from(["+", "-", "*"]), names, st.one_of(names, st.integers(0, 9))
)
assignments = st.tuples(st.just("set"), names, expressions)
conditions = st.tuples(names, st.integers(2, 4))
"""(name, n): whether the name's value can be divided by n."""


def _blocks(inner: Any) -> Any:
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), conditions, block, block),
        st.tuples(st.just("while"), st.integers(0, 3), conditions, block),
    )


programs = st.lists(st.recursive(assignments, _blocks, max_leaves=8), min_size=1, max_size=4)


def value(state: dict[str, Any], expression: Any) -> Any:
    how, left, right = expression
    a = state[left]
    b = state[right] if isinstance(right, str) else right
    result = a + b if how == "+" else a - b if how == "-" else a * b
    return result % BIG


def in_python(program: Any, state: dict[str, int]) -> dict[str, int]:
    for kind, *rest in program:
        if kind == "set":
            name, expression = rest
            state = state | {name: value(state, expression)}
        elif kind == "if":
            (name, n), then, other = rest
            state = in_python(then if state[name] % n == 0 else other, state)
        else:
            most, (name, n), block = rest
            for _ in range(most):
                if state[name] % n == 0:
                    break
                state = in_python(block, state)
    return state


def in_graph(program: Any, state: dict[str, Any]) -> dict[str, Any]:
    for kind, *rest in program:
        if kind == "set":
            name, expression = rest
            state = state | {name: tf.identity(value(state, expression), name="set")}
        elif kind == "if":
            (name, n), then, other = rest
            results = tf.cond(
                tf.equal(state[name] % n, 0),
                lambda s=state, b=then: _values(in_graph(b, s)),
                lambda s=state, b=other: _values(in_graph(b, s)),
            )
            state = dict(zip(NAMES, results, strict=True))
        else:
            state = _loop(state, *rest)
    return state


def _loop(state: dict[str, Any], most: int, condition: Any, block: Any) -> dict[str, Any]:
    name, n = condition

    def goes_on(*values: Any) -> Any:
        return tf.not_equal(values[NAMES.index(name)] % n, 0)

    def body(*values: Any) -> Any:
        return _values(in_graph(block, dict(zip(NAMES, values, strict=True))))

    results = tf.while_loop(goes_on, body, _values(state), maximum_iterations=most)
    return dict(zip(NAMES, results, strict=True))


def _values(state: dict[str, Any]) -> list[Any]:
    return [tf.identity(state[name]) for name in NAMES]


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
