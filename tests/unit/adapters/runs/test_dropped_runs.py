"""What a run took is free again when nobody has its metadata any more: at once, not sometime.

Metadata may hold megabytes, in few objects. Python's collector of cycles counts objects, so it
would come late; here it does not come at all.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections import Counter

import numpy as np
import pytest

import stepscope
from stepscope import errors
from stepscope.adapters import tensorflow as adapter
from stepscope.options import RunOptions

DEADLINE_MS = 50


@pytest.fixture(params=["profiler", "executor"])
def recorder(request):
    """Which of the two sees what nodes do."""
    if request.param == "executor":
        request.getfixturevalue("prepared")
    return request.param


@pytest.fixture
def collector_off():
    """Nobody comes by to free what is in a cycle, and only what comes from now on is looked at."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def functions(tf):
    """By what becomes of them, calls under `stepscope.run`."""
    queue = tf.queue.FIFOQueue(1, [tf.float32])
    weight = tf.Variable([[2.0]])

    @tf.function
    def works(x):
        return tf.matmul(x, weight)

    @tf.function
    def fails(x):
        tf.debugging.assert_less(tf.reduce_sum(x), 0.0)
        return x

    @tf.function
    def waits(x):
        return queue.dequeue() + x

    x = tf.ones([1, 1])
    works(x)
    return {"works": lambda o, m: adapter.run(works, x, options=o, run_metadata=m),
            "fails": lambda o, m: adapter.run(fails, x, options=o, run_metadata=m),
            "waits": lambda o, m: adapter.run(waits, x, options=o, run_metadata=m)}  # fmt: skip


def eager(tf):
    """The same as eager code, which calls a function as well."""
    queue = tf.queue.FIFOQueue(1, [tf.float32])
    double = tf.function(lambda x: x + x)

    def works():
        return double(tf.matmul([[1.0]], [[2.0]]))

    def fails():
        return tf.matmul(double(tf.ones([1, 2])), [[1.0]])

    def waits():
        return double(queue.dequeue())

    def runs(code):
        return lambda o, m: adapter.run(code, options=o, run_metadata=m)

    return {"works": runs(works), "fails": runs(fails), "waits": runs(waits)}


def session(tf):
    """The same in a session."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None, 1])
        works = tf.matmul(x, [[2.0]])
        with tf.control_dependencies([v1.assert_less(tf.reduce_sum(x), 0.0)]):
            fails = tf.identity(x)
        waits = tf.queue.FIFOQueue(1, [tf.float32]).dequeue()
    opened = adapter.Session(graph=graph)
    fed = {x: np.ones([1, 1], np.float32)}

    def runs(fetch):
        return lambda o, m: opened.run(fetch, fed, options=o, run_metadata=m)

    return {"works": runs(works), "fails": runs(fails), "waits": runs(waits)}


KINDS = {"function": functions, "eager": eager, "session": session}


def dropped(run, ends, level, *, looked_at=True):
    """Make a run and have nothing of it but a weak reference to its metadata."""
    deadline = DEADLINE_MS if ends == "waits" else 0
    options = RunOptions(trace_level=level, timeout_in_ms=deadline)
    metadata = stepscope.RunMetadata()
    with contextlib.suppress(errors.InvalidArgumentError, errors.DeadlineExceededError):
        run(options, metadata)
    if looked_at:
        assert metadata.status.ok == (ends == "works")
        assert len(metadata.ops) or not level or ends == "waits"
        assert metadata.completeness.losses is not None
    return weakref.ref(metadata)


def alive():
    """How many objects there are of each class of ours."""
    kinds = (type(thing) for thing in gc.get_objects())
    return Counter(kind for kind in kinds if str(kind.__module__).startswith("stepscope"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_run_stays_that_nobody_has(tensorflow, recorder, collector_off, kind):
    for ends, run in KINDS[kind](tensorflow).items():
        for level in (RunOptions.NO_TRACE, RunOptions.SOFTWARE_TRACE, RunOptions.FULL_TRACE):
            for _ in range(2):
                dropped(run, ends, level)  # what is known of graphs once is kept
            before = alive()
            found = [dropped(run, ends, level, looked_at=number % 2 == 0) for number in range(6)]
            assert [reference() for reference in found] == [None] * 6, (ends, level)
            assert {kind for kind, more in (alive() - before).items() if more > 2} == set()
