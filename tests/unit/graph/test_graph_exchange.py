"""Models that TensorFlow built train and answer the same here, and ours the same there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1
from shared_data import ARTEFACTS
from stepscope.errors import UnimplementedError

pytestmark = pytest.mark.tensorflow
RANDOM = np.random.default_rng(4)
ROWS, CLASSES = RANDOM.normal(size=(16, 12)).astype("float32"), RANDOM.integers(0, 4, 16)
IMAGES = RANDOM.normal(size=(8, 8, 8, 2)).astype("float32")
STEPS = 4


def weights(shape: list[int], number: int) -> Any:
    return np.sin(np.arange(np.prod(shape)) * 1.7 + number).reshape(shape).astype("float32") * 0.3


def variable(tf: Any, name: str, shape: list[int], number: int, resource: bool) -> Any:
    return tf.Variable(weights(shape, number), name=name, use_resource=resource)


def mlp(tf: Any, resource: bool) -> None:
    """Two layers, Adam, a learning rate that decays."""
    x = tf.placeholder(tf.float32, [None, 12], name="x")
    y = tf.placeholder(tf.int64, [None], name="y")
    for number, (rows, columns) in enumerate(((12, 10), (10, 4))):
        with tf.name_scope(f"layer{number}"):
            w = variable(tf, "w", [rows, columns], number, resource)
            b = variable(tf, "b", [columns], number, resource)
            x = tf.nn.xw_plus_b(tf.nn.relu(x) if number else x, w, b)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
    loss = tf.reduce_mean(losses, name="loss")
    step = tf.Variable(0, trainable=False, name="step", use_resource=resource)
    rate = tf.train.exponential_decay(0.05, step, 2, 0.9)
    tf.train.AdamOptimizer(rate).minimize(loss, step, name="train")
    tf.cast(tf.nn.in_top_k(x, y, 2), tf.float32, name="answer")


def cnn(tf: Any, resource: bool) -> None:
    """A convolution with batch normalisation and moving averages, pools, momentum."""
    x = tf.placeholder(tf.float32, [None, 8, 8, 2], name="x")
    y = tf.placeholder(tf.int64, [None], name="y")
    kernel = variable(tf, "kernel", [3, 3, 2, 4], 0, resource)
    h = tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME")
    scale = tf.Variable(np.ones(4, "float32"), name="scale", use_resource=resource)
    offset = tf.Variable(np.zeros(4, "float32"), name="offset", use_resource=resource)
    h, mean, _variance = tf.nn.fused_batch_norm(h, scale, offset, is_training=True)
    average = tf.Variable(
        np.zeros(4, "float32"), trainable=False, name="average", use_resource=resource
    )
    update = tf.assign_sub(average, (average - mean) * 0.1)
    h = tf.nn.max_pool(tf.nn.relu(h), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.nn.avg_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    flat = tf.reshape(h, [-1, 16])
    logits = tf.matmul(flat, variable(tf, "head", [16, 4], 1, resource))
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(y, 4), logits=logits)
    loss = tf.reduce_mean(losses, name="loss")
    with tf.control_dependencies([update]):
        tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, name="train")
    tf.nn.softmax(logits, name="answer")


MODELS: dict[str, tuple[Callable[[Any, bool], None], Any, Any]] = {
    "mlp": (mlp, ROWS, CLASSES),
    "cnn": (cnn, IMAGES, CLASSES[:8]),
}


def trained(tf: Any, graph: Any, feeds: dict[str, Any]) -> list[Any]:
    """The losses of some steps, and the answer after them."""
    with tf.Session(graph=graph) as session:
        session.run("init")
        losses = [session.run(["loss:0", "train"], feeds)[0] for _ in range(STEPS)]
        return [*losses, session.run("answer:0", feeds)]


def with_initializer(tf: Any, build: Callable[[Any, bool], None], resource: bool) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        build(tf, resource)
        tf.group(*[v.initializer for v in tf.global_variables()], name="init")
    return graph


def imported(tf: Any, message: Any) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(tf.GraphDef.FromString(message.SerializeToString()), name="")
    return graph


def assert_close(ours: list[Any], theirs: list[Any]) -> None:
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_gives_the_same_numbers_wherever_it_was_built(
    tf: Any, model: str, resource: bool
) -> None:
    build, x, y = MODELS[model]
    feeds = {"x:0": x, "y:0": y}
    theirs = with_initializer(tf, build, resource)
    ours = with_initializer(tf1, build, resource)
    expected = trained(tf, theirs, feeds)
    assert expected[STEPS - 1] < expected[0]
    assert_close(trained(tf1, imported(tf1, theirs.as_graph_def()), feeds), expected)
    assert_close(trained(tf, imported(tf, ours.as_graph_def()), feeds), expected)
    assert_close(trained(tf1, ours, feeds), expected)


def test_a_frozen_graph(tf: Any) -> None:
    build, x, y = MODELS["cnn"]
    graph = with_initializer(tf, build, resource=False)
    with tf.Session(graph=graph) as session:
        session.run("init")
        expected = session.run("answer:0", {"x:0": x})
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["answer"]
        )
    assert {n.op for n in frozen.node}.isdisjoint({"VariableV2", "ApplyMomentum"})
    with tf1.Session(graph=imported(tf1, frozen)) as session:
        assert_close([session.run("answer:0", {"x:0": x})], [expected])
    del y


@pytest.mark.parametrize(
    "path", sorted(ARTEFACTS.glob("*/graph.pb")), ids=lambda path: Path(str(path)).parent.name
)
def test_recorded_graphs_are_imported_whole(path: Path) -> None:
    message = tf1.GraphDef.FromString(path.read_bytes())
    if any(node.op == "EagerPyFunc" for node in message.node):
        # The function lives in the process that built the graph.
        with pytest.raises(UnimplementedError, match=r"EagerPyFunc \(x1\)\. .*ops\.md"):
            imported(tf1, message)
        return
    graph = imported(tf1, message)
    assert {op.name for op in graph.get_operations()} == {node.name for node in message.node}
