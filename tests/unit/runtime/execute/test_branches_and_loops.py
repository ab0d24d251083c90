"""Branches and loops while they run: values, records, memory, failures and deadlines."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from patience import patient
from stepscope.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime.memory.flow_memory import FlowMemory
from stepscope.runtime.plan import plan

MB = 1 << 20
N = MB // 4
"""Floats in a megabyte."""


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture(params=["inline", "pooled"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On the caller's thread, or on a pool with every op handed over."""
    if request.param == "pooled":
        monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    return str(request.param)


def session(executor: str = "inline", **config: Any) -> Any:
    if executor == "pooled":
        config["session_inter_op_thread_pool"] = [ThreadPoolOptionProto(num_threads=3)]
    return tf.Session(config=ConfigProto(**config))


def options(executor: str, **more: Any) -> RunOptions:
    pool = -1 if executor == "inline" else 0
    return RunOptions(**{"trace_level": 3, "inter_op_thread_pool": pool} | more)


def traced(made: Any, executor: str, fetches: Any, feeds: Any = None) -> tuple[Any, Any]:
    metadata = stepscope.RunMetadata()
    values = made.run(fetches, feeds, options=options(executor), run_metadata=metadata)
    rows = metadata.allocations
    assert (np.diff(rows.time_ns) >= 0).all()
    assert (rows.live() >= 0).all()
    assert set(rows.alive_at(len(rows) - 1).kind) <= {"variable", "queue", "feed"}
    return values, metadata


def runs(metadata: Any) -> Counter[str]:
    return Counter(metadata.ops.name.tolist())


# -- values ------------------------------------------------------------------------------------


def sieve(limit: Any) -> Any:
    """How many primes there are below a limit, with loops in loops and conditionals in them."""

    def is_prime(n: Any) -> Any:
        _, found = tf.while_loop(
            lambda d, ok: tf.logical_and(ok, d * d <= n),
            lambda d, ok: [d + 1, tf.not_equal(n % d, 0)],
            [tf.constant(2), tf.constant(True)],
        )
        return found

    def body(n: Any, count: Any) -> list[Any]:
        return [n + 1, tf.cond(is_prime(n), lambda: count + 1, lambda: count)]

    return tf.while_loop(lambda n, _: n < limit, body, [tf.constant(2), tf.constant(0)])[1]


def test_loops_in_loops(executor: str) -> None:
    limit = tf.placeholder(tf.int32, [])
    primes = sieve(limit)
    with session(executor) as made:
        found = [made.run(primes, {limit: n}, options=options(executor)) for n in (2, 3, 20, 60)]
        assert found == [0, 1, 8, 17]
        assert made.run(primes, {limit: 30}) == 10


def test_expensive_ops_of_a_loop_on_a_pool(executor: str) -> None:
    x = tf.placeholder(tf.float32, [64, 64])
    w = tf.constant(np.eye(64, dtype=np.float32) * 0.5)

    def body(i: Any, a: Any, b: Any) -> list[Any]:
        return [i + 1, tf.matmul(a, w), tf.matmul(b, w) + a]

    _, a, b = tf.while_loop(lambda i, *_: i < 12, body, [0, x, x], parallel_iterations=3)
    fed = np.random.default_rng(0).random((64, 64)).astype(np.float32)
    want_a, want_b = fed, fed
    for _ in range(12):
        want_a, want_b = want_a * 0.5, want_b * 0.5 + want_a
    with session(executor) as made:
        got = made.run([a, b], {x: fed}, options=options(executor))
    np.testing.assert_allclose(got[0], want_a, rtol=1e-5)
    np.testing.assert_allclose(got[1], want_b, rtol=1e-5)


def test_what_is_fetched_is_the_callers() -> None:
    x = tf.placeholder(tf.float32, [3])
    same = tf.while_loop(lambda a: tf.reduce_sum(a) > 1e9, lambda a: a + 1.0, [x])
    v = tf.get_variable("v", initializer=np.zeros(3, np.float32), use_resource=True)
    chosen = tf.cond(tf.reduce_sum(x) > 0.0, lambda: v.read_value(), lambda: x)
    fed = np.ones(3, np.float32)
    with session() as made:
        made.run(tf.global_variables_initializer())
        loop, branch = made.run([same, chosen], {x: fed})
        loop += 5
        branch += 5
        assert fed.tolist() == [1, 1, 1]
        assert made.run(v).tolist() == [0, 0, 0]


def test_python_functions_variables_and_assertions_in_a_body(executor: str) -> None:
    seen: list[int] = []
    v = tf.get_variable("v", initializer=np.float32(1.0), use_resource=True)

    def body(i: Any) -> Any:
        noted = tf.py_func(lambda n: seen.append(int(n)) or np.int32(n), [i], tf.int32)
        noted.set_shape([])
        with tf.control_dependencies([tf.assign_add(v, 2.0), tf.Assert(i < 4, [i])]):
            return noted + 1

    i = tf.while_loop(lambda i: i < 4, body, [0], parallel_iterations=1)
    with session(executor) as made:
        made.run(tf.global_variables_initializer())
        assert made.run(i, options=options(executor)) == 4
        assert seen == [0, 1, 2, 3]
        assert made.run(v) == 9.0


def test_a_body_on_another_device() -> None:
    def body(i: Any, x: Any) -> list[Any]:
        with tf.device("/cpu:1"):
            y = x * 2.0
        return [i + 1, y + 1.0]

    _, x = tf.while_loop(lambda i, _: i < 5, body, [0, 1.0])
    with tf.Session(config=ConfigProto(device_count={"CPU": 2})) as made:
        metadata = stepscope.RunMetadata()
        assert made.run(x, options=RunOptions(trace_level=3), run_metadata=metadata) == 63.0
    kinds = Counter(metadata.ops.op.tolist())
    assert kinds["_Recv"] == kinds["_Send"] >= 10
    devices = set(metadata.ops.device[metadata.ops.op == "Mul"].tolist())
    assert devices == {"/job:localhost/replica:0/task:0/device:CPU:1"}


def test_a_branch_that_was_not_taken_has_no_value() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.cond(x > 0.0, lambda: x * 2.0, lambda: x)
    with session() as made:
        with pytest.raises(ValueError, match=r"cond/mul:0.* not fetchable"):
            made.run("cond/mul:0", {x: 3.0})
        with pytest.raises(ValueError, match="cond/mul:0 may not be fed"):
            made.run("cond/Merge:0", {x: 3.0, "cond/mul:0": 1.0})
    # An imported graph does not say what is inside.
    definition = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with session() as made:
            assert made.run("cond/mul:0", {"x:0": 3.0}) == 6.0
            with pytest.raises(InvalidArgumentError, match="cond/mul is on a branch that was not"):
                made.run("cond/mul:0", {"x:0": -3.0})


def test_gradients_of_imported_loops_are_refused() -> None:
    x = tf.constant(2.0, name="x")
    y = tf.while_loop(lambda v: v < 50.0, lambda v: v * x, [x])
    definition = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        x, y = tf.import_graph_def(definition, return_elements=[x.name, y.name], name="")
        with pytest.raises(LookupError, match=r"not made by tf.while_loop, but imported"):
            tf.gradients(y, x)


# -- records -----------------------------------------------------------------------------------


def test_each_iteration_is_reported_as_tensorflow_does(tensorflow: Any, executor: str) -> None:
    def build(tf: Any) -> None:
        x = tf.placeholder(tf.float32, [], name="x")

        def body(i: Any, s: Any) -> list[Any]:
            s = tf.cond(tf.equal(i % 2, 0), lambda: s + x, lambda: s * 0.5)
            return [i + 1, s]

        start = [tf.constant(0, name="zero"), tf.constant(1.0, name="one")]
        _, s = tf.while_loop(lambda i, _: i < 5, body, start)
        tf.identity(s, name="out")

    v1 = tensorflow.compat.v1
    was_on = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with tensorflow.Graph().as_default() as theirs:
            build(v1)
    finally:
        if was_on:
            v1.enable_control_flow_v2()
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    told = v1.RunMetadata()
    with v1.Session(graph=theirs, config=config) as made:
        expected = made.run("out:0", {"x:0": 3.0}, v1.RunOptions(trace_level=3), told)
    counted = Counter(n.node_name for d in told.step_stats.dev_stats for n in d.node_stats)
    build(tf)
    with session(executor) as made:
        value, metadata = traced(made, executor, "out:0", {"x:0": 3.0})
    assert value == expected
    assert runs(metadata) == counted
    assert runs(metadata)["while/cond/add"] == 3
    assert runs(metadata)["while/cond/mul"] == 2
    labels = metadata.step_stats.dev_stats[0].node_stats
    assert sum(n.node_name == "while/NextIteration" for n in labels) == 5


def test_coverage_says_which_branch_was_not_taken() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    out = tf.cond(x > 0.0, lambda: tf.exp(x), lambda: tf.log(x))
    graph = tf.get_default_graph()
    with session() as made:
        metadata = stepscope.RunMetadata()
        made.run(out, {x: 1.0}, options=RunOptions(trace_level=3, output_partition_graphs=True),
                 run_metadata=metadata)  # fmt: skip
    found = stepscope.analysis.coverage(metadata, graph.as_graph_def())
    states = {row.name: row.state for row in found.rows}
    assert states["cond/Exp"] == "measured"
    assert states["cond/Log"] == "branch not taken"


def test_shapes_of_each_iteration() -> None:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    _, x = tf.while_loop(
        lambda n, x: n < 3, lambda n, x: [n + 1, tf.concat([x, x], 0)], [0, tf.constant([1.0])],
        shape_invariants=shapes,
    )  # fmt: skip
    with session() as made:
        value, metadata = traced(made, "inline", x)
    assert value.shape == (8,)
    rows = np.flatnonzero(metadata.ops.name == "while/concat")
    tensors = metadata.ops.tensors
    assert [tensors.shape[tensors.op_index == row][0] for row in rows] == [(2,), (4,), (8,)]


# -- memory ------------------------------------------------------------------------------------


def test_live_and_peak_bytes_of_a_loop(executor: str) -> None:
    x = tf.placeholder(tf.float32, [N], name="x")
    start = tf.negative(x, name="start")
    _, out = tf.while_loop(
        lambda i, _: i < 3, lambda i, a: [i + 1, tf.square(a)], [0, start], parallel_iterations=1
    )
    with session(executor) as made:
        _, metadata = traced(made, executor, out, {x: np.zeros(N, np.float32)})
    rows = metadata.allocations
    big = rows.select(np.flatnonzero(np.abs(rows.bytes) >= MB))
    # The feed is held; each square is made while the one before it is read, and then takes over.
    assert [(e, n) for e, n in zip(big.event, big.name, strict=True)] == [
        ("held", "x"),
        ("allocate", "start"),
        *[("allocate", "while/Square"), ("free", "start")],
        *[("allocate", "while/Square"), ("free", "while/Square")] * 2,
        ("free", "while/Square"),
    ]
    assert big.peak_bytes() == 3 * MB
    # Beside it at the peak: the counter, and what the condition and the addition may have made.
    assert 3 * MB <= metadata.peak_bytes() <= 3 * MB + 32
    assert big.kind.tolist()[-3:] == ["output", "temporary", "output"]
    assert set(rows.name) == {"x", "start", "while/Less", "while/add", "while/Square"}


def test_what_another_thread_ended_earlier_frees_nothing_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker may be held up between the end of its op and the counting of its memory."""
    monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    late_ended, early_counted, late_counted = (threading.Event() for _ in range(3))
    count = FlowMemory.end

    def held_up(self: FlowMemory, task: Any, *rest: Any) -> Any:
        name = self.table.plan.nodes[task.step].name
        if name == "late":
            late_ended.set()
            assert early_counted.wait(patient(20))
        owners = count(self, task, *rest)
        if name == "late":
            late_counted.set()
        elif name == "early":
            early_counted.set()
            assert late_counted.wait(patient(20))
        return owners

    def gate() -> Any:
        assert late_ended.wait(patient(20))
        return np.ones(N, np.float32)

    opened = tf.py_func(gate, [], tf.float32)
    opened.set_shape([N])
    early = tf.square(opened, name="early")
    fed = tf.placeholder(tf.float32, [N])
    late = tf.square(fed, name="late")
    branch = tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2))
    monkeypatch.setattr(FlowMemory, "end", held_up)
    with session("pooled") as made:
        traced(made, "pooled", [early.op, late.op, branch], {fed: np.ones(N)})


def test_what_is_constant_in_a_loop_is_held_until_it_ends() -> None:
    x = tf.placeholder(tf.float32, [N], name="x")
    k = tf.negative(x, name="k")
    _, total = tf.while_loop(
        lambda i, _: i < 2, lambda i, t: [i + 1, t + tf.reduce_sum(k)], [0, 0.0]
    )
    after = tf.fill([N], total)
    with session() as made:
        _, metadata = traced(made, "inline", after, {x: np.ones(N, np.float32)})
    rows = metadata.allocations
    order = [(e, n) for e, n in zip(rows.event, rows.name, strict=True)]
    last_sum = len(order) - 1 - order[::-1].index(("allocate", "while/Sum"))
    assert last_sum < order.index(("free", "k")) < order.index(("allocate", after.op.name))
    assert rows.select(np.flatnonzero(np.abs(rows.bytes) >= MB)).peak_bytes() == 2 * MB


def test_a_tensor_array_holds_its_elements(executor: str) -> None:
    x = tf.placeholder(tf.float32, [N], name="x")
    array = tf.TensorArray(tf.float32, 3)
    _, array = tf.while_loop(
        lambda i, _: i < 3, lambda i, a: [i + 1, a.write(i, x * tf.to_float(i))], [0, array],
        parallel_iterations=1,
    )  # fmt: skip
    stacked = array.stack()
    with session(executor) as made:
        value, metadata = traced(made, executor, stacked, {x: np.ones(N, np.float32)})
    assert value[:, 0].tolist() == [0, 1, 2]
    rows = metadata.allocations
    big = rows.select(np.flatnonzero(np.abs(rows.bytes) >= MB))
    # The feed, three elements and, while they are read, the stack of them.
    assert big.peak_bytes() == (1 + 3 + 3) * MB
    assert list(big.event) == ["held", *["allocate"] * 4, *["free"] * 4]


def test_a_variable_that_a_body_replaces(executor: str) -> None:
    v = tf.get_variable("v", initializer=np.ones(N, np.float32), use_resource=True)

    def body(i: Any, _: Any) -> list[Any]:
        before = v.read_value()
        with tf.control_dependencies([before]):
            changed = v.assign_add(before)
        with tf.control_dependencies([changed]):
            return [i + 1, tf.reduce_sum(before)]

    _, total = tf.while_loop(lambda i, _: i < 3, body, [0, 0.0], parallel_iterations=1)
    with session(executor) as made:
        made.run(tf.global_variables_initializer())
        value, metadata = traced(made, executor, total)
        assert made.run(v)[0] == 8.0
    assert value == 4.0 * N
    # The array that is still read lives beside the one that takes its place.
    assert 2 * MB <= metadata.peak_bytes() < 2 * MB + 64


def test_out_of_memory_in_a_body(executor: str) -> None:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    _, x = tf.while_loop(
        lambda n, x: n < 30, lambda n, x: [n + 1, tf.concat([x, x], 0)],
        [0, tf.constant(np.ones(N // 4, np.float32))], shape_invariants=shapes,
        parallel_iterations=1,
    )  # fmt: skip
    metadata = stepscope.RunMetadata()
    with session(executor, memory_limit_bytes=4 * MB) as made:
        with pytest.raises(ResourceExhaustedError) as caught:
            made.run(x, options=options(executor), run_metadata=metadata)
        # 0.5 MB, then 1 beside it, then 2 beside that one, but not 4 beside 2.
        assert runs(metadata)["while/concat"] == 3
        report = metadata.out_of_memory
        assert (report.request.op, report.request.bytes) == ("while/concat", 4 * MB)
        assert "test_branches_and_loops.py" in report.request.source
        assert report.live == sum(row.bytes for row in report.rows)
        assert 2 * MB <= report.live < 2 * MB + 32
        assert "while/concat" in str(caught.value)
        assert metadata.status.in_flight == ["while/concat"]
        assert made.run(tf.constant(1.0)) == 1.0


def test_memory_is_given_back_between_runs(executor: str) -> None:
    x = tf.placeholder(tf.float32, [N], name="x")
    _, out = tf.while_loop(lambda i, _: i < 3, lambda i, a: [i + 1, a + 1.0], [0, x])
    with session(executor, memory_limit_bytes=4 * MB) as made:
        # Each run needs the feed and two more.
        for _ in range(3):
            made.run(out, {x: np.zeros(N, np.float32)}, options=options(executor))


# -- failures and deadlines --------------------------------------------------------------------


def test_a_failure_in_iteration_k(executor: str) -> None:
    def fragile(n: Any) -> Any:
        if n == 3:
            raise ValueError("three is too many")
        return np.int32(n + 1)

    i = tf.while_loop(
        lambda i: i < 9, lambda i: tf.py_func(fragile, [i], tf.int32, name="fragile"), [0],
        shape_invariants=[tf.TensorShape(None)],
    )  # fmt: skip
    metadata = stepscope.RunMetadata()
    with session(executor) as made:
        with pytest.raises(InvalidArgumentError) as caught:
            made.run(i, options=options(executor), run_metadata=metadata)
        assert "three is too many" in str(caught.value)
        assert "while/fragile" in str(caught.value)
        assert "test_branches_and_loops.py" in str(caught.value)
        assert caught.value.run_metadata is metadata
    assert metadata.status.code == "INVALID_ARGUMENT"
    assert runs(metadata)["while/fragile"] == 3
    assert runs(metadata)["while/LoopCond"] == 4
    assert not metadata.completeness.complete


@pytest.mark.parametrize("pool", [-1, 0])
def test_a_deadline_ends_an_endless_loop(pool: int) -> None:
    endless = tf.while_loop(lambda i: i >= 0.0, lambda i: i + 1.0, [0.0])
    metadata = stepscope.RunMetadata()
    timeout_in_ms = 100
    with session() as made:
        while runs(metadata)["while/add"] <= 10:  # a busy machine may need longer to come so far
            asked = RunOptions(
                trace_level=1, timeout_in_ms=timeout_in_ms, inter_op_thread_pool=pool
            )
            began = time.monotonic()
            with pytest.raises(DeadlineExceededError):
                made.run(endless, options=asked, run_metadata=metadata)
            assert time.monotonic() - began < 20
            assert metadata.status.code == "DEADLINE_EXCEEDED"
            timeout_in_ms *= 2
        assert made.run(tf.constant(2.0)) == 2.0


def test_the_second_input_of_a_switch_is_a_scalar() -> None:
    from stepscope.ops.flow.switches import switch

    pred = tf.placeholder(tf.bool, name="p")
    false, _ = switch(tf.constant(1.0), pred)
    with session() as made, pytest.raises(InvalidArgumentError, match="must be a scalar"):
        made.run(false, {pred: [True, False]})
