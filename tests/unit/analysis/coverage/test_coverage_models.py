"""Coverage of whole models: next to nothing may stay unknown, and every nanosecond has a node."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepscope
from stepscope.analysis import Coverage, coverage

MOST_UNKNOWN = 0.02


def check(result: Coverage, metadata: stepscope.RunMetadata) -> None:
    """What holds for the coverage of any run."""
    unknown = [f"{row.function}:{row.name} ({row.op})" for row in result.where("unknown")]
    assert result.unknown <= MOST_UNKNOWN, unknown
    accounted = sum(row.total_ns for row in result) + result.added_ns
    assert accounted == int((metadata.ops.end_ns - metadata.ops.start_ns).sum())
    ran = set(metadata.ops.names_table)
    for row in result.where("measured"):
        assert row.executions > 0
        if not row.function:
            assert row.name in ran
    for row in result.where("pruned"):
        assert row.function or row.executions == 0 or row.detail


def mlp(tf: Any, random: np.random.Generator) -> tuple[Any, dict[Any, Any]]:
    x = tf.placeholder(tf.float32, [None, 20], name="x")
    y = tf.placeholder(tf.int64, [None], name="y")
    hidden = x
    for i, units in enumerate((64, 32)):
        with tf.variable_scope(f"layer_{i}"):
            weights = tf.get_variable("weights", [hidden.shape[1], units])
            bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
            hidden = tf.nn.relu(tf.matmul(hidden, weights) + bias)
    logits = tf.nn.bias_add(
        tf.matmul(hidden, tf.get_variable("last", [32, 5])), tf.get_variable("last_bias", [5])
    )
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    ) + 1e-4 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [train, loss, right], {x: random.normal(size=(16, 20)), y: random.integers(0, 5, 16)}


def cnn(tf: Any, random: np.random.Generator) -> tuple[Any, dict[Any, Any]]:
    x = tf.placeholder(tf.float32, [None, 16, 16, 3], name="x")
    y = tf.placeholder(tf.int32, [None], name="y")
    hidden, updates = x, []
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            kernel = tf.get_variable("kernel", [3, 3, hidden.shape[3], 8])
            hidden = tf.nn.conv2d(hidden, kernel, [1, 1, 1, 1], "SAME")
            hidden = tf.nn.bias_add(hidden, tf.get_variable("bias", [8]))
            scale = tf.get_variable("scale", [8], initializer=tf.ones_initializer())
            offset = tf.get_variable("offset", [8], initializer=tf.zeros_initializer())
            mean = tf.get_variable("mean", [8], trainable=False)
            hidden, batch_mean, _ = tf.nn.fused_batch_norm(hidden, scale, offset)
            updates.append(mean.assign_sub(0.1 * (mean - batch_mean)))
            hidden = tf.nn.max_pool(tf.nn.relu(hidden), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    flat = tf.reshape(hidden, [tf.shape(hidden)[0], 4 * 4 * 8])
    logits = tf.matmul(tf.nn.dropout(flat, rate=0.3), tf.get_variable("last", [128, 10]))
    loss = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot(y, 10), logits=logits)
    )
    with tf.control_dependencies(updates):
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return [train, loss], {x: random.normal(size=(4, 16, 16, 3)), y: random.integers(0, 10, 4)}


def lstm(tf: Any, random: np.random.Generator) -> tuple[Any, dict[Any, Any]]:
    x = tf.placeholder(tf.float32, [4, 7, 5], name="x")
    y = tf.placeholder(tf.float32, [4, 8], name="y")
    weights, bias = tf.get_variable("weights", [13, 32]), tf.get_variable("bias", [32])
    steps = tf.transpose(x, [1, 0, 2])

    def step(i: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([steps[i], h], 1), weights), bias)
        write, forget, show, new = tf.split(gates, 4, 1)
        c = tf.sigmoid(forget + 1.0) * c + tf.sigmoid(write) * tf.tanh(new)
        return i + 1, tf.sigmoid(show) * tf.tanh(c), c

    start = [0, tf.zeros([4, 8]), tf.zeros([4, 8])]
    _, h, _ = tf.while_loop(lambda i, h, c: i < 7, step, start)
    loss = tf.reduce_mean(tf.square(h - y))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 5.0)
    train = optimizer.apply_gradients(
        list(zip(clipped, [variable for _, variable in pairs], strict=True))
    )
    return [train, loss], {x: random.normal(size=(4, 7, 5)), y: random.normal(size=(4, 8))}


@pytest.mark.parametrize("optimised", [True, False], ids=["optimised", "as_written"])
@pytest.mark.parametrize("model", [mlp, cnn, lstm])
def test_sessions(tf: Any, model: Callable[..., Any], optimised: bool) -> None:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = not optimised
    graph = tf.Graph()
    with graph.as_default(), tf.Session(graph=graph, config=config) as session:
        with tf.variable_scope("", use_resource=True):
            fetches, feeds = model(tf, np.random.default_rng(3))
        session.run(tf.global_variables_initializer())
        message = tf.RunMetadata()
        options = tf.RunOptions(
            trace_level=tf.RunOptions.SOFTWARE_TRACE, output_partition_graphs=True
        )
        session.run(fetches, feeds, options=options, run_metadata=message)
    metadata = stepscope.RunMetadata.FromString(message.SerializeToString())
    result = coverage(metadata, graph)
    check(result, metadata)
    counts = result.counts()
    assert counts["fed"] == 2
    assert ("fused" in counts) == optimised
    # Only what initialises the variables and the like was not asked for.
    assert all(
        row.state == "pruned" for row in result if "/Initializer/" in row.name and not row.function
    )


def _keras_step(tensorflow: Any, model: str) -> tuple[Any, tuple[Any, ...]]:
    keras, random = tensorflow.keras, np.random.default_rng(5)
    layers = keras.layers
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if model == "mlp":
        stack = [layers.Dense(32, activation="relu"), layers.Dense(16, activation="gelu")]
        shape: tuple[int, ...] = (8, 20)
    elif model == "cnn":
        stack = [
            *(layers.Conv2D(8, 3), layers.BatchNormalization(), layers.ReLU()),
            *(layers.MaxPool2D(), layers.Dropout(0.3), layers.Flatten()),
        ]
        shape = (4, 12, 12, 3)
    else:
        stack, shape = [layers.LSTM(8)], (4, 7, 5)
    network = keras.Sequential([*stack, layers.Dense(5)])
    optimizer = keras.optimizers.Adam()

    @tensorflow.function
    def step(x: Any, y: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            value = loss(y, network(x, training=True))
        variables = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    x = tensorflow.constant(random.normal(size=shape).astype(np.float32))
    return step, (x, tensorflow.constant(random.integers(0, 5, shape[0])))


@pytest.mark.parametrize("model", ["mlp", "cnn", "lstm"])
def test_functions(tensorflow: Any, model: str) -> None:
    from stepscope.adapters import tensorflow as adapter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step, arguments = _keras_step(tensorflow, model)
        step(*arguments)
    options = stepscope.RunOptions(trace_level=1, output_partition_graphs=True)
    metadata = stepscope.RunMetadata()
    adapter.run(step, *arguments, options=options, run_metadata=metadata)
    graph = step.get_concrete_function(*arguments).graph
    result = coverage(metadata, graph)
    check(result, metadata)
    counts = result.counts()
    assert counts["measured"] > 100
    placeholders = [op.name for op in graph.get_operations() if op.type == "Placeholder"]
    assert {row.name for row in result.where("fed")} == set(placeholders)
    if model == "lstm":
        loops = [row for row in result if row.op in ("While", "StatelessWhile")]
        # Keras 2 keeps a variant of the layer for inference beside it, which a training step does
        # not call.
        loops = [row for row in loops if row.detail != "its function is not called"]
        assert loops
        assert {row.state for row in loops} == {"lowered"}


def test_a_function_with_a_branch_a_loop_and_a_compiled_call(tensorflow: Any) -> None:
    from stepscope.adapters import tensorflow as adapter

    tf = tensorflow.compat.v1

    @tensorflow.function(jit_compile=True)
    def compiled(value: Any) -> Any:
        return tf.exp(value, name="compiled_exp")

    @tensorflow.function
    def step(x: Any, flag: Any, times: Any) -> Any:
        value = tensorflow.cond(
            flag, lambda: tf.sin(x, name="sine"), lambda: tf.cos(x, name="cosine"), name="choice"
        )
        _, value = tensorflow.while_loop(
            lambda i, _: i < times,
            lambda i, v: (i + 1, tf.cumsum(v, name="grown") + 1.0),
            [tensorflow.constant(0), value],
            name="loop",
        )
        return tf.cumsum(compiled(value), name="out")

    arguments = (tensorflow.ones(8), tensorflow.constant(True), tensorflow.constant(4))
    step(*arguments)
    options = stepscope.RunOptions(trace_level=1, output_partition_graphs=True)
    metadata = stepscope.RunMetadata()
    adapter.run(step, *arguments, options=options, run_metadata=metadata)
    result = coverage(metadata, step.get_concrete_function(*arguments).graph)
    check(result, metadata)

    def fate(end: str) -> tuple[str, str, int]:
        row = next(row for row in result if row.name.endswith(end))
        return row.state, row.detail, row.executions

    assert fate("/sine") == ("measured", "", 1)
    assert fate("/cosine") == ("branch not taken", "else of choice", 0)
    assert fate("grown") == ("measured", "", 4)
    assert fate("out") == ("measured", "", 1)
    call = next(row for row in result if row.op == "PartitionedCall" and row.state == "measured")
    assert fate("compiled_exp") == ("in XLA cluster", call.name, 0)
    assert result["x"].state == result["flag"].state == "fed"
    # A constant ran, and has no time of its own.
    assert result.where("constant")
    assert all(row.op == "Const" for row in result.where("constant"))
