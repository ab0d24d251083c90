"""What Python functions execute inside the nodes of a graph."""

import numpy as np
import pytest

import stepscope
from stepscope.adapters import tensorflow as adapter
from stepscope.options import RunOptions

LEVELS = (RunOptions.SOFTWARE_TRACE, RunOptions.FULL_TRACE)


def traced(tensorflow, engine, build, level):
    """The metadata of a run of what `build()` makes, by a session or a function, once warm."""
    options = RunOptions(trace_level=level)
    metadata = stepscope.RunMetadata()
    if engine == "function":
        function = tensorflow.function(build)
        function()
        adapter.run(function, options=options, run_metadata=metadata)
    else:
        with tensorflow.Graph().as_default() as graph:
            fetch = build()
        with adapter.Session(graph=graph) as session:
            session.run(fetch)
            session.run(fetch, options=options, run_metadata=metadata)
    return metadata


def spans(metadata):
    ops = metadata.ops
    columns = zip(ops.name, ops.op, ops.thread, ops.start_ns, ops.end_ns, strict=True)
    return {name: (op, thread, start, end) for name, op, thread, start, end in columns}


def python_inside(tensorflow):
    """A graph with a node `MatMul` of its own, and Python that executes ops of the same type."""

    @tensorflow.function
    def called(x):
        return tensorflow.sin(x, name="called_sin")

    def inside(x):
        return tensorflow.exp(tensorflow.matmul(x, x)) + called(x)

    def with_arrays(x):
        return tensorflow.tanh(x).numpy()

    def build():
        x = tensorflow.random.uniform([4, 4])
        first = tensorflow.py_function(inside, [x], tensorflow.float32, name="first")
        other = tensorflow.numpy_function(with_arrays, [x], tensorflow.float32, name="other")
        first, other = (tensorflow.ensure_shape(made, [4, 4]) for made in (first, other))
        return tensorflow.matmul(first, other, name="MatMul")

    return build


def assert_ops_are_inside_their_nodes(metadata):
    found = spans(metadata)
    inside = {name: value for name, value in found.items() if name.startswith(("first/", "other/"))}
    assert {"first/MatMul", "first/Exp", "first/AddV2", "other/Tanh"} <= inside.keys()
    for name, (op, thread, start, end) in inside.items():
        node, _, kind = name.partition("/")
        assert op == kind
        _, node_thread, node_start, node_end = found[node]
        assert thread == node_thread
        assert node_start <= start <= end <= node_end
    assert found["called_sin"][0] == "Sin"
    assert found["MatMul"][0] == "MatMul"
    # The graph's own node is described by its inputs, the eager op of the same type is not.
    labels = dict(zip(metadata.ops.name, metadata.ops.label, strict=True))
    assert labels["first/MatMul"] == "first/MatMul = MatMul()"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("engine", ["session", "function"])
def test_ops_inside_python_functions_are_executions(tensorflow, engine, level):
    metadata = traced(tensorflow, engine, python_inside(tensorflow), level)
    assert_ops_are_inside_their_nodes(metadata)
    assert not [loss for loss in metadata.completeness.losses if "Python" in loss.what]


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("engine", ["session", "function"])
def test_ops_inside_python_functions_are_there_beside_a_log(tensorflow, engine):
    metadata = traced(tensorflow, engine, python_inside(tensorflow), RunOptions.SOFTWARE_TRACE)
    assert_ops_are_inside_their_nodes(metadata)


def test_where_tensorflow_alone_tells_they_are_declared_missing(tensorflow):
    options = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
    metadata, plain = stepscope.RunMetadata(), stepscope.RunMetadata()
    with tensorflow.Graph().as_default() as graph:
        fetch = python_inside(tensorflow)()
    tensorflow.profiler.experimental.start("ram://profile-of-the-program")
    try:
        with adapter.Session(graph=graph) as session:
            session.run(fetch, options=options, run_metadata=metadata)
        with tensorflow.Graph().as_default() as without:
            other = tensorflow.random.uniform([])
        with adapter.Session(graph=without) as session:
            session.run(other, options=options, run_metadata=plain)
    finally:
        tensorflow.profiler.experimental.stop(save=False)
    assert "first" in metadata.ops.name
    assert "first/Exp" not in metadata.ops.name
    what = [loss.what for loss in metadata.completeness.losses]
    assert sorted(what) == ["ops inside Python functions", "threads"]
    assert [loss.what for loss in plain.completeness.losses] == ["threads"]


def test_values_are_as_without_tracing(tensorflow):
    function = tensorflow.function(
        lambda x: tensorflow.py_function(lambda y: tensorflow.exp(y) * 2, [x], tensorflow.float32)
    )
    x = tensorflow.constant([0.5, 1.5])
    plain = function(x)
    seen = adapter.run(function, x, run_metadata=stepscope.RunMetadata())
    np.testing.assert_array_equal(plain, seen)
