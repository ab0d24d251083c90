"""Every op type against real TensorFlow: the graph it makes, its shapes, dtypes and values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from op_cases import OURS, Case, all_cases, assert_same_value, evaluate, flatten, is_pure

from stepscope.errors import OpError
from stepscope.graph.graph import Graph
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import registered
from stepscope.runtime import Session

CASES = all_cases()
GOOD = [c for c in CASES if not c.fails]
BAD = [c for c in CASES if c.fails]


def by_id(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=lambda c: c.id)


def built_by_us(case: Case) -> tuple[Graph, list[Any]]:
    graph = Graph()
    with graph.as_default():
        return graph, with_initializer(case, OURS)


def built_by_tensorflow(tf: Any, case: Case) -> tuple[Any, list[Any]]:
    graph = tf.Graph()
    with graph.as_default():
        return graph, with_initializer(case, tf.compat.v1)


def with_initializer(case: Case, tf: Any) -> list[Any]:
    """What the case fetches; the initializer of its variables is last where there is one."""
    fetches = flatten(case.build(tf))
    return [*fetches, tf.global_variables_initializer()] if case.init else fetches


def run_in(session: Any, case: Case, fetches: list[Any]) -> list[Any]:
    if case.init:
        *fetches, initializer = fetches
        session.run(initializer)
    values: list[Any] = session.run(fetches, dict(case.feeds))
    return values


def test_ids_are_unique() -> None:
    assert [i for i, n in Counter(c.id for c in CASES).items() if n > 1] == []


def test_every_op_type_has_a_row() -> None:
    covered = {name for case in GOOD for name in case.op_types}
    # Names with an underscore in front are the engine's own nodes.
    missing = [t.name for t in registered() if t.name not in covered and t.name[0] != "_"]
    assert missing == [], "add a row to the family's cases_*.py"


@by_id(GOOD)
def test_makes_the_same_nodes(tf: Any, case: Case) -> None:
    theirs, expected = built_by_tensorflow(tf, case)
    ops = {op.type for op in theirs.get_operations()}
    library = theirs.as_graph_def().library.function
    ops |= {node.op for function in library for node in function.node_def}
    assert set(case.op_types) <= ops, f"the row claims {case.op_types}, TensorFlow built {ops}"
    ours, found = built_by_us(case)
    assert [getattr(t, "dtype", None) for t in found] == [
        getattr(t, "dtype", None) for t in expected
    ]
    if not case.graph:
        return
    assert [t.name for t in found] == [t.name for t in expected]
    message = tf.compat.v1.GraphDef.FromString(ours.as_graph_def().SerializeToString())
    their_nodes = {n.name: n for n in theirs.as_graph_def().node}
    our_nodes = {n.name: n for n in message.node}
    assert list(our_nodes) == list(their_nodes)
    for name, node in their_nodes.items():
        ours_node = our_nodes[name]
        assert (ours_node.op, list(ours_node.input)) == (node.op, list(node.input)), name
        assert public_attrs(tf, ours_node) == public_attrs(tf, node), name


def public_attrs(tf: Any, node: Any) -> dict[str, Any]:
    result = {}
    for name, value in node.attr.items():
        if not name.startswith("_"):
            if value.WhichOneof("value") == "tensor":
                array = tf.make_ndarray(value.tensor)
                result[name] = (str(array.dtype), array.shape, array.tobytes())
                if array.dtype == object:
                    result[name] = (str(array.dtype), array.shape, array.reshape(-1).tolist())
            elif value.WhichOneof("value") == "func":
                result[name] = "a function"  # each engine names those of users in its own way
            else:
                result[name] = str(value)
    return result


@by_id(GOOD)
def test_knows_the_same_static_shapes(tf: Any, case: Case) -> None:
    _, expected = built_by_tensorflow(tf, case)
    _, found = built_by_us(case)
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(ours, Tensor):
            rank = theirs.shape.rank
            assert str(ours.shape.axes) == str(None if rank is None else tuple(theirs.shape))


@by_id(GOOD)
def test_gives_the_same_values(tf: Any, case: Case) -> None:
    theirs, tensors = built_by_tensorflow(tf, case)
    with tf.compat.v1.Session(graph=theirs) as session:
        expected = run_in(session, case, tensors)
    graph, fetches = built_by_us(case)
    with Session(graph=graph) as session:
        found = run_in(session, case, fetches)
    assert_agree(case, found, expected)
    if is_pure(fetches):
        assert_agree(case, evaluate(graph, fetches, case.feeds), expected)


def assert_agree(case: Case, found: list[Any], expected: list[Any]) -> None:
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if case.values or theirs is None:
            assert_same_value(ours, theirs, case.tol, f"fetch {i}")
        else:
            assert np.shape(ours) == np.shape(theirs)
            texts = isinstance(theirs, bytes)
            assert texts or np.asarray(ours).dtype == np.asarray(theirs).dtype


@by_id(BAD)
def test_refuses_what_tensorflow_refuses(tf: Any, case: Case) -> None:
    theirs = tf.Graph()
    with theirs.as_default():
        if case.fails == "build":
            with pytest.raises((ValueError, TypeError, tf.errors.OpError)) as their_error:
                case.build(tf.compat.v1)
        else:
            fetches = flatten(case.build(tf.compat.v1))
            with tf.compat.v1.Session() as session, pytest.raises(tf.errors.OpError):
                session.run(fetches, dict(case.feeds))
    graph = Graph()
    with graph.as_default():
        if case.fails == "build":
            with pytest.raises(type_of_same_name(their_error.type)) as error:
                case.build(OURS)
        else:
            fetches = flatten(case.build(OURS))
            with Session(graph=graph) as session, pytest.raises(OpError) as error:
                session.run(fetches, dict(case.feeds))
    assert case.match in str(error.value)


def type_of_same_name(error: type[BaseException]) -> type[BaseException]:
    import stepscope.errors

    return getattr(stepscope.errors, error.__name__, error)
