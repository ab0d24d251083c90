"""Python functions in graphs: custom ops of their own type, and `py_func`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepscope import errors
from stepscope.graph.graph import Graph
from stepscope.graph.registry import lookup
from stepscope.ops.arrays.constants import constant, placeholder
from stepscope.ops.custom import register_op
from stepscope.ops.flow.gradients import gradients
from stepscope.ops.flow.ordering import summarize_value
from stepscope.ops.python_functions import py_func
from stepscope.runtime import Session


@pytest.fixture
def op_name(own_op_types: None) -> str:
    """A name to register, for this test alone."""
    return "CustomOp"


@pytest.fixture
def graph() -> Any:
    graph = Graph()
    with graph.as_default():
        yield graph


def run(fetches: Any, feeds: Any = None) -> Any:
    first = fetches[0] if isinstance(fetches, list) else fetches
    with Session(graph=first.graph) as session:
        return session.run(fetches, feeds)


# -- register_op ---------------------------------------------------------------------------------


def test_a_function_with_attributes_becomes_an_op_type(graph: Graph, op_name: str) -> None:
    @register_op(op_name, inputs=["x", "factor"], shape="x")
    def scale_rows(x: Any, factor: Any, *, power: int = 1, sign: str = "+") -> Any:
        """Scale."""
        return x * factor[:, None] ** power * (-1 if sign == "-" else 1)

    y = scale_rows([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0], power=2, sign="-", name="scaled")
    assert (y.name, y.op.type, y.dtype.name, y.shape.known) == (
        "scaled:0", op_name, "float32", (2, 2),
    )  # fmt: skip
    assert scale_rows.__doc__ == "Scale."
    assert run(y).tolist() == [[-1, -2], [-12, -16]]
    assert scale_rows([[1.0]], [1.0]).op.name == op_name
    assert y.op.get_attr("power") == 2


def test_several_outputs_with_rules_of_their_own(graph: Graph, op_name: str) -> None:
    split = register_op(
        op_name,
        lambda x: (x.sum(axis=0), x.argmax(axis=0), np.array(x.shape, np.int32)),
        outputs=["total", "where", "shape"],
        dtype=["x", "int64", np.int32],
        shape=lambda x: [x[1:], x[1:], [x.rank]],
    )
    total, where, shape = split(np.arange(6.0).reshape(3, 2))
    assert [t.shape.known for t in (total, where, shape)] == [(2,), (2,), (2,)]
    assert [t.dtype.name for t in (total, where, shape)] == ["float64", "int64", "int32"]
    assert [v.tolist() for v in run([total, where, shape])] == [[6, 9], [2, 2], [3, 2]]


def test_an_op_without_outputs_runs_for_its_effect(graph: Graph, op_name: str) -> None:
    seen: list[float] = []
    note = register_op(op_name, lambda x: seen.append(float(x)), inputs={"x": "float64"}, outputs=0)
    run(note(2.5))
    assert seen == [2.5]


def test_what_it_keeps_and_writes_to_is_its_own(graph: Graph, op_name: str) -> None:
    kept: list[np.ndarray] = []

    def keep(x: np.ndarray) -> np.ndarray:
        result = x + 1
        kept.extend((x, result))
        return result

    op = register_op(op_name, keep, shape="x")
    x = placeholder("float32", [2])
    y = op(x)
    fed = np.array([1.0, 2.0], np.float32)
    with Session(graph=graph) as session:
        fetched = session.run(y, {x: fed})
        fed[:] = 50
        fetched[:] = 60
        assert [k.tolist() for k in kept] == [[1, 2], [2, 3]]
        kept[0][:] = kept[1][:] = 70
        again = session.run(y, {x: fed})
    assert (fed.tolist(), fetched.tolist(), again.tolist()) == ([50, 50], [60, 60], [51, 51])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.astype(np.float64), "Output 'y' of {} is float64, but expects float32"),
        (lambda x: x[:1], r"Output 'y' of {} has shape \[1\], but \[2\] is declared"),
        (lambda x: "text", "Output 'y' of {} is string, but expects float32"),
        (lambda x: None, r"is of Python objects \(NoneType\), but expects float32"),
    ],
)
def test_a_result_that_is_not_as_declared(
    graph: Graph, op_name: str, function: Callable[..., Any], message: str
) -> None:
    op = register_op(op_name, function, shape="x")
    with pytest.raises(errors.InvalidArgumentError, match=message.format(op_name)):
        run(op([1.0, 2.0]))


def test_the_wrong_number_of_results(graph: Graph, op_name: str) -> None:
    op = register_op(op_name, lambda x: (x, x, x), outputs=["a", "b"])
    with pytest.raises(errors.InvalidArgumentError, match=r"2 outputs \(a, b\).*3 values"):
        run(op([1.0])[0])


def test_gradients_go_through_a_custom_op(op_name: str) -> None:
    def cubed_gradient(op: Any, grad: Any) -> Any:
        return grad * op.inputs[0] * op.inputs[0] * 3.0

    cubed = register_op(op_name, lambda x: x**3, shape="x", gradient=cubed_gradient)
    with Graph().as_default() as graph, Session(graph=graph) as session:
        x = constant([1.0, 2.0])
        (grad,) = gradients(cubed(x) * 2.0, x)
        assert grad is not None
        assert session.run(grad).tolist() == [6.0, 24.0]


def test_a_custom_op_without_gradient_is_named(op_name: str) -> None:
    opaque = register_op(op_name, lambda x: x, shape="x")
    with Graph().as_default():
        x = constant([1.0])
        with pytest.raises(LookupError, match=op_name):
            gradients(opaque(x), x)


def test_the_gradient_is_kept_with_the_type(op_name: str) -> None:
    def gradient(_op: Any, grad: Any) -> Any:
        return grad

    register_op(op_name, lambda x: x, gradient=gradient, stateful=True)
    assert lookup(op_name).gradient is gradient
    assert lookup(op_name).stateful


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "lower"}, ValueError, "begins with a capital"),
        ({"name": "MatMul"}, ValueError, "registered already"),
        ({"function": 3}, TypeError, "needs a function"),
        ({"inputs": 2}, ValueError, "declares 2 inputs, but its function takes 1"),
        ({"inputs": ["a b"]}, ValueError, "no identifier"),
        ({"inputs": "x"}, TypeError, "a number or a list of names"),
        ({"inputs": {"x": "float99"}}, TypeError, "float99"),
        ({"outputs": -1}, ValueError, "outputs=-1"),
        ({"outputs": ["a", "a"]}, ValueError, "a name twice"),
        ({"dtype": "nothing"}, ValueError, "neither a dtype nor the name of an input"),
        ({"dtype": ["x", "x"]}, ValueError, "2 rules for 1 outputs"),
        ({"shape": "y"}, ValueError, "not the name of an input"),
        ({"function": lambda x, *, deep: x}, ValueError, "'deep'.*default"),
    ],
)
def test_a_bad_registration_says_what_is_wrong(
    op_name: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        register_op(**{"name": op_name, "function": lambda x: x} | arguments)


def test_wrong_calls(graph: Graph, op_name: str) -> None:
    op = register_op(op_name, lambda x, *, k=1: x)
    with pytest.raises(TypeError, match=r"takes 1 inputs \(x\), but 2 were given"):
        op(1.0, 2.0)
    with pytest.raises(TypeError, match="no attribute 'j'; it has: k"):
        op(1.0, j=2)


# -- py_func -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ValueError("v"), errors.InvalidArgumentError),
        (TypeError("t"), errors.InvalidArgumentError),
        (StopIteration("s"), errors.OutOfRangeError),
        (MemoryError("m"), errors.ResourceExhaustedError),
        (NotImplementedError("n"), errors.UnimplementedError),
        (ZeroDivisionError("z"), errors.UnknownError),
    ],
)
def test_what_it_raises_has_tensorflows_code_and_its_cause(
    tf: Any, graph: Graph, raised: Exception, kind: type[errors.OpError]
) -> None:
    def function() -> None:
        raise raised

    with pytest.raises(kind) as error:
        run(py_func(function, [], "float32"))
    assert f"{type(raised).__name__}: {raised}" in error.value.message
    assert error.value.__cause__ is raised
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        theirs = v1.py_func(function, [], tf.float32)
        with pytest.raises(tf.errors.OpError) as expected:
            session.run(theirs)
    assert type(expected.value).__name__ == kind.__name__


def test_the_function_lives_as_long_as_its_graph() -> None:
    class Function:
        def __call__(self) -> np.float32:
            return np.float32(3)

    graph, function = Graph(), Function()
    alive = weakref.ref(function)
    with graph.as_default():
        py_func(function, [], "float32", name="f")
    del function
    gc.collect()
    assert run(graph.get_tensor_by_name("f:0")) == 3
    del graph
    gc.collect()
    assert alive() is None


def test_a_graph_from_elsewhere_has_nothing_to_call(graph: Graph) -> None:
    y = py_func(lambda: np.float32(1), [], "float32", name="f")
    y.op._set_attr("token", b"pyfunc_of_another_process")
    with pytest.raises(errors.InvalidArgumentError, match="pyfunc_of_another_process is not found"):
        run(y)


# -- how Print and Assert write values -----------------------------------------------------------


@pytest.mark.parametrize("limit", [-1, 1, 3, 4, 100])
def test_values_are_written_as_tensorflow_writes_them(tf: Any, limit: int) -> None:
    values = [
        np.float32([1, 2.5, 1e10, 1e-7, 1 / 3, np.inf, np.nan]), np.float64([1 / 3, -0.1]),
        np.int32([[1, 2], [3, 4]]), np.arange(8).reshape(2, 2, 2), np.zeros((2, 0), np.float32),
        np.array([[True, False]]), np.array([b"a", b"b\n", b'"c'], object), np.float32(7),
    ]  # fmt: skip
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        data = [tf.constant(v) for v in values]
        op = tf.raw_ops.Assert(condition=False, data=data, summarize=limit)
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            session.run(op)
    ours = " ".join(f"[{summarize_value(v, limit)}]" for v in values)
    assert f"assertion failed: {ours}\n" in error.value.message + "\n"
