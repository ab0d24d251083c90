"""Gradients through every row of the op tables against TensorFlow's, and which ops have one.

Each row's floating-point results are differentiated with respect to its floating-point constants,
placeholders and variables, weighted by a function of the results themselves so that no two
elements count alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import OURS, Case, all_cases, assert_same_value, evaluate, flatten, is_pure

from stepscope.graph.graph import Graph
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.registry import registered
from stepscope.ops.flow.gradients import as_dense
from stepscope.runtime import Session

ROWS = [c for c in all_cases() if not c.fails and c.grad]
# Loops have gradients as a whole; a graph that was imported knows no loops.
LOOPS = {
    f"{prefix}{name}"
    for prefix in ("", "Ref")
    for name in ("Enter", "Exit", "LoopCond", "NextIteration")
} | {"RefMerge", "RefSwitch"}
SOURCES = ("Const", "Placeholder", "PlaceholderWithDefault")


def is_float(tensor: Any) -> bool:
    dtype = getattr(tensor, "dtype", None)
    return dtype is not None and (dtype.base_dtype.is_floating or dtype.base_dtype.is_complex)


def differentiated(tf: Any, case: Case, graph: Any) -> tuple[list[Any], list[Any]]:
    """What the gradients are taken of and with respect to."""
    results = [t for t in flatten(case.build(tf)) if is_float(t)]
    if not results:
        return [], []
    causes = [
        t
        for op in graph.get_operations()
        if op.type in SOURCES and graph.is_fetchable(op)
        for t in op.outputs
        if is_float(t)
    ]
    return results, [*causes, *[v for v in tf.trainable_variables() if is_float(v)]]


def weights(tf: Any, results: list[Any]) -> list[Any]:
    return [y if y.dtype.base_dtype.is_complex else y / (abs(y) + 1) + 0.5 for y in results]


def gradients_by_us(case: Case) -> tuple[Graph, dict[str, Any], list[Any]]:
    """Our gradients by the name of the cause, and the initializer where there is one."""
    graph = Graph()
    with graph.as_default():
        results, causes = differentiated(OURS, case, graph)
        found = OURS.gradients(results, causes, weights(OURS, results)) if causes else []
        dense = [as_dense(g) if isinstance(g, IndexedSlices) else g for g in found]
        return graph, by_name(causes, dense), initializer(OURS, case)


def gradients_by_tensorflow(tf: Any, case: Case) -> tuple[Any, dict[str, Any], list[Any]]:
    graph = tf.Graph()
    with graph.as_default():
        v1 = tf.compat.v1
        results, causes = differentiated(v1, case, graph)
        found = v1.gradients(results, causes, weights(v1, results)) if causes else []
        dense = [g if g is None else tf.convert_to_tensor(g) for g in found]
        return graph, by_name(causes, dense), initializer(v1, case)


def by_name(causes: list[Any], found: list[Any]) -> dict[str, Any]:
    return {x.name: g for x, g in zip(causes, found, strict=True) if g is not None}


def initializer(tf: Any, case: Case) -> list[Any]:
    return [tf.global_variables_initializer()] if case.init else []


def values_of(session: Any, case: Case, found: dict[str, Any], first: list[Any]) -> dict[str, Any]:
    if first:
        session.run(first)
    values: dict[str, Any] = session.run(found, dict(case.feeds))
    return values


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
@pytest.mark.parametrize("case", ROWS, ids=lambda c: c.id)
def test_gives_the_same_gradients(tf: Any, case: Case) -> None:
    try:
        ours, found, first = gradients_by_us(case)
    except LookupError:
        with pytest.raises(LookupError, match=r"(?i)gradient"):
            gradients_by_tensorflow(tf, case)
        return
    theirs, their_gradients, their_first = gradients_by_tensorflow(tf, case)
    assert list(found) == list(their_gradients)
    if not found:
        return
    with tf.compat.v1.Session(graph=theirs) as session:
        expected = values_of(session, case, their_gradients, their_first)
    with Session(graph=ours) as session:
        assert_agree(case, values_of(session, case, found, first), expected)
    tensors = list(found.values())
    if is_pure(tensors):
        by_kernel = evaluate(ours, tensors, case.feeds)
        assert_agree(case, dict(zip(found, by_kernel, strict=True)), expected)


def assert_agree(case: Case, found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, theirs in expected.items():
        ours = found[name]
        if case.values:
            assert_same_value(ours, theirs, max(case.tol * 5, 5e-6), f"gradient of {name}")
        else:
            assert np.shape(ours) == np.shape(theirs)
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype


def test_what_tensorflow_can_differentiate_so_can_we(tf: Any) -> None:
    import tensorflow.python.ops.numpy_ops  # noqa: F401  (it registers more gradients)
    from tensorflow.python.framework import ops

    differences = []
    for op_type in registered():
        try:
            ops.gradient_registry.lookup(op_type.name)
        except LookupError:
            theirs = False
        else:
            theirs = True
        same = theirs == (op_type.gradient is not None)
        if not same and op_type.name[0] != "_" and op_type.name not in LOOPS:
            differences.append((op_type.name, "TensorFlow alone" if theirs else "we alone"))
    assert differences == []
