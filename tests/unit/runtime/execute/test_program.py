"""The generated function of a plan: its edge cases, on both executors."""

import numpy as np
import pytest

import stepscope.tf1 as st
from stepscope.errors import InvalidArgumentError
from stepscope.graph.registry import Kernel, is_registered, register
from stepscope.graph.shapes import UNKNOWN
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions
from stepscope.runtime.plan import plan


@pytest.fixture(params=["inline", "inline with checks", "pooled"])
def run(request, monkeypatch):
    """Runs fetches of the default graph, untraced and then traced; both have to agree."""
    config = ConfigProto()
    if request.param == "pooled":
        monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
        config.session_inter_op_thread_pool.add(num_threads=2)
    timeout = 60_000 if request.param == "inline with checks" else 0
    graph = st.Graph()
    with graph.as_default():
        session = st.Session(graph=graph, config=config)

        def run(fetches, feeds=None):
            plain = session.run(fetches, feeds, options=RunOptions(timeout_in_ms=timeout))
            metadata = RunMetadata()
            options = RunOptions(trace_level=3, timeout_in_ms=timeout)
            traced = session.run(fetches, feeds, options=options, run_metadata=metadata)
            np.testing.assert_equal(traced, plain)
            assert metadata.completeness.complete
            run.metadata = metadata
            return plain

        yield run
        session.close()


def test_nothing_fed_and_nothing_fetched(run):
    v = st.Variable(0, name="v")
    grow = st.assign_add(v, 1)
    assert run(st.global_variables_initializer()) is None
    assert run([grow.op, st.no_op()]) == [None, None]
    assert run(v) == 2, "an untraced and a traced run"


def test_nothing_at_all(run):
    assert run([]) == []
    assert run(st.no_op(name="only")) is None
    assert "only" in run.metadata.ops.name


def test_a_constant_alone(run):
    assert run(st.constant([1, 2])).tolist() == [1, 2]


def test_constants_that_are_fetched_are_the_user_s_to_change(run):
    c = st.constant([1.0, 2.0])
    run(c)[:] = 9
    assert run(c).tolist() == [1.0, 2.0]


def test_scalars_are_numpy_scalars(run):
    x = st.placeholder(st.float32, [])
    total = st.reduce_sum(st.stack([x, x]))
    values = run([x, st.add(x, 1.0), total, st.constant(3)], {x: 2.0})
    assert values == [2.0, 3.0, 4.0, 3]
    assert [type(v) for v in values] == [np.float32, np.float32, np.float32, np.int32]


def test_strings(run):
    s = st.placeholder(st.string, [None])
    joined = st.string_join([s, st.constant("!")])
    values = run([joined, st.constant("one")], {s: ["a", "b"]})
    assert values[0].tolist() == [b"a!", b"b!"]
    assert values[1] == b"one"


def test_several_outputs_some_of_them_unused(run):
    x = st.placeholder(st.float32, [6])
    a, _, c = st.split(x, 3)
    value = run([st.add(a, c), c], {x: np.arange(6)})
    assert value[0].tolist() == [4.0, 6.0]
    assert value[1].tolist() == [4.0, 5.0]


@pytest.mark.parametrize("shape", [[0], [0, 3], [2, 0]])
def test_empty_tensors(run, shape):
    x = st.placeholder(st.float32, [None] * len(shape))
    y = st.negative(st.add(x, 1.0))
    flat = st.reshape(y, [-1])
    values = run([y, flat, st.reduce_sum(y)], {x: np.zeros(shape)})
    assert values[0].shape == tuple(shape)
    assert values[1].shape == (0,)
    assert values[2] == 0.0


def test_shapes_nobody_knows_before_the_run(run):
    x = st.placeholder(st.float32, [None])
    some = st.py_func(lambda v: v[v > 0], [x], st.float32, name="some")
    y = st.add(st.add(some, 1.0), some, name="y")
    assert run(y, {x: [1, -1, 2]}).tolist() == [3.0, 5.0]
    row = list(run.metadata.ops.name).index("y")
    assert run.metadata.ops.output_bytes[row] == 8


def test_the_same_tensor_as_both_inputs(run):
    x = st.placeholder(st.float32, [3])
    y = st.add(x, 1.0)
    z = st.multiply(y, y)
    assert run(st.subtract(z, z), {x: [1, 2, 3]}).tolist() == [0.0, 0.0, 0.0]


def test_control_edges_alone_order_the_ops(run):
    seen = []

    def note(name):
        return st.py_func(lambda: seen.append(name) or np.int64(len(seen)), [], st.int64)

    first = note("first")
    with st.control_dependencies([first]):
        second = note("second")
    with st.control_dependencies([second]):
        last = st.constant(1.0, name="after_both")
    assert run(last) == 1.0
    assert seen == ["first", "second"] * 2


def test_a_program_of_many_ops(run):
    x = st.placeholder(st.float32, [4])
    y = x
    for _ in range(3000):
        y = st.add(y, 1.0)
    assert run(y, {x: [0, 1, 2, 3]}).tolist() == [3000.0, 3001.0, 3002.0, 3003.0]


def test_a_wide_program(run):
    x = st.placeholder(st.float32, [4])
    branches = [st.add(x, float(i)) for i in range(400)]
    assert run(st.add_n(branches), {x: np.zeros(4)}).tolist() == [79800.0] * 4


def test_many_feeds_in_any_order(run):
    xs = [st.placeholder(st.float32, [], name=f"x{i}") for i in range(12)]
    y = st.stack(xs)
    feeds = {x: float(i) for i, x in reversed(list(enumerate(xs)))}
    assert run(y, feeds).tolist() == [float(i) for i in range(12)]


def test_an_error_names_the_op_it_came_from(run):
    x = st.placeholder(st.float32, [None], name="x")
    y = st.negative(x, name="before")
    bad = st.reshape(y, [3], name="bad")
    after = st.negative(bad, name="after")
    with pytest.raises(InvalidArgumentError) as caught:
        run(after, {x: [1.0, 2.0]})
    assert caught.value.op.name == "bad"
    assert caught.value.run_metadata.status.in_flight == ["bad"]
    assert run(after, {x: [1.0, 2.0, 3.0]}).tolist() == [1.0, 2.0, 3.0]


def test_a_kernel_that_returns_a_view_it_declares_is_safe_to_fetch(run):
    if not is_registered("_TestReversed"):
        register(
            "_TestReversed",
            inputs=["x: T"],
            outputs=["y: T"],
            attrs=["T: type"],
            shape=lambda _c: UNKNOWN,
            kernel=lambda _node: Kernel(lambda x: x[::-1], views=(0,)),
        )
    from stepscope.graph.build import apply_op

    x = st.placeholder(st.float32, [3])
    y = st.add(x, 1.0)
    turned = apply_op("_TestReversed", y, name="turned").outputs[0]
    first, second = run([y, turned], {x: [1, 2, 3]})
    first[:] = 0
    assert second.tolist() == [4.0, 3.0, 2.0]


def test_warnings_of_numpy_stay_inside(run):
    x = st.placeholder(st.float32, [2])
    values = run([st.log(x), st.divide(x, 0.0)], {x: [-1.0, 0.0]})
    assert np.isnan(values[0][0])
    assert np.isneginf(values[0][1])
    assert np.isnan(values[1][1])
