"""Embedded runs that are alike are stored as readings over one pattern, and come back as they were.

`tests/property/test_random_stored_runs.py` does the same with random graphs on every executor.
"""

from __future__ import annotations

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from run_content import all_of
from stepscope.metadata import GraphFacts, OpColumns
from stepscope.metadata.stored.packing import PackedDamageError
from stepscope.metadata.stored.stored_pattern import (
    NOTHING_STOOD,
    Readings,
    pack_pattern,
    unpack_pattern,
)
from stepscope.metadata.stored.stored_run import RunEncoder, StoredRun, decoded_run
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime import observers
from stepscope.runtime.plan import plan
from stepscope.store import Store

FULL = RunOptions.FULL_TRACE


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


class Seen:
    """Keeps each run, and what a store would keep of it."""

    def __init__(self):
        self.encoder = RunEncoder()
        self.runs = []
        self.stored: list[StoredRun] = []

    def __call__(self, metadata, _graph):
        self.stored.append(self.encoder.encode(metadata.held_now(), "step"))
        self.runs.append(metadata)

    def check(self):
        """What comes back is what was recorded."""
        assert self.runs
        for metadata, stored in zip(self.runs, self.stored, strict=True):
            assert all_of(decoded_run(stored)) == all_of(metadata)
            ops = metadata.ops
            assert stored.status == metadata.status.code
            assert (stored.step_id, stored.ops) == (metadata.step_id, len(ops))
            assert stored.overhead == metadata.overhead
            if len(ops):
                assert stored.started_ns == ops.start_ns.min()
                assert stored.ended_ns == ops.end_ns.max()


@pytest.fixture
def seen():
    found = Seen()
    with observers.recording(found, FULL):
        yield found


def is_of_readings(stored):
    return list(stored.columns) == ["readings", "call"]


def training():
    x = tf.placeholder(tf.float32, [None, 3])
    weights = tf.Variable(np.ones((3, 2), np.float32), name="w")
    loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, weights)))
    return x, weights, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def test_of_alike_steps_only_the_readings_are_stored_again(seen):
    x, weights, _, train = training()
    with tf.Session() as session:
        session.run(weights.initializer)
        for _ in range(5):
            session.run(train, {x: np.ones((4, 3), np.float32)})
    seen.check()
    steps = seen.stored[1:]
    assert all(map(is_of_readings, steps))
    assert len({stored.columns["readings"] for stored in steps}) == 5
    # The first one found the variable as its initializer left it, and so did the others.
    for name in ("facts", "pattern", "standing", "outcome", "sources", "placements"):
        assert len({stored.parts[name][0].digest for stored in steps}) == 1
    assert len(steps[0].columns["readings"]) < 4 * steps[0].ops + 100


def test_runs_that_were_looked_at_share_what_the_others_share(seen):
    x, weights, _, train = training()
    with tf.Session() as session:
        session.run(weights.initializer)
        for _ in range(4):
            session.run(train, {x: np.ones((4, 3), np.float32)})
    first, *steps = seen.runs[1:]
    looked_at = [len(run.ops) for run in steps]
    encoded = [seen.encoder.encode(run, "step") for run in steps]
    assert [stored.ops for stored in encoded] == looked_at
    assert all(map(is_of_readings, encoded))
    # Known again by what they have in common: not one of them is packed once more.
    assert {id(stored.parts["pattern"][0]) for stored in encoded} == {
        id(seen.stored[1].parts["pattern"][0])
    }
    # And packed anew, each by itself, they have the same bytes: their steps are no part of them.
    apart = [RunEncoder().encode(run, "step") for run in (first, *steps)]
    assert len({stored.parts["pattern"][0].digest for stored in apart}) == 1
    assert [decoded_run(stored).ops.step[0] for stored in apart] == [
        run.step_id for run in (first, *steps)
    ]


def test_what_was_written_to_a_run_that_was_looked_at_is_stored(seen):
    x, weights, _, train = training()
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(train, {x: np.ones((4, 3), np.float32)})
    run = seen.runs[-1]
    assert len(run.ops)
    run.cost_graph.node.add(name="by hand")
    again = decoded_run(seen.encoder.encode(run, "step"))
    assert [node.name for node in again.cost_graph.node] == ["by hand"]


def test_other_shapes_are_another_pattern(seen):
    x, weights, loss, _ = training()
    with tf.Session() as session:
        session.run(weights.initializer)
        for rows in (4, 5, 4, 5):
            session.run(loss, {x: np.ones((rows, 3), np.float32)})
    seen.check()
    patterns = [stored.parts["pattern"][0].digest for stored in seen.stored[1:]]
    assert patterns[:2] == patterns[2:]
    assert patterns[0] != patterns[1]


def test_shapes_that_only_a_run_can_tell(seen):
    x = tf.placeholder(tf.float32, [6])
    found = tf.boolean_mask(x, x > 0) * 2.0
    with tf.Session() as session:
        for positive in (2, 3, 2, 0):
            values = np.where(np.arange(6) < positive, 1.0, -1.0)
            session.run(found, {x: values.astype(np.float32)})
    seen.check()
    assert all(map(is_of_readings, seen.stored))
    sizes = [run.ops.output_bytes[run.ops.op == "Mul"].tolist() for run in seen.runs]
    assert sizes == [[8], [12], [8], [0]]


def test_what_queues_hold_differs_from_run_to_run(seen):
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[3]])
    put = queue.enqueue(np.ones(3, np.float32))
    total = tf.reduce_sum(queue.dequeue())
    with tf.Session() as session:
        for step in (put, put, put, total, put, total, total):
            session.run(step)
    seen.check()
    held = [int((run.allocations.event == "held").sum()) for run in seen.runs]
    assert held == [0, 1, 2, 3, 2, 3, 2]


def test_a_variable_that_is_given_away_gets_another_array(seen):
    x, weights, _, train = training()
    with tf.Session() as session:
        session.run(weights.initializer)
        kept = [
            session.run([train, weights], {x: np.ones((4, 3), np.float32)})[1] for _ in range(4)
        ]
    seen.check()
    assert len(kept) == 4


def test_what_is_fed_twice_is_there_once(seen):
    x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    total = x + y
    one, other = np.ones(2, np.float32), np.ones(2, np.float32)
    with tf.Session() as session:
        for feeds in ({x: one, y: one}, {x: one, y: other}, {x: other, y: other}):
            session.run(total, feeds)
    seen.check()
    assert [run.allocations.kind.tolist().count("feed") for run in seen.runs] == [1, 2, 1]


def test_runs_that_fail_come_back(seen):
    x = tf.placeholder(tf.float32, [None])
    checked = tf.check_numerics(tf.log(x), "bad") + 1.0
    with tf.Session() as session:
        for value in (1.0, -1.0, 1.0, -1.0):
            feeds = {x: np.full(3, value, np.float32)}
            if value > 0:
                session.run(checked, feeds)
            else:
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(checked, feeds)
    seen.check()
    assert [stored.status for stored in seen.stored] == ["OK", "INVALID_ARGUMENT"] * 2
    assert list(map(is_of_readings, seen.stored)) == [True, False] * 2


def test_runs_in_which_memory_is_refused_come_back(seen):
    x = tf.placeholder(tf.float32, [None])
    total = tf.reduce_sum(x * 2.0)
    config = ConfigProto(memory_limit_bytes=10_000)
    with tf.Session(config=config) as session:
        session.run(total, {x: np.ones(10, np.float32)})
        with pytest.raises(tf.errors.ResourceExhaustedError):
            session.run(total, {x: np.ones(1500, np.float32)})
        session.run(total, {x: np.ones(10, np.float32)})
    seen.check()
    assert seen.runs[1].out_of_memory is not None


@pytest.mark.parametrize(
    "asked",
    [
        {"allocation_log_buffer_size": 5},
        {"allocation_log_buffer_size": 5, "allocation_log_sampling_rate": 0.5},
        {"report_tensor_allocations_upon_oom": True},
        {"output_partition_graphs": True},
        {"trace_level": FULL},
        {"trace_level": RunOptions.SOFTWARE_TRACE, "inter_op_thread_pool": -1},
        {"timeout_in_ms": 100_000},
    ],
)
def test_whatever_the_options_ask_for(seen, asked):
    x, weights, _, train = training()
    with tf.Session() as session:
        session.run(weights.initializer)
        for _ in range(3):
            feeds = {x: np.ones((4, 3), np.float32)}
            session.run(train, feeds, options=RunOptions(**asked))
            session.run(train, feeds)
    seen.check()


def test_options_are_those_of_the_run(seen):
    x, weights, _, train = training()
    with tf.Session() as session:
        session.run(weights.initializer)
        for pool in (0, -1, 0):
            options = RunOptions(inter_op_thread_pool=pool)
            session.run(train, {x: np.ones((4, 3), np.float32)}, options=options)
    read = [decoded_run(stored).run_options for stored in seen.stored[1:]]
    assert [options.inter_op_thread_pool for options in read] == [0, -1, 0]


def test_runs_on_a_pool_and_with_loops_come_back(seen, monkeypatch):
    monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    x = tf.placeholder(tf.float32, [3])
    many = tf.add_n([tf.reduce_sum(x * float(n)) for n in range(6)])
    loop = tf.while_loop(lambda i, _: i < 4, lambda i, v: (i + 1, v + x), [0, x])
    pools = [ThreadPoolOptionProto(num_threads=2)]
    with tf.Session(config=ConfigProto(session_inter_op_thread_pool=pools)) as session:
        for fetch in (many, many, loop, loop):
            session.run(fetch, {x: np.ones(3, np.float32)})
    seen.check()
    assert not any(map(is_of_readings, seen.stored))


def test_spans_of_the_users_come_back(seen):
    def inside(x):
        with stepscope.annotate("mine"):
            return x + np.float32(1)  # NumPy 1 makes a float64 of x + 1

    doubled = tf.py_func(inside, [tf.constant(1.0)], tf.float32)
    with tf.Session() as session:
        session.run(doubled)
        session.run(doubled)
    seen.check()
    assert [run.ops.name.tolist().count("mine") for run in seen.runs] == [1, 1]


def test_software_runs_have_no_memory():
    seen = Seen()
    x, weights, _, train = training()
    with observers.recording(seen, RunOptions.SOFTWARE_TRACE), tf.Session() as session:
        session.run(weights.initializer)
        for _ in range(3):
            session.run(train, {x: np.ones((4, 3), np.float32)})
    seen.check()
    assert all(map(is_of_readings, seen.stored))
    assert not len(decoded_run(seen.stored[2]).allocations)


def test_readings_of_the_clock_that_are_equal():
    # Two ops that took no time, as a coarse clock has it, are another pattern than those that did.
    facts = GraphFacts.build(name=["a", "b"], op=["Neg", "Neg"], device=["/cpu:0"] * 2)
    ops = OpColumns.over(
        facts, node=[0, 1], thread=[7, 7], scheduled_ns=[1, 1], start_ns=[1, 1], end_ns=[1, 2]
    )
    content = pack_pattern(facts, ops, ops.node, None, np.array([0, 2]))
    again = unpack_pattern(content, facts)
    readings = Readings(np.array([50, 50, 70]), np.empty(0, np.uint64), NOTHING_STOOD)
    found = again.ops(readings, 9)
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([50, 50], [50, 70])
    assert found.step.tolist() == [9, 9]
    with pytest.raises(PackedDamageError, match="fewer readings"):
        again.ops(Readings(np.array([50]), np.empty(0, np.uint64), NOTHING_STOOD), 9)


def test_a_run_that_somebody_looked_at_is_stored_as_well():
    x, weights, _, train = training()
    encoder, runs = RunEncoder(), []
    with observers.recording(lambda run, _graph: runs.append(run), FULL), tf.Session() as session:
        session.run(weights.initializer)
        for _ in range(3):
            session.run(train, {x: np.ones((4, 3), np.float32)})
    assert runs[1].ops.name.tolist()
    runs[2].step_stats.dev_stats[0].node_stats[0].node_name = "renamed"
    found = [decoded_run(encoder.encode(run)) for run in runs]
    assert [all_of(run) for run in found] == [all_of(run) for run in runs]
    assert found[2].ops.name[0] == "renamed"


def test_a_store_reads_them_back(tmp_path):
    x, weights, _, train = training()
    runs = []
    with Store(tmp_path) as store, tf.Session() as session:

        def add(metadata, _graph):
            runs.append(metadata)
            store.add(metadata, "train_step")

        with observers.recording(add, FULL):
            session.run(weights.initializer)
            for _ in range(4):
                session.run(train, {x: np.ones((4, 3), np.float32)})
    loaded = stepscope.load(store.path)
    assert [all_of(run) for run in loaded] == [all_of(run) for run in runs]
    assert loaded[2].ops.facts is loaded[4].ops.facts
    assert loaded[2].ops.tensors is loaded[4].ops.tensors
