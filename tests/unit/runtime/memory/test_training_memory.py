"""The memory of training steps: counted by hand, and flat over many of them."""

import os
from pathlib import Path

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime.plan import plan

ROWS, INPUTS, UNITS, CLASSES = 64, 100, 300, 10
FLOAT = 4


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture(params=["inline", "pooled"])
def config(request, monkeypatch):
    if request.param == "inline":
        return ConfigProto(inter_op_parallelism_threads=-1)
    monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    return ConfigProto(session_inter_op_thread_pool=[ThreadPoolOptionProto(num_threads=2)])


def network(use_resource=False):
    x = tf.placeholder(tf.float32, [ROWS, INPUTS], name="x")
    y = tf.placeholder(tf.int64, [ROWS], name="y")
    weights = [
        tf.Variable(np.full(shape, 0.01, np.float32), name=name, use_resource=use_resource)
        for name, shape in (("w1", (INPUTS, UNITS)), ("w2", (UNITS, CLASSES)))
    ]
    h = tf.nn.relu(tf.matmul(x, weights[0], name="product"), name="h")
    logits = tf.matmul(h, weights[1], name="logits")
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(each))
    return step, {x: np.ones((ROWS, INPUTS), np.float32), y: np.zeros(ROWS, np.int64)}


def traced(session, step, feeds):
    metadata = stepscope.RunMetadata()
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    session.run(step, feeds, options=options, run_metadata=metadata)
    return metadata


def test_live_and_peak_bytes_of_a_step():
    step, feeds = network()
    with tf.Session(config=ConfigProto(inter_op_parallelism_threads=-1)) as session:
        session.run(tf.global_variables_initializer())
        session.run(step, feeds)
        metadata = traced(session, step, feeds)
    w1, w2 = INPUTS * UNITS * FLOAT, UNITS * CLASSES * FLOAT
    fed = ROWS * INPUTS * FLOAT + ROWS * 8
    hidden = ROWS * UNITS * FLOAT
    rows = metadata.allocations
    live = rows.live()
    # Before and after a step: the variables, updated in place, and what is fed.
    assert live[rows.event == "held"][-1] == live[-1] == w1 + w2 + fed
    # The gradient of w1 is made from that of the hidden layer, which was written over the gradient
    # of relu's output; the gradient of w2 waits for its update.
    assert metadata.peak_bytes() == w1 + w2 + fed + hidden + w2 + w1
    at_peak = metadata.alive_at_peak()
    assert sorted(at_peak.bytes[at_peak.kind == "temporary"].tolist()) == [w2, hidden, w1]


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_an_update_is_in_place(config, use_resource):
    step, feeds = network(use_resource)
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        rows = [traced(session, step, feeds).allocations for _ in range(3)]
    for events in rows:
        assert set(events.event[events.kind == "variable"]) == {"held"}
    held = [events.address[events.kind == "variable"].tolist() for events in rows]
    assert held[0] == held[1] == held[2]


def small_cnn():
    x = tf.placeholder(tf.float32, [None, 12, 12, 1])
    y = tf.placeholder(tf.int64, [None])
    weights = [
        tf.Variable(np.random.default_rng(0).normal(0, 0.1, shape).astype(np.float32))
        for shape in ((5, 5, 1, 8), (5, 5, 8, 16), (3 * 3 * 16, 10))
    ]
    h = x
    for kernel in weights[:2]:
        h = tf.nn.relu(tf.nn.conv2d(h, kernel, [1, 1, 1, 1], "SAME"))
        h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    logits = tf.matmul(tf.reshape(h, [-1, 3 * 3 * 16]), weights[2])
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    images = np.random.default_rng(1).random((16, 12, 12, 1), dtype=np.float32)
    return loss, step, {x: images, y: np.arange(16) % 10}


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_the_memory_of_the_process_is_flat_over_200_steps():
    loss, step, feeds = small_cnn()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss, feeds)
        for _ in range(20):
            session.run(step, feeds)
        before = resident()
        for _ in range(180):
            session.run(step, feeds)
        grown = resident() - before
        assert session.run(loss, feeds) < first
    # What one step makes, kept by mistake, would be 180 times half a megabyte.
    assert grown < 8 << 20
