"""Where a run goes by itself: products have BLAS to themselves, other work spreads over a pool."""

import threading

import numpy as np
import pytest
import threadpoolctl

import stepscope
import stepscope.tf1 as tf
from patience import patient
from stepscope.options import RunOptions
from stepscope.runtime.execute.blas_threads import BlasThreads


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def chains(op, size=256):
    """Two chains of ops that do not need each other."""
    ends = []
    for _ in range(2):
        y = tf.ones([size, size])
        for _ in range(6):
            y = op(y)
        ends.append(tf.reduce_sum(y))
    return tf.add_n(ends)


def product(y):
    return tf.matmul(y, y) * 1e-3


def curve(y):
    return tf.exp(tf.sin(y))


def gain(fetch, workers, blas_threads):
    with stepscope.Session() as session:
        compiled = session._compile(session._spec(fetch), ())
        return compiled.plan_for(()).gain(workers, blas_threads)


def threads_of(fetch, feeds=None, **options):
    """The threads that the run did its work on."""
    metadata = stepscope.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        options = RunOptions(trace_level=RunOptions.FULL_TRACE, **options)
        session.run(fetch, feeds, options=options, run_metadata=metadata)
    ops = metadata.ops
    work = np.isin(ops.op, ["MatMul", "Exp"])
    return {ops.thread_names[number] for number in ops.thread[work].tolist()}


def training_step():
    x = tf.placeholder(tf.float32, [128, 256])
    h = x
    for _ in range(3):
        h = tf.nn.relu(tf.matmul(h, tf.Variable(np.ones((256, 256), np.float32))))
    loss = tf.reduce_mean(h)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return step, {x: np.ones((128, 256), np.float32)}


def test_products_gain_from_a_pool_only_where_each_has_one_thread():
    total = chains(product, 512)
    assert not gain(total, workers=2, blas_threads=2).worth_it
    assert gain(total, workers=2, blas_threads=1).worth_it


def test_products_side_by_side_share_the_threads_of_blas():
    total = chains(product, 512)
    assert gain(total, workers=2, blas_threads=8).blas_threads == 4
    assert gain(total, workers=2, blas_threads=1).blas_threads == 1


def test_a_training_step_stays_on_the_callers_thread():
    step, feeds = training_step()
    assert threads_of(step, feeds) == {threading.current_thread().name}


def test_with_a_deadline_it_is_one_task_of_the_pool():
    step, feeds = training_step()
    (name,) = threads_of(step, feeds, timeout_in_ms=60_000)
    assert name.startswith("stepscope/")


def test_branches_of_other_work_go_to_the_pool():
    names = threads_of(chains(curve, 1024))
    assert names
    assert all(name.startswith("stepscope/") for name in names)


def test_a_function_that_may_wait_leaves_the_others_their_threads():
    both = threading.Barrier(2, timeout=patient(30))

    def meet(x):
        both.wait()
        return x

    ends = [tf.py_func(meet, [float(i)], tf.float32) for i in range(2)]
    with tf.Session() as session:
        assert session.run(tf.add_n(ends)) == 1.0


@pytest.fixture
def blas():
    """Of its own, with two threads to begin with."""
    with threadpoolctl.threadpool_limits(2, "blas"):
        made = BlasThreads()
        if made.count() != 2:
            pytest.skip("no BLAS whose threads can be set")
        yield made


def now():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"}  # fmt: skip


def test_threads_are_shared_for_as_long_as_a_run_lasts(blas):
    with blas.share(1):
        assert now() == {1}
        with blas.share(1):
            pass
        assert now() == {1}
        assert blas.count() == 2, "what a product may use when it is alone"
    assert now() == {2}


def test_what_somebody_else_sets_meanwhile_stands(blas):
    with blas.share(1):
        threadpoolctl.threadpool_limits(3, "blas")
    assert now() == {3}


def test_one_thread_asked_for_is_one_thread_for_good(blas):
    with blas.share(2):
        blas.limit(1)
        assert now() == {1}
    assert now() == {1}
    with pytest.warns(UserWarning, match="an earlier session set 1"):
        blas.limit(2)
    assert now() == {1}
    assert blas.count() == 1
