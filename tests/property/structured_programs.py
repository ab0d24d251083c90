"""Random structured programs, and what they compute in Python and in a graph."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import stepscope.tf1 as tf

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
                lambda s=state, b=then: values_of(in_graph(b, s)),
                lambda s=state, b=other: values_of(in_graph(b, s)),
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
        return values_of(in_graph(block, dict(zip(NAMES, values, strict=True))))

    results = tf.while_loop(goes_on, body, values_of(state), maximum_iterations=most)
    return dict(zip(NAMES, results, strict=True))


def values_of(state: dict[str, Any]) -> list[Any]:
    return [tf.identity(state[name]) for name in NAMES]
