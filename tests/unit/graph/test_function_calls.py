"""Graphs with loops, conditionals and function calls, built by TensorFlow, on the embedded engine.

Each is also exported again, and must give the same numbers on TensorFlow then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf
from shared_data import ARTEFACTS
from stepscope.errors import UnimplementedError
from stepscope.graph import import_graph_def

RNN = ARTEFACTS / "rnn_while_v1" / "graph.pb"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=["functions", "lowered"])
def v1(request: pytest.FixtureRequest, tensorflow: Any) -> Any:
    """TensorFlow 1's names, making loops of functions or of Enter and Exit."""
    v1 = tensorflow.compat.v1
    was_on = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if request.param == "functions" else v1.disable_control_flow_v2)()
    yield v1
    (v1.enable_control_flow_v2 if was_on else v1.disable_control_flow_v2)()


def on_tensorflow(v1: Any, graph_def: Any, fetches: Any, feeds: Any, first: str = "") -> Any:
    with v1.Graph().as_default() as graph:
        v1.import_graph_def(v1.GraphDef.FromString(graph_def.SerializeToString()), name="")
        with v1.Session(graph=graph) as session:
            if first:
                session.run(first)
            return session.run(fetches, feeds)


def here(graph_def: Any, fetches: Any, feeds: Any, first: str = "") -> tuple[Any, Any]:
    """The values, and the graph as it is exported."""
    with tf.Graph().as_default() as graph:
        import_graph_def(graph_def, name="")
        with tf.Session(graph=graph) as session:
            if first:
                session.run(first)
            return session.run(fetches, feeds), graph.as_graph_def()


def check(v1: Any, build: Callable[[], Any], fetches: Any, feeds: Any, first: str = "") -> Any:
    with v1.Graph().as_default() as graph:
        build()
    definition = graph.as_graph_def()
    expected = on_tensorflow(v1, definition, fetches, feeds, first)
    found, exported = here(definition, fetches, feeds, first)
    again = on_tensorflow(v1, exported, fetches, feeds, first)
    for ours, theirs, back in zip(found, expected, again, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        np.testing.assert_allclose(back, theirs, rtol=1e-6)
    return definition


def test_loops_and_conditionals(v1: Any) -> None:
    def build() -> None:
        x = v1.placeholder(v1.float32, [None, 3], name="x")

        def body(i: Any, a: Any) -> list[Any]:
            a = v1.cond(v1.equal(i % 2, 0), lambda: a + x, lambda: a * 0.5)
            return [i + 1, a]

        def outer(k: Any, s: Any) -> list[Any]:
            inner = v1.while_loop(lambda q, z: q < k, lambda q, z: [q + 1, z + 1.5], [0, s])
            return [k + 1, inner[1]]

        v1.identity(v1.while_loop(lambda i, a: i < 7, body, [0, x])[1], name="a")
        v1.identity(v1.while_loop(lambda k, s: k < 4, outer, [0, 0.0])[1], name="b")
        v1.cond(v1.reduce_sum(x) > 100.0, lambda: v1.Print(x, [x]).op, lambda: v1.no_op())

    check(v1, build, ["a:0", "b:0"], {"x:0": X})


def test_variables_in_loops_and_branches(v1: Any) -> None:
    def build() -> None:
        v = v1.get_variable("v", initializer=np.float32(1.0), use_resource=True)
        x = v1.placeholder(v1.float32, [], name="x")

        def body(i: Any) -> Any:
            with v1.control_dependencies([v.assign_add(x)]):
                return i + 1

        i = v1.while_loop(lambda i: i < 5, body, [0], parallel_iterations=1)
        with v1.control_dependencies([i]):
            changed = v1.cond(x > 2.0, lambda: v.assign_sub(1.0), lambda: v.assign_add(100.0))
        with v1.control_dependencies([v1.identity(changed)]):
            v1.identity(v.read_value(), name="out")
        v1.global_variables_initializer()

    check(v1, build, ["out:0"], {"x:0": 3.0}, first="init")
    check(v1, build, ["out:0"], {"x:0": 1.0}, first="init")


def test_calls_of_functions(tensorflow: Any) -> None:
    v1 = tensorflow.compat.v1

    def build() -> None:
        x = v1.placeholder(v1.float32, [None, 3], name="x")

        @tensorflow.function
        def product(a: Any, b: Any) -> Any:
            parts = tensorflow.split(a * b, 3, axis=1)
            return parts[2], parts[0], tensorflow.reduce_sum(a)

        @tensorflow.function
        def chosen(a: Any) -> Any:
            last, first, total = product(a, a + 1.0)
            if total > 3.0:
                return last + first
            return last - first

        v1.identity(chosen(x), name="out")
        v1.identity(product(x, x)[0], name="last")
        v1.identity(product(x, x)[2], name="total")

    definition = check(v1, build, ["out:0", "last:0", "total:0"], {"x:0": X})
    assert {"PartitionedCall"} <= {node.op for node in definition.node}
    check(v1, build, ["out:0", "last:0", "total:0"], {"x:0": X * 0})
    with tf.Graph().as_default() as graph:
        import_graph_def(definition, name="twice")
        import_graph_def(definition, name="again")
    names = {op.name for op in graph.get_operations()}
    assert "twice/PartitionedCall/PartitionedCall/mul" in names


def test_what_a_function_needs_is_listed_with_the_rest(tensorflow: Any) -> None:
    v1 = tensorflow.compat.v1

    @tensorflow.function
    def inner(a: Any) -> Any:
        return tensorflow.math.bessel_i0(a)

    @tensorflow.function
    def outer(a: Any) -> Any:
        return inner(a) + tensorflow.math.lgamma(a)

    with v1.Graph().as_default() as graph:
        x = v1.placeholder(v1.float32, [])
        outer(x)
        tensorflow.math.digamma(x)
    with (
        tf.Graph().as_default() as made,
        pytest.raises(
            UnimplementedError, match=r"3 op type\(s\).*BesselI0 \(x1\), Digamma \(x1\), Lgamma"
        ),
    ):
        import_graph_def(graph.as_graph_def(), name="")
    assert made.get_operations() == []


def test_a_loop_that_is_imported_twice() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.identity(tf.while_loop(lambda a: a < 50.0, lambda a: a * x, [x]), name="out")
    with tf.Graph().as_default() as both:
        import_graph_def(graph.as_graph_def(), name="a")
        import_graph_def(graph.as_graph_def(), name="b")
        with tf.Session(graph=both) as session:
            found = session.run(["a/out:0", "b/out:0"], {"a/x:0": 3.0, "b/x:0": 2.0})
    assert found == [81.0, 64.0]


@pytest.mark.skipif(not RNN.exists(), reason="needs the shared artefacts")
def test_a_recurrent_network_with_gradients_from_tensorflow(tensorflow: Any) -> None:
    v1 = tensorflow.compat.v1
    definition = v1.GraphDef.FromString(RNN.read_bytes())
    fetches = [
        "Sum:0",
        "gradients/while/MatMul/ReadVariableOp/Enter_grad/b_acc_3:0",
        "gradients/while/Enter_2_grad/Exit:0",
    ]
    random = np.random.default_rng(0)
    shape = [d.size for d in {n.name: n for n in definition.node}["W"].attr["shape"].shape.dim]
    feeds = {
        "x:0": random.random((4, 5, 8)).astype(np.float32),
        "W/Initializer/random_uniform:0": random.random(shape).astype(np.float32) - 0.5,
    }

    def run(session: Any) -> Any:
        session.run("init", {k: v for k, v in feeds.items() if k[0] == "W"})
        return session.run(fetches, {"x:0": feeds["x:0"]})

    with v1.Graph().as_default() as graph:
        v1.import_graph_def(definition, name="")
        with v1.Session(graph=graph) as session:
            expected = run(session)
    with tf.Graph().as_default() as graph:
        import_graph_def(definition, name="")
        with tf.Session(graph=graph) as session:
            found = run(session)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
