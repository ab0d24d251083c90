"""Findings proved on the recorded graph: what the change makes of it, and what came of it."""

import time
from contextlib import contextmanager

import numpy as np
import pytest

import stepscope.tf1 as tf
from stepscope.analysis.advice import BYTES, STEP, Finding
from stepscope.analysis.advice.rewrite import Again, Rewrite
from stepscope.cli.script.saved_graphs import SavedGraphs
from stepscope.errors import InvalidArgumentError
from stepscope.metadata import iter_runs
from stepscope.metadata.program_notes import PROCESS, Note
from stepscope.proofs import proof as proving
from stepscope.proofs import proof_of, prove
from stepscope.runtime import observers
from stepscope.store import Store

ROWS = np.ones((40, 40), np.float32)
US = 1000


@contextmanager
def recording(place):
    """Every run of the block is stored there, as `stepscope run` does it."""
    graphs = SavedGraphs()
    place.mkdir(exist_ok=True)
    with Store(place) as store:
        store.note(Note(PROCESS, time.time_ns(), 0, 1, "train.py"))

        def add(metadata, graph):
            store.add(metadata, "", graphs.part_of(graph))

        with tf.Graph().as_default(), observers.recording(add, 3):
            yield


class OpsAsTime:
    """A clock that counts the nodes that execute: each takes a microsecond, wherever it runs."""

    def __init__(self):
        self.ops = 0

    def __call__(self):
        return self.ops * US

    def add(self, metadata, graph):
        self.ops += len(metadata.ops)


@pytest.fixture(autouse=True)
def few_pairs(monkeypatch):
    monkeypatch.setattr(proving, "_MOST_PAIRS", proving._LEAST_PAIRS)


def proved(place, rewrite, *, rule="copies", unit=STEP, gain=10.0 * US, share=0.5):
    """The proof of a finding that predicts this gain for this change, of the last run."""
    finding = Finding(
        id=rule, rule=rule, title="", step="", line="", unit=unit, gain=gain, low=0.9 * gain,
        high=1.1 * gain, share=share, total_ns=0.0, sentence="", advice="", evidence=(),
        rewrite=rewrite,
    )  # fmt: skip
    *_, last = iter_runs(place)
    clock = OpsAsTime()
    with observers.recording(clock.add, 0):
        return proof_of(finding, place, last, clock=clock)


def saved_ops(row):
    assert row.lacking == ""
    return row.check.achieved / US


def recorded_casts(place):
    with recording(place):
        x = tf.placeholder(tf.float32, [40, 40], "x")
        hidden = x + 1.0
        for number in range(3):
            wide = tf.cast(hidden, tf.float64, name=f"wide_{number}")
            hidden = tf.cast(wide, tf.float32, name=f"back_{number}")
        loss = tf.reduce_mean(hidden * 2.0, name="loss")
        with tf.Session() as session:
            session.run(loss, {x: ROWS})
    return frozenset(f"{kind}_{number}" for number in range(3) for kind in ("wide", "back"))


def test_casts_there_and_back_are_taken_out_and_the_results_stay(tmp_path):
    casts = recorded_casts(tmp_path)
    row = proved(tmp_path, Rewrite(bypassed=casts), gain=5 * US, share=0.25)
    assert saved_ops(row) == 6
    assert (row.difference, row.made, row.pairs) == (0, ("x:0",), proving._LEAST_PAIRS)
    # The step was recorded to take 20 us, and has 15 nodes: three constants, `_SOURCE` and a fetch.
    assert (row.check.before, row.check.after, row.scale) == (15 * US, 9 * US, 0.75)
    assert row.check.finding.gain == 0.75 * 5 * US
    assert (row.check.least, row.check.most) == (6 * US, 6 * US)
    assert not row.check.inside
    assert row.check.error == pytest.approx(1 - 3.75 / 6)


def test_a_prediction_that_holds_is_said_to(tmp_path):
    casts = recorded_casts(tmp_path)
    row = proved(tmp_path, Rewrite(bypassed=casts), gain=6.1 * US, share=6.1 / 15)
    assert row.check.inside
    assert row.check.error == pytest.approx(0.1 / 6)
    assert "9.00 µs" in row._repr_html_()


def test_a_cast_that_is_needed_cannot_be_taken_out(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float64, [4], "x")
        loss = tf.reduce_mean(tf.cast(x, tf.float32, name="narrow"), name="loss")
        with tf.Session() as session:
            session.run(loss, {x: np.ones(4)})
    row = proved(tmp_path, Rewrite(bypassed=frozenset({"narrow"})))
    assert row.check is None
    assert "only its author knows" in row._repr_html_()
    assert "only its author knows" in row.lacking


def test_transposes_that_undo_each_other_are_taken_out(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [2, 3, 4], "x")
        there = tf.transpose(tf.tanh(x), [1, 2, 0], name="there")
        back = tf.transpose(there, [2, 0, 1], name="back")
        other = tf.transpose(there, [1, 0, 2], name="other")
        with tf.Session() as session:
            session.run([back + 1.0, other], {x: np.ones((2, 3, 4), np.float32)})
    row = proved(tmp_path, Rewrite(bypassed=frozenset({"there", "back", "other"})))
    # `other` is in another order than what it began with, and stays with what it reads.
    assert saved_ops(row) == 2
    assert row.difference == 0


def test_what_is_fed_again_and_again_becomes_a_constant_with_what_follows_from_it(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [8, 30], "x")
        given = tf.placeholder(tf.float32, [30, 40], "table")
        prepared = tf.nn.softmax(tf.tanh(given, name="tanh"), name="prepared")
        loss = tf.reduce_mean(tf.matmul(x, prepared), name="loss")
        with tf.Session() as session:
            session.run(loss, {x: ROWS[:8, :30], given: ROWS[:30]})
    kept = frozenset({"_arg_table_0_0", "tanh", "prepared"})
    row = proved(tmp_path, Rewrite(constant=kept))
    assert saved_ops(row) == 2  # what was fed and two ops are gone, a constant is there
    assert row.difference == 0
    assert set(row.made) == {"x:0", "table:0"}


def test_summaries_and_fetches_that_are_not_used_are_left_out(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [4, 8], "x")
        kernel = tf.get_variable("kernel", [8, 8])
        cost = tf.reduce_mean(tf.square(tf.matmul(x, kernel)), name="cost")
        step = tf.train.GradientDescentOptimizer(0.01).minimize(cost, name="train")
        tf.summary.histogram("seen", kernel)
        written = tf.summary.merge_all(name="written")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([step, cost, written], {x: ROWS[:4, :8]})
    (fetch,) = (
        name
        for name in list(iter_runs(tmp_path))[-1].metadata.ops.names.table
        if name.startswith("_retval_written")
    )
    without = frozenset({"seen", "seen/tag", fetch, fetch[8:-4]})
    summaries = proved(tmp_path, Rewrite(unfetched=without))
    assert saved_ops(summaries) == 4
    assert summaries.difference == pytest.approx(0, abs=1e-6)
    # The variables begin alike, and a step changes them: what is fetched stays the same.
    (cost_fetch,) = (
        name
        for name in list(iter_runs(tmp_path))[-1].metadata.ops.names.table
        if name.startswith("_retval_cost")
    )
    assert saved_ops(proved(tmp_path, Rewrite(unfetched=frozenset({cost_fetch})))) >= 1


def test_branches_that_wait_for_each_other_do_so_no_more(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [4, 4], "x")
        first = tf.reduce_sum(tf.tanh(x), name="first")
        with tf.control_dependencies([first]):
            second = tf.reduce_sum(tf.exp(x, name="exp"))
        loss = tf.add(first, second, name="loss")
        with tf.Session() as session:
            session.run(loss, {x: ROWS[:4, :4]})
    row = proved(tmp_path, Rewrite(cut=frozenset({("first", "exp")}), threads=2))
    assert saved_ops(row) == 0  # the same ops, in another order
    assert row.difference == 0


def test_more_rows_in_a_run_are_counted_by_what_one_of_them_takes(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [1, 8], "x")
        kernel = tf.get_variable("kernel", [8, 8])
        loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, kernel)), name="loss")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(loss, {x: ROWS[:1, :8]})
    row = proved(tmp_path, Rewrite(rows=16))
    assert row.lacking == ""
    assert row.check.after == row.check.before / 16


def test_rows_whose_number_is_part_of_the_graph_are_said_to_be(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [1, 8], "x")
        loss = tf.reduce_mean(tf.reshape(x, [2, 4]), name="loss")
        with tf.Session() as session:
            session.run(loss, {x: ROWS[:1, :8]})
    row = proved(tmp_path, Rewrite(rows=16))
    assert row.check is None
    assert "reshape" in row.lacking.lower()


def test_ops_on_another_device_are_moved_to_their_neighbours(tmp_path):
    with recording(tmp_path):
        hidden = x = tf.placeholder(tf.float32, [4, 4], "x")
        for number in range(3):
            with tf.device("/cpu:1"):
                hidden = tf.tanh(hidden, name=f"away_{number}")
            hidden = tf.matmul(hidden, hidden)
        loss = tf.reduce_mean(hidden, name="loss")
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
            session.run(loss, {x: ROWS[:4, :4]})
    row = proved(tmp_path, Rewrite(moved={f"away_{n}": "/device:CPU:0" for n in range(3)}))
    assert saved_ops(row) >= 12  # there and back, a send and a receive each
    assert row.difference == 0


def test_what_is_made_again_is_not_held_meanwhile(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [512, 512], "x")
        early = tf.exp(x, name="early")
        hidden = tf.cumsum(early, name="first_use")
        for number in range(4):
            hidden = tf.cumsum(hidden, axis=number % 2, name=f"work_{number}")
        joined = tf.concat([hidden, hidden, hidden], axis=0, name="joined")
        small = tf.reduce_sum(joined, axis=0, keepdims=True, name="small")
        late = tf.reduce_sum(early * small, name="late")
        with tf.Session() as session:
            session.run(late, {x: np.ones((512, 512), np.float32)})
    reader = "mul"
    change = Rewrite(again=(Again("early", ("early",), "small", (reader,)),))
    row = proved(tmp_path, change, rule="recompute", unit=BYTES, gain=1 << 20)
    assert row.lacking == ""
    assert row.check.achieved == 1 << 20
    assert row.check.inside
    assert row.added_ns == US
    assert row.difference == 0


def test_a_branch_that_a_feed_decides_is_taken_as_it_was_recorded(tmp_path):
    with recording(tmp_path):
        x = tf.placeholder(tf.float32, [4, 4], "x")
        on = tf.placeholder(tf.bool, [], "on")
        hidden = tf.cast(tf.cast(x, tf.float64, name="wide"), tf.float32, name="back")
        chosen = tf.cond(on, lambda: tf.tanh(hidden), lambda: hidden * 2.0)
        loss = tf.reduce_mean(chosen, name="loss")
        with tf.Session() as session:
            session.run(loss, {x: ROWS[:4, :4], on: True})
    row = proved(tmp_path, Rewrite(bypassed=frozenset({"wide", "back"})))
    assert saved_ops(row) == 2
    assert row.difference == 0


def test_a_loop_that_a_feed_ends_elsewhere_is_said_to(tmp_path):
    with recording(tmp_path):
        times = tf.placeholder(tf.int32, [], "times")
        found = tf.while_loop(lambda n: n < times, lambda n: n + 1, [0])
        loss = tf.cast(tf.cast(found, tf.int64, name="wide"), tf.int32, name="back") + 1
        with tf.Session() as session:
            session.run(loss, {times: 9})
    row = proved(tmp_path, Rewrite(bypassed=frozenset({"wide", "back"})))
    assert row.check is None
    assert "what was fed decides what executes" in row.lacking


@pytest.mark.parametrize("rule", ["python-op", "input-bound", "retracing", "large-tensor", "leak"])
def test_what_is_not_in_the_graph_says_why_it_cannot_be_proved(tmp_path, rule):
    recorded_casts(tmp_path)
    row = proved(tmp_path, None, rule=rule)
    assert row.check is None
    assert row.lacking


def test_steps_that_need_what_no_recording_holds_say_what(tmp_path):
    with recording(tmp_path / "python"), tf.Session() as session:
        session.run(tf.py_func(lambda: np.float32(1), [], tf.float32))
    assert "calls Python functions" in proved(tmp_path / "python", Rewrite()).lacking
    with recording(tmp_path / "queue"), tf.Session() as session:
        queue = tf.FIFOQueue(2, [tf.float32])
        session.run(queue.enqueue(1.0))
    assert "puts into a queue" in proved(tmp_path / "queue", Rewrite()).lacking


def test_a_recording_without_findings_has_nothing_to_prove(tmp_path):
    with recording(tmp_path), tf.Session() as session:
        session.run(tf.constant(1.0))
    assert prove(tmp_path).rows == ()
    with pytest.raises(InvalidArgumentError, match="no finding 'copies'"):
        prove(tmp_path, "copies")


def test_recomputation_saves_what_its_finding_predicts(tmp_path):
    with recording(tmp_path):
        hidden = x = tf.placeholder(tf.float32, [2048, 512], "x")
        for layer in range(3):
            kernel = tf.get_variable(f"kernel_{layer}", [512, 512])
            hidden = tf.matmul(hidden, kernel, name=f"product_{layer}")
            gate = tf.nn.relu(hidden, name=f"gate_{layer}")
            hidden = tf.nn.sigmoid(hidden * gate, name=f"act_{layer}")
        cost = tf.reduce_mean(tf.square(hidden), name="cost")
        step = tf.train.GradientDescentOptimizer(0.001).minimize(cost, name="train")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number in range(4):
                session.run([step, cost], {x: np.full((2048, 512), number, np.float32)})
    [row] = prove(tmp_path, "recompute").rows
    assert row.lacking == ""
    assert row.finding.unit == BYTES
    assert {again.tensor for again in row.finding.rewrite.again} & {"gate_0", "gate_1"}
    assert row.finding.gain >= 4 << 20
    # Which tensors are chosen depends on times; each is 4 MiB, and others are 1 MiB.
    assert abs(row.check.achieved - row.finding.gain) <= 2 << 20
    assert row.difference == pytest.approx(0, abs=1e-6)
