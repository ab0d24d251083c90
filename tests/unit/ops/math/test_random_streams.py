"""The streams behind the random ops: seeded, going on, one per session and node, thread-safe."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stepscope.graph import Graph, KernelNode
from stepscope.ops.math import random
from stepscope.ops.resources import ResourceStore


def planned(make, store):
    """The first random node of a graph, ready to call in the session of `store`."""
    with Graph().as_default() as graph:
        make()
    op = next(op for op in graph.get_operations() if op.op_type.stateful)
    node = KernelNode(
        op=op,
        input_shapes=tuple(t.shape for t in op.inputs),
        output_shapes=tuple(t.shape for t in op.outputs),
        input_dtypes=tuple(t.dtype for t in op.inputs),
        output_dtypes=tuple(t.dtype for t in op.outputs),
        constants=(None,) * len(op.inputs),
        resources=store,
    )
    inputs = [t.op.get_attr("value") for t in op.inputs]
    return functools.partial(op.op_type.kernel(node).call, *inputs)


def draws(make, store, times=1):
    call = planned(make, store)
    return [call() for _ in range(times)]


MAKERS = {
    "uniform": lambda seed: random.random_uniform([50], seed=seed),
    "uniform_half": lambda seed: random.random_uniform([50], dtype="float16", seed=seed),
    "uniform_int": lambda seed: random.random_uniform([50], 0, 10**6, "int32", seed=seed),
    "normal": lambda seed: random.random_normal([50], seed=seed),
    "truncated": lambda seed: random.truncated_normal([50], seed=seed),
    "multinomial": lambda seed: random.multinomial(np.zeros((2, 100)), 50, seed=seed),
    "shuffle": lambda seed: random.random_shuffle(np.arange(50), seed=seed),
}
each = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@each
def test_a_stream_goes_on_from_run_to_run(make):
    first, second = draws(lambda: make(3), ResourceStore(), times=2)
    assert not np.array_equal(first, second)


@each
def test_two_sessions_draw_the_same_seeded_numbers(make):
    one = draws(lambda: make(3), ResourceStore(), times=3)
    other = draws(lambda: make(3), ResourceStore(), times=3)
    np.testing.assert_array_equal(one, other)


@each
def test_plans_of_one_session_share_the_stream(make):
    store = ResourceStore()
    in_two_plans = [*draws(lambda: make(3), store), *draws(lambda: make(3), store)]
    np.testing.assert_array_equal(in_two_plans, draws(lambda: make(3), ResourceStore(), times=2))


@each
def test_another_seed_is_another_stream(make):
    one, other = (draws(lambda seed=seed: make(seed), ResourceStore()) for seed in (3, 4))
    assert not np.array_equal(one, other)


@each
def test_without_a_seed_every_session_differs(make):
    one, other = (draws(lambda: make(None), ResourceStore()) for _ in range(2))
    assert not np.array_equal(one, other)


@each
def test_concurrent_draws_are_the_sequential_ones_in_some_order(make):
    call = planned(lambda: make(8), ResourceStore())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: call().tobytes(), range(400)))
    expected = draws(lambda: make(8), ResourceStore(), times=400)
    assert sorted(found) == sorted(e.tobytes() for e in expected)


def test_a_plan_with_a_buffer_draws_the_same_numbers():
    call = planned(lambda: MAKERS["normal"](3), ResourceStore())
    buffer = np.empty(50, np.float32)
    assert call(out=buffer) is buffer
    np.testing.assert_array_equal([buffer], draws(lambda: MAKERS["normal"](3), ResourceStore()))


def test_ranges():
    store = ResourceStore()
    (uniform,) = draws(lambda: random.random_uniform([10**5], seed=1), store)
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1
    (half,) = draws(lambda: random.random_uniform([10**5], dtype="float16", name="h"), store)
    assert (half.min(), float(half.max())) == (0, 1023 / 1024)
    (truncated,) = draws(lambda: random.truncated_normal([10**5], seed=1), store)
    assert 1.99 < np.abs(truncated).max() <= 2
    (whole,) = draws(lambda: random.random_uniform([10**4], -2, 3, "int64", name="w"), store)
    assert np.unique(whole).tolist() == [-2, -1, 0, 1, 2]
    (shuffled,) = draws(lambda: random.random_shuffle(np.arange(100), seed=1), store)
    assert sorted(shuffled) == list(range(100))
    assert not np.array_equal(shuffled, np.arange(100))


def test_unlikely_classes_are_never_drawn():
    logits = np.array([[-np.inf, 0.0, -np.inf]])
    (classes,) = draws(lambda: random.multinomial(logits, 1000, seed=1), ResourceStore())
    assert np.unique(classes).tolist() == [1]


def seeds_by(tf, graph_seed, op_seeds):
    with tf.Graph().as_default() as graph:
        if graph_seed is not None:
            tf.set_random_seed(graph_seed)
        for op_seed in op_seeds:
            tf.random_uniform([2], seed=op_seed)
    return [
        (op.get_attr("seed"), op.get_attr("seed2"))
        for op in graph.get_operations()
        if op.type == "RandomUniform"
    ]


class Ours:
    Graph = Graph
    set_random_seed = staticmethod(random.set_random_seed)
    random_uniform = staticmethod(random.random_uniform)


@pytest.mark.parametrize("graph_seed", [None, 0, 42, -1, 2**40])
def test_seeds_in_the_graph_are_tensorflows(tf, graph_seed):
    op_seeds = [None, 5, None, 0, 2**33, -7, None]
    expected = seeds_by(tf.compat.v1, graph_seed, op_seeds)
    assert seeds_by(Ours, graph_seed, op_seeds) == expected
