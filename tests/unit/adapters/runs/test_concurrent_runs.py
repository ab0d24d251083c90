"""Traced runs of several threads at once: each metadata is of its own run alone."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest
from models import counted

from patience import patient
from stepscope.adapters import tensorflow as adapter
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

SOFTWARE = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
THREADS = 8
RUNS = 50


def chain(tf, x, number):
    """1 + `number` products under names of their own, each needing the one before."""
    with tf.name_scope(f"thread_{number}"):
        y = tf.sin(x)
        for i in range(number + 1):
            y = tf.matmul(y, x, name=f"t{i}")
        return y


def function_runner(tf, number):
    function = tf.function(lambda x: chain(tf, x, number))
    x = tf.ones([2, 2])
    return lambda **asked: adapter.run(function, x, **asked)


def session_runner(tf, number):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2, 2])
        y = chain(tf, x, number)
    session = adapter.Session(graph=graph)
    feed = {x: np.ones((2, 2), np.float32)}
    return lambda **asked: session.run(y, feed, **asked)


def eager_runner(tf, number):
    x = tf.ones([2, 2])
    return lambda **asked: adapter.run(lambda: chain(tf, x, number), **asked)


def traced(runner):
    metadata = RunMetadata()
    runner(options=SOFTWARE, run_metadata=metadata)
    return metadata


def all_at_once(runners):
    """The metadata of `RUNS` runs of each, all started together; errors are raised here."""
    start = threading.Barrier(len(runners))
    found = [[] for _ in runners]
    errors = []

    def work(number):
        try:
            start.wait()
            for _ in range(RUNS):
                found[number].append(traced(runners[number]))
        except BaseException as error:  # noqa: BLE001 - asserted on below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(runners))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(240))
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    return found


@pytest.mark.parametrize(
    "kinds",
    [
        (function_runner,),
        (function_runner, session_runner, eager_runner),
    ],
    ids=["functions", "mixed"],
)
def test_each_thread_gets_exactly_the_ops_of_its_own_runs(tensorflow, kinds):
    runners = [kinds[n % len(kinds)](tensorflow, n) for n in range(THREADS)]
    for runner in runners:
        runner()
    alone = [counted(traced(runner)) for runner in runners]
    for number, expected in enumerate(alone):
        kinds_of_op = Counter(op for _, op in expected.elements())
        assert kinds_of_op["MatMul"] == number + 1
        assert kinds_of_op["Sin"] == 1
    for expected, metadatas in zip(alone, all_at_once(runners), strict=True):
        assert len(metadatas) == RUNS
        for metadata in metadatas:
            assert metadata.status.ok
            # Of a session's runs after the first TensorFlow's own step stats tell.
            lost = {loss.what for loss in metadata.completeness.losses}
            assert lost == ({"threads"} if metadata.recorder == "step stats" else set())
            assert counted(metadata) == expected


def test_a_run_waits_only_for_runs_that_were_under_way(tensorflow):
    """A long run that begins while another is being read is in a batch of its own."""
    tf = tensorflow
    let_go, inside = threading.Event(), threading.Event()

    def held(x):
        inside.set()
        assert let_go.wait(patient(30))
        return x

    slow = tf.function(lambda x: tf.numpy_function(held, [x], tf.float32))
    quick = function_runner(tf, 0)
    quick()
    slow_metadata = RunMetadata()
    thread = threading.Thread(
        target=lambda: adapter.run(slow, tf.ones([]), options=SOFTWARE, run_metadata=slow_metadata)
    )
    thread.start()
    assert inside.wait(patient(30))
    timer = threading.Timer(0.3, let_go.set)
    metadata = RunMetadata()
    adapter.run(lambda: (quick(), timer.start()), options=SOFTWARE, run_metadata=metadata)
    thread.join(patient(30))
    assert "MatMul" in list(metadata.ops.op)
    assert "PyFunc" not in list(metadata.ops.op)
    assert "PyFunc" in list(slow_metadata.ops.op)
    assert metadata.overhead.ns > 100_000_000, "the wait is stated"
