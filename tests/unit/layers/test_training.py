"""Training step by step against TensorFlow, from the same start and on the same numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1
from stepscope.errors import FailedPreconditionError

STEPS = 20
RANDOM = np.random.default_rng(3)
W1 = RANDOM.normal(size=(6, 5)).astype(np.float32)
W2 = RANDOM.normal(size=(5, 3)).astype(np.float32)
TABLE = RANDOM.normal(size=(9, 6)).astype(np.float32)
INPUTS = RANDOM.normal(size=(STEPS, 8, 6)).astype(np.float32)
LABELS = RANDOM.integers(0, 3, size=(STEPS, 8))
WORDS = RANDOM.integers(0, 9, size=(STEPS, 8))

OPTIMIZERS = {
    "sgd": lambda tf, rate: tf.train.GradientDescentOptimizer(rate),
    "momentum": lambda tf, rate: tf.train.MomentumOptimizer(rate, 0.9),
    "nesterov": lambda tf, rate: tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "rmsprop": lambda tf, rate: tf.train.RMSPropOptimizer(rate * 0.1),
    "rmsprop-momentum": lambda tf, rate: tf.train.RMSPropOptimizer(rate * 0.1, 0.8, 0.5, 1e-6),
    "rmsprop-centered": lambda tf, rate: tf.train.RMSPropOptimizer(
        rate * 0.1, epsilon=1e-3, centered=True
    ),
    "adam": lambda tf, rate: tf.train.AdamOptimizer(rate * 0.2),
    "adagrad": lambda tf, rate: tf.train.AdagradOptimizer(rate, 0.2),
    "adadelta": lambda tf, rate: tf.train.AdadeltaOptimizer(rate * 10.0, 0.9, 1e-3),
    "adagrad-da": lambda tf, rate: tf.train.AdagradDAOptimizer(
        rate, tf.train.get_or_create_global_step(), l1_regularization_strength=0.001
    ),
    "ftrl": lambda tf, rate: tf.train.FtrlOptimizer(
        0.1, -0.6, l1_regularization_strength=0.01, l2_regularization_strength=0.02, beta=0.1
    ),
    "ftrl-shrinkage": lambda tf, rate: tf.train.FtrlOptimizer(
        0.1, accum_name="sums", l2_shrinkage_regularization_strength=0.02
    ),
    "proximal": lambda tf, rate: tf.train.ProximalGradientDescentOptimizer(rate, 0.001, 0.01),
    "proximal-adagrad": lambda tf, rate: tf.train.ProximalAdagradOptimizer(
        rate, l1_regularization_strength=0.001, l2_regularization_strength=0.01
    ),
}


def network(tf: Any, resource: bool, sparse: bool) -> Any:
    labels = tf.placeholder(tf.int64, [None], name="labels")
    if sparse:
        words = tf.placeholder(tf.int32, [None], name="inputs")
        table = tf.Variable(TABLE, name="table", use_resource=resource)
        x = tf.gather(table, words)
    else:
        x = tf.placeholder(tf.float32, [None, 6], name="inputs")
    w1 = tf.Variable(W1, name="w1", use_resource=resource)
    b1 = tf.Variable(np.zeros(5, np.float32), name="b1", use_resource=resource)
    w2 = tf.Variable(W2, name="w2", use_resource=resource)
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w1), b1))
    scale = tf.Variable(np.float32(1.5), name="scale", use_resource=resource)
    logits = tf.matmul(hidden, w2) * scale
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return loss + 0.01 * tf.nn.l2_loss(w2)


def trained(tf: Any, optimizer: str, resource: bool, sparse: bool) -> dict[str, Any]:
    """What a program sees of 20 steps: the losses, the rates, and every variable at the end."""
    graph = tf.Graph()
    with graph.as_default():
        loss = network(tf, resource, sparse)
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.1, step, 5, 0.9, staircase=True)
        chosen = OPTIMIZERS[optimizer](tf, rate)
        pairs = chosen.compute_gradients(loss)
        clipped, _norm = tf.clip_by_global_norm([g for g, _ in pairs], 0.5)
        variables = [v for _, v in pairs]
        train = chosen.apply_gradients(list(zip(clipped, variables, strict=True)), step)
        losses, rates = [], []
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            for i in range(STEPS):
                feed = {"inputs:0": WORDS[i] if sparse else INPUTS[i], "labels:0": LABELS[i]}
                # Not in one run: what a reference shows during an update is anybody's guess.
                value, now = session.run([loss, rate], feed)
                losses.append(value)
                rates.append(now)
                session.run(train, feed)
            ends = {v.name: session.run(v) for v in tf.global_variables()}
        return {
            "train_op": train.name,
            "losses": losses,
            "rates": rates,
            "slots": sorted(chosen.get_slot_names()),
            "kept": sorted(v.name for v in chosen.variables()),
            "trained": [op.type for op in graph.get_operations() if "Apply" in op.type],
            **ends,
        }


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "rows"])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_twenty_steps(tf: Any, optimizer: str, resource: bool, sparse: bool) -> None:
    with references_by_default(tf):
        theirs = trained(tf.compat.v1, optimizer, resource, sparse)
    ours = trained(tf1, optimizer, resource, sparse)
    assert list(ours) == list(theirs)
    for name, expected in theirs.items():
        if name in ("train_op", "slots", "kept", "trained"):
            assert ours[name] == expected, name
        else:
            np.testing.assert_allclose(ours[name], expected, rtol=2e-4, atol=2e-6, err_msg=name)


@contextlib.contextmanager
def references_by_default(tf: Any) -> Iterator[None]:
    """TensorFlow 1's default kind of variable, which is ours too."""
    before = tf.compat.v1.resource_variables_enabled()
    tf.compat.v1.disable_resource_variables()
    try:
        yield
    finally:
        if before:
            tf.compat.v1.enable_resource_variables()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_training_graph_of_ours_trains_on_tensorflow(tf: Any, optimizer: str) -> None:
    with tf1.Graph().as_default() as graph:
        loss = network(tf1, resource=False, sparse=True)
        train = OPTIMIZERS[optimizer](tf1, 0.1).minimize(loss)
        start = tf1.global_variables_initializer()
        names = [v.name for v in tf1.global_variables()]
        ours = run_by_name(tf1.Session(graph=graph), start.name, train.name, loss.name, names)
    exported = tf.compat.v1.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    with tf.Graph().as_default() as copy:
        tf.import_graph_def(exported, name="")
        session = tf.compat.v1.Session(graph=copy)
        theirs = run_by_name(session, start.name, train.name, loss.name, names)
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6)


def run_by_name(session: Any, start: str, train: str, loss: str, names: list[str]) -> list[Any]:
    with session:
        session.run(start)
        losses = []
        for i in range(5):
            feed = {"inputs:0": WORDS[i], "labels:0": LABELS[i]}
            losses.append(session.run(loss, feed))
            session.run(train, feed)
        return [np.array(losses), *session.run(names)]


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
def test_clipping(tf: Any) -> None:
    def clipped(tf: Any) -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [3], name="x")
            both, norm = tf.clip_by_global_norm([x, None, x * 2.0], 2.0)
            fetches = [
                tf.clip_by_value(x, -1.0, 1.0), tf.clip_by_norm(x, 2.0), tf.global_norm([x, x]),
                tf.clip_by_norm(x, 100.0), tf.clip_by_norm(x, 2.0, axes=[0]), both[0], both[2],
                norm, tf.gradients(tf.clip_by_norm(x, 2.0), x)[0],
            ]  # fmt: skip
            values = [session.run(fetches, {x: v}) for v in ([1, 2, 3], [0, 0, 0], [1, np.inf, 0])]
            return [both[1], *[v for row in values for v in row]]

    for ours, theirs in zip(clipped(tf1), clipped(tf.compat.v1), strict=True):
        if theirs is None:
            assert ours is None
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_rows_can_be_fetched(tf: Any) -> None:
    def fetched(tf: Any) -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            table = tf.constant(TABLE)
            (rows,) = tf.gradients(tf.gather(table, [3, 1, 3]) * 2.0, table)
            return session.run({"rows": rows})["rows"]

    ours, theirs = fetched(tf1), fetched(tf.compat.v1)
    assert type(ours).__name__ == type(theirs).__name__ == "IndexedSlicesValue"
    for part in ("values", "indices", "dense_shape"):
        np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))


def test_a_constraint_holds_after_every_step() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        v = tf1.Variable([1.0, -1.0], constraint=lambda x: tf1.clip_by_value(x, -1.5, 1.5))
        train = tf1.train.GradientDescentOptimizer(1.0).minimize(tf1.reduce_sum(v))
        session.run(tf1.global_variables_initializer())
        session.run(train)
        assert session.run(v).tolist() == [0.0, -1.5]


def test_what_cannot_be_trained_says_why() -> None:
    optimizer = tf1.train.AdamOptimizer()
    with tf1.Graph().as_default(), tf1.Session() as session:
        with pytest.raises(ValueError, match="No variables to optimize"):
            optimizer.minimize(tf1.constant(1.0))
        v = tf1.Variable([1.0], name="alone")
        with pytest.raises(ValueError, match=r"No gradients provided.*alone"):
            optimizer.minimize(tf1.constant(1.0))
        with pytest.raises(ValueError, match="int32"):
            optimizer.minimize(tf1.reduce_sum(v), var_list=[tf1.Variable(1, trainable=False)])
        with pytest.raises(LookupError, match=r"TruncateMod.*test_training"):
            tf1.gradients(tf1.truncatemod(v, 2.0), v)
        assert tf1.gradients(tf1.constant([1]), v) == [None]
        train = optimizer.minimize(tf1.reduce_sum(v))
        with pytest.raises(FailedPreconditionError, match="uninitialized value"):
            session.run(train)


def test_options_of_gradients(tf: Any) -> None:
    def all_of(tf: Any) -> list[Any]:
        with tf.Graph().as_default(), tf.Session() as session:
            a, b = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
            c = a * b
            y = c * a + tf.stop_gradient(a) * 5.0
            alone = tf.constant([7.0])
            first = tf.gradients(y, [a, b, c])
            weighed = tf.gradients([y, c], [a, b], grad_ys=[tf.constant([0.5, 0.25]), None])
            stopped = tf.gradients(y, [a, b], stop_gradients=[c])
            none = tf.gradients(y, alone)
            zero = tf.gradients(y, alone, unconnected_gradients="zero")
            second = tf.gradients(tf.gradients(tf.pow(a, 3.0), a)[0], a)
            found = [*first, *weighed, *stopped, *none, *zero, *second]
            values = iter(session.run([g for g in found if g is not None]))
            return [None if g is None else next(values).tolist() for g in found]

    assert all_of(tf1) == all_of(tf.compat.v1)
