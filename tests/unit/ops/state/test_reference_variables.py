"""Reference variables on every executor, and what of a variable may leave a session."""

from __future__ import annotations

import threading
from typing import Any

import cases_reference_variables as rows
import numpy as np
import pytest
from op_cases import OURS, Case, flatten

import stepscope
import stepscope.tf1 as tf1
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime.debug.debugger import debug_callback
from stepscope.runtime.plan import plan

GOOD = [c for c in rows.CASES if not c.fails]


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf1.Graph().as_default() as made:
        yield made


def in_tensorflow(tf: Any, case: Case) -> list[Any]:
    with tf.Graph().as_default():
        fetches = flatten(case.build(tf.compat.v1))
        initializer = tf.compat.v1.global_variables_initializer()
        with tf.compat.v1.Session() as session:
            session.run(initializer)
            values: list[Any] = session.run(fetches, dict(case.feeds))
            return values


def ours(case: Case, config: ConfigProto, options: RunOptions | None, imported: bool) -> list[Any]:
    with tf1.Graph().as_default() as made:
        fetches = [t.name for t in flatten(case.build(OURS))]
        initializer = tf1.global_variables_initializer().name
        message = made.as_graph_def()
    if imported:
        with tf1.Graph().as_default() as made:
            tf1.import_graph_def(message, name="")
    metadata = stepscope.RunMetadata()
    with tf1.Session(graph=made, config=config) as session:
        session.run(initializer)
        values: list[Any] = session.run(
            fetches, dict(case.feeds), options=options, run_metadata=metadata
        )
    if options is not None and options.trace_level:
        live = metadata.allocations.live()
        assert (live >= 0).all()
    return values


@pytest.mark.parametrize("case", GOOD, ids=lambda c: c.id)
def test_every_executor_gives_what_tensorflow_gives(
    tf: Any, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = in_tensorflow(tf, case)
    pools = ConfigProto(session_inter_op_thread_pool=[ThreadPoolOptionProto(num_threads=3)])
    full = RunOptions(trace_level=RunOptions.FULL_TRACE)
    ways: dict[str, Any] = {
        "untraced": (ConfigProto(), None, False),
        "inline": (ConfigProto(), RunOptions(trace_level=3, inter_op_thread_pool=-1), False),
        "with a deadline": (ConfigProto(), RunOptions(timeout_in_ms=60_000), False),
        "imported": (ConfigProto(), full, True),
    }
    for way, (config, options, imported) in ways.items():
        for found, value in zip(ours(case, config, options, imported), expected, strict=True):
            np.testing.assert_array_equal(found, value, err_msg=way)
    monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    for options in (None, full):
        for found, value in zip(ours(case, pools, options, False), expected, strict=True):
            np.testing.assert_array_equal(found, value, err_msg="pooled")


def test_an_op_beside_an_assignment_gets_what_was_read() -> None:
    v = tf1.Variable(2.0, use_resource=False)
    read = tf1.identity(v)
    with tf1.control_dependencies([read]):
        assigned = tf1.assign_add(v, 1.0)
    beside = read * 10.0
    with tf1.control_dependencies([assigned]):
        after = read * 10.0
    with tf1.Session() as session:
        for n in range(3):
            session.run(v.initializer)
            assert session.run([assigned, beside, after]) == [3.0, 20.0, 30.0], n


def test_a_loop_sees_what_another_thread_assigns() -> None:
    v = tf1.Variable(0.0, use_resource=False)
    turned = threading.Event()

    def turn(i: Any) -> Any:
        if i == 3:
            turned.set()
        return i + 1

    rounds = tf1.while_loop(
        lambda _i: tf1.less(v, 1.0), lambda i: tf1.py_func(turn, [i], tf1.int64), [np.int64(0)],
        shape_invariants=[tf1.TensorShape(None)],
    )  # fmt: skip
    stop = tf1.assign(v, 5.0)
    with tf1.Session() as session:
        session.run(v.initializer)
        found: list[Any] = []
        options = RunOptions(timeout_in_ms=120_000)
        thread = threading.Thread(target=lambda: found.append(session.run(rounds, options=options)))
        thread.start()
        assert turned.wait(120)
        session.run(stop)
        thread.join()
    assert found[0] >= 4


def test_training_steps_do_not_see_their_own_updates(tf: Any) -> None:
    """A weight that is used twice: its gradient is computed from one value of it."""
    images = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def steps(tf: Any) -> Any:
        w = tf.Variable(np.eye(4, dtype=np.float32) * 0.5, use_resource=False)
        hidden = tf.tanh(tf.matmul(tf.constant(images), w))
        loss = tf.reduce_sum(tf.square(tf.matmul(hidden, w)))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(
            loss, gate_gradients=tf.train.Optimizer.GATE_GRAPH
        )
        with tf.control_dependencies([train]):
            total = tf.reduce_sum(w * 1.5)
        with tf.control_dependencies(None):
            initializer = tf.global_variables_initializer()
        with tf.Session() as session:
            session.run(initializer)
            return [session.run([loss, total]) for _ in range(3)]

    with tf.Graph().as_default():
        expected = steps(tf.compat.v1)
    np.testing.assert_allclose(steps(tf1), expected, rtol=1e-5)


# -- what leaves a session ---------------------------------------------------------------------


def test_no_object_of_the_session_is_fetched() -> None:
    v = tf1.Variable(2.0, use_resource=False)
    kept = tf1.Variable(3.0, use_resource=True)
    queue = tf1.FIFOQueue(3, tf1.float32)
    array = tf1.TensorArray(tf1.float32, 3)
    either = tf1.cond(v > 0.0, lambda: tf1.assign_add(v, 1.0), lambda: tf1.identity(v))
    handles = [kept.handle, queue.queue_ref, array.handle]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run(either) == 3.0
        for handle, seen in zip(handles, session.run(handles), strict=True):
            assert isinstance(seen, np.ndarray), handle
            assert (seen.shape, seen.dtype.names) == ((8,), ("resource",))


def test_no_object_of_the_session_is_handed_to_a_function() -> None:
    v = tf1.Variable(2.0, use_resource=False)
    kept = tf1.Variable(3.0, use_resource=True)
    seen: list[Any] = []

    def note(*values: Any) -> Any:
        seen.extend(values)
        return np.float32(0)

    either = tf1.cond(v > 0.0, lambda: tf1.assign_add(v, 1.0), lambda: tf1.identity(v))
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        session.run(tf1.py_func(note, [either, kept.handle], tf1.float32))
    assert seen[0] == 3.0
    assert isinstance(seen[1], np.ndarray)


def test_a_watch_inside_a_branch_sees_the_value_of_a_reference() -> None:
    v = tf1.Variable(2.0, use_resource=False, name="v")
    either = tf1.cond(v > 0.0, lambda: tf1.assign_add(v, 1.0, name="add"), lambda: v + 0.0)
    values: dict[str, Any] = {}
    options = RunOptions()
    watch = options.debug_options.debug_tensor_watch_opts.add()
    watch.node_name, watch.output_slot = "cond/add", 0
    watch.debug_ops.append("DebugIdentity")
    watch.debug_urls.append("memcbk://reference")
    with tf1.Session() as session:
        session.run(v.initializer)
        stop = debug_callback("reference", lambda name, _slot, _op, a: values.update({name: a}))
        try:
            session.run(either, options=options)
        finally:
            stop()
    assert values == {"cond/add": 3.0}
