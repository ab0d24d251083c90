"""Source lines of functions: from their traces, and from the text of TensorFlow's errors."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import stepscope


def test_a_function_has_source_lines_and_so_have_its_errors(tensorflow: Any) -> None:
    import tensorflow as tf

    from stepscope.adapters import tensorflow as adapter
    from stepscope.adapters.tensorflow.memory.report import source_in

    def inverse(x: Any) -> Any:
        return tf.linalg.inv(x, name="inv")

    line = f"{__file__}:{inverse.__code__.co_firstlineno + 1}"
    function = tf.function(inverse)
    metadata = stepscope.RunMetadata()
    adapter.run(function, tf.eye(2), run_metadata=metadata)
    assert metadata.sources["inv"] == line
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        function(tf.zeros([2, 2]))
    assert source_in(raised.value.message) == line
    assert source_in("out of memory") == ""


@pytest.mark.parametrize("level", [1, 3])
def test_eager_ops_have_the_line_that_called_them(tensorflow: Any, level: int) -> None:
    tf = tensorflow

    def twice(x: Any) -> Any:
        return tf.exp(x)

    def step(x: Any) -> Any:
        y = tf.nn.softmax(tf.matmul(x, x))
        y = tf.exp(y)
        for _ in range(2):
            y = twice(y)
        return tf.exp(y)

    metadata = stepscope.RunMetadata()
    stepscope.run(step, tf.eye(2), options=stepscope.RunOptions(trace_level=level),
                  run_metadata=metadata)  # fmt: skip
    first, inside = step.__code__.co_firstlineno, twice.__code__.co_firstlineno
    called = [(op, metadata.sources[name]) for name, op in named(metadata)]
    assert called == [
        ("MatMul", f"{__file__}:{first + 1}"),
        ("Softmax", f"{__file__}:{first + 1}"),
        ("Exp", f"{__file__}:{first + 2}"),
        ("Exp", f"{__file__}:{inside + 1}"),
        ("Exp", f"{__file__}:{inside + 1}"),
        ("Exp", f"{__file__}:{first + 5}"),
    ]
    # Each line that calls an op is a node of its own.
    assert metadata.ops.name.tolist() == ["MatMul", "Softmax", "Exp", "Exp_1", "Exp_1", "Exp_2"]
    assert not [what for what in told(metadata) if "source" in what]


def named(metadata: stepscope.RunMetadata) -> Any:
    return zip(metadata.ops.name.tolist(), metadata.ops.op.tolist(), strict=True)


def lined(metadata: stepscope.RunMetadata) -> float:
    """The share of the executions that have a line."""
    names = metadata.ops.name.tolist()
    return sum(name in metadata.sources for name in names) / len(names)


def told(metadata: stepscope.RunMetadata) -> dict[str, int]:
    return {loss.what: loss.count for loss in metadata.completeness.losses}


@pytest.mark.parametrize("level", [1, 3])
def test_inlined_calls_loops_and_branches_have_the_lines_that_made_them(
    tensorflow: Any, level: int
) -> None:
    tf = tensorflow
    scale = tf.Variable(2.0)

    @tf.function
    def scaled(x: Any) -> Any:
        return tf.tanh(x) * scale

    @tf.function
    def step(x: Any) -> Any:
        x = scaled(x) + scaled(x * 2.0)
        for _ in tf.range(3):
            x = x / tf.exp(x)
        if tf.reduce_sum(x) > 0.0:
            x = tf.sin(x)
        return x

    inside = scaled.python_function.__code__.co_firstlineno
    first = step.python_function.__code__.co_firstlineno
    x = tf.ones([2])
    step(x)
    metadata = stepscope.RunMetadata()
    stepscope.run(step, x, options=stepscope.RunOptions(trace_level=level), run_metadata=metadata)
    rows = zip(metadata.ops.name.tolist(), metadata.ops.op.tolist(), strict=True)
    lines: dict[str, set[str]] = {}
    for name, op in rows:
        lines.setdefault(op, set()).add(metadata.sources.get(name, name))
    assert lines["Tanh"] == {f"{__file__}:{inside + 2}"}
    assert lines["Exp"] == lines["RealDiv"] == {f"{__file__}:{first + 4}"}
    assert lines["Sin"] == {f"{__file__}:{first + 6}"}
    assert lines["LoopCond"] == {f"{__file__}:{first + 3}"}, "what a loop was lowered to"
    # All but the executor's own first node, which no line made.
    assert [name for name in metadata.ops.name if name not in metadata.sources] == ["_SOURCE"]
    assert "source lines" not in told(metadata)


@pytest.mark.filterwarnings(
    "ignore:non-integer arguments to randrange:DeprecationWarning"  # in Keras 2, seeding
)
def test_the_steps_of_a_keras_fit_have_lines(tensorflow: Any) -> None:
    import numpy as np

    from stepscope.adapters.tensorflow.training.keras import TraceCallback

    keras = tensorflow.keras
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, "relu"),
                              keras.layers.Dropout(0.1), keras.layers.Dense(2)])  # fmt: skip
    model.compile("adam", "mse")
    callback = TraceCallback("1:3", options=stepscope.RunOptions(trace_level=3))
    model.fit(np.ones((12, 8)), np.ones((12, 2)), batch_size=4, verbose=0, callbacks=[callback])
    for recorded in callback.steps:
        metadata = recorded.metadata
        assert len(metadata.ops) > 100
        assert lined(metadata) >= 0.95
        assert any(line.startswith(f"{__file__}:") for line in metadata.sources.values())
        # Those of the input pipeline have none, and that is said.
        without = [name for name in metadata.ops.name if name not in metadata.sources]
        counted = told(metadata).get("source lines", 0)
        assert counted == sum(name != "_SOURCE" for name in without)


def test_every_eager_op_has_its_line(tensorflow: Any) -> None:
    x = tensorflow.ones([2])

    def step() -> Any:
        y = tensorflow.exp(x)
        return tensorflow.exp(y)

    metadata = stepscope.RunMetadata()
    stepscope.run(step, run_metadata=metadata)
    assert lined(metadata) >= 0.95


def test_functions_that_eager_code_calls_have_lines(tensorflow: Any) -> None:
    double = tensorflow.function(lambda x: tensorflow.tanh(x) * 2.0)
    x = tensorflow.ones([2])
    double(x)
    with stepscope.observe() as metadata:
        double(x)
    assert lined(metadata) >= 0.8


@pytest.mark.parametrize("level", [1, 3])
def test_eager_ops_and_nodes_of_functions_of_one_name_are_told_apart(
    tensorflow: Any, level: int
) -> None:
    tf = tensorflow

    @tf.function
    def inner(x: Any) -> Any:
        if tf.reduce_sum(x) > 0.0:
            x = tf.sin(x)
        return tf.tanh(x) * 2.0

    @tf.function
    def called(x: Any) -> Any:
        return tf.exp(inner(x)) + 1.0

    x = tf.ones([2])
    called(x)
    with stepscope.observe(stepscope.RunOptions(trace_level=level)) as metadata:
        y = tf.exp(x)
        y = called(y)
        y = tf.exp(y)
    first = inner.python_function.__code__.co_firstlineno
    lines: dict[str, list[str]] = {}
    for name, op in named(metadata):
        lines.setdefault(op, []).append(metadata.sources.get(name, name))
    assert lines["Sin"] == [f"{__file__}:{first + 3}"]
    assert lines["Tanh"] == [f"{__file__}:{first + 4}"]
    # One before, one in the function, one after it.
    assert len(set(lines["Exp"])) == 3
    assert lines["Exp"][1] == f"{__file__}:{first + 8}"
    assert [line.rpartition(":")[0] for line in lines["Exp"]] == [__file__] * 3


def test_nodes_of_one_name_in_two_functions_have_no_line_and_are_counted(tensorflow: Any) -> None:
    tf = tensorflow
    first = tf.function(lambda x: tf.tanh(x))
    second = tf.function(lambda x: tf.tanh(x))
    x = tf.ones([2])
    first(x), second(x)
    with stepscope.observe() as metadata:
        first(x), second(x)
    assert metadata.ops.op.tolist().count("Tanh") == 2
    without = [name for name in metadata.ops.name if name not in metadata.sources]
    assert "Tanh" in without
    assert told(metadata)["source lines"] == sum(name != "_SOURCE" for name in without)


def test_a_function_is_listed_while_another_thread_traces_it(tensorflow: Any) -> None:
    # The store's thread looks for a run's lines while the program traces the function anew.
    from stepscope.adapters.tensorflow.versions import traced_graphs

    tf = tensorflow
    add = tf.function(lambda number: tf.constant(number) + 1)
    for number in range(100):
        add.get_concrete_function(number)
    over = threading.Event()
    seen: list[int] = []
    faults: list[RuntimeError] = []

    def look() -> None:
        try:
            while not over.is_set():
                seen.append(len(traced_graphs(add)))
        except RuntimeError as error:
            faults.append(error)

    looking = threading.Thread(target=look)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    looking.start()
    try:
        for number in range(100, 160):
            add.get_concrete_function(number)
    finally:
        sys.setswitchinterval(before)
        over.set()
        looking.join()
    assert not faults
    assert seen[-1] > 100
