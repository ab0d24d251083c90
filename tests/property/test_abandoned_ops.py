"""What an abandoned op holds stays intact, and what it writes afterwards goes nowhere."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope.tf1 as tf
from patience import patient
from random_examples import examples
from stepscope.errors import DeadlineExceededError
from stepscope.graph.build import apply_op
from stepscope.graph.registry import Kernel, is_registered, register
from stepscope.options import ConfigProto, RunOptions
from stepscope.runtime.memory import buffers
from stepscope.runtime.plan import plan


class Gate:
    """Lets an op through only when it is open; notes what the op then found and wrote."""

    def __init__(self):
        self.open = threading.Event()
        self.open.set()
        self.inside = threading.Semaphore(0)
        self.found = []
        self.done = threading.Semaphore(0)


GATE = Gate()


def _slow_add_kernel(_node):
    def call(a, b, out=None):
        blocked = not GATE.open.is_set()
        if blocked:
            GATE.inside.release()
            GATE.open.wait(patient(30))
            GATE.found.append((np.array(a), np.array(b)))
        result = np.add(a, b, out=out)
        if blocked:
            GATE.done.release()
        return result

    return Kernel(call, out="keyword", forwards=(0, 1))


if not is_registered("_TestSlowAdd"):
    register(
        "_TestSlowAdd",
        inputs=["a: T", "b: T"],
        outputs=["c: T"],
        attrs=["T: type"],
        shape=lambda c: c.input(0),
        kernel=_slow_add_kernel,
        stateful=True,
    )


@pytest.fixture(autouse=True, scope="module")
def poisoned():
    before = buffers.poisoning()
    buffers.poisoning(True)
    yield
    buffers.poisoning(before)


def graph_of(before, after):
    """x, a chain of `before` ops, a slow op, a chain of `after` ops."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [8], name="x")
        a = x
        for _ in range(before):
            a = tf.add(a, 1.0)
        b = tf.multiply(x, 2.0)
        for _ in range(before):
            b = tf.add(b, 1.0)
        y = apply_op("_TestSlowAdd", a, b, name="slow").outputs[0]
        for _ in range(after):
            y = tf.add(y, 1.0)
        total = tf.add(y, a)
    return graph, x, total


def expected_of(x, before, after):
    a, b = x + before, x * 2 + before
    return a, b, a + b + after + a


@pytest.mark.parametrize("parallel", [False, True], ids=["inline", "parallel"])
@examples(15)
@given(
    before=st.integers(0, 4),
    after=st.integers(0, 4),
    later=st.lists(st.integers(-50, 50), min_size=2, max_size=6),
)
def test_runs_after_an_abandoned_one(parallel, before, after, later):
    with pytest.MonkeyPatch.context() as patch:
        config = ConfigProto()
        if parallel:
            patch.setattr(plan, "EXPENSIVE_NS", -1)
            config.session_inter_op_thread_pool.add(num_threads=2)
        graph, x, total = graph_of(before, after)
        with tf.Session(graph=graph, config=config) as session:
            check_runs(session, x, total, before, after, later)


def check_runs(session, x, total, before, after, later):
    GATE.found.clear()
    first = np.arange(8, dtype=np.float32)
    results = [session.run(total, {x: first})]
    GATE.open.clear()
    try:
        fed = first + 100
        # The op may not have been reached in time on a busy machine: then nothing is abandoned.
        with pytest.raises(DeadlineExceededError) as caught:
            session.run(total, {x: fed}, options=RunOptions(timeout_in_ms=40))
        assert caught.value.run_metadata.status.in_flight in (["slow"], [])
        abandoned = caught.value.run_metadata.status.in_flight == ["slow"]
        if abandoned:
            # Other runs go by while the abandoned op is still inside.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(GATE, "open", _opened())
                results += [session.run(total, {x: first + n}) for n in later]
    finally:
        GATE.open.set()
    if abandoned:
        assert GATE.done.acquire(timeout=patient(30))
        ((a, b),) = GATE.found
        wanted_a, wanted_b, _ = expected_of(fed, before, after)
        np.testing.assert_array_equal(a, wanted_a)
        np.testing.assert_array_equal(b, wanted_b)
        numbers = [0, *later]
        results += [session.run(total, {x: first + n}) for n in later]
        for value, n in zip(results, numbers + later, strict=True):
            np.testing.assert_array_equal(value, expected_of(first + n, before, after)[2])


def _opened():
    event = threading.Event()
    event.set()
    return event
