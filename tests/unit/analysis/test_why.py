"""Why an op, a run or a byte is as it is: chains against planted causes."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from analysed_runs import run_of
from stepscope.analysis import critical_path, why_bytes, why_op, why_run
from stepscope.analysis.why import node_named
from stepscope.errors import StepscopeError
from stepscope.metadata import RunMetadata, Status

MS = 1_000_000


def work(x):
    """Long beside all that an engine does between two ops."""
    for _ in range(100):
        x = np.tanh(x)
    return x


def recorded(fetch, x, pool):
    """A run on the embedded engine: on the caller's thread (-1), or on one of a pool."""
    options = stepscope.RunOptions(
        trace_level=stepscope.RunOptions.FULL_TRACE, inter_op_thread_pool=pool
    )
    metadata = stepscope.RunMetadata()
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=1)) as session:
        feed = {x: np.ones(x.shape.as_list(), np.float32)}
        session.run(fetch, feed, options=options, run_metadata=metadata)
    return metadata


def links(found):
    return [(link.kind, link.op) for link in found.rows]


def milliseconds(*rows, **parts):
    """A run of `run_of`'s rows, with times in milliseconds."""
    return run_of(*[(*r[:4], *(int(at * MS) for at in r[4:7])) for r in rows], **parts)


SHARED_THREAD = milliseconds(
    ("a", "Source", [], 1, 0, 0, 2),
    ("slow", "MatMul", [], 1, 0, 2, 40),
    ("late", "Neg", ["a"], 1, 2, 40, 41),
    ("out", "Sum", ["late"], 1, 41, 41, 42),
    sources=lambda: {"slow": "net.py:7"},
)


class TestAnOp:
    def test_its_thread_was_busy_with_another(self):
        found = why_op(SHARED_THREAD, "late")
        assert links(found) == [("asked", "late"), ("thread", "slow"), ("thread", "a")]
        slow = found.rows[1]
        assert (slow.from_ns, slow.to_ns, slow.ns) == (2 * MS, 40 * MS, 38 * MS)
        assert (slow.line, slow.of, slow.gap_ns) == ("net.py:7", "late", 0)
        assert slow.reason == "kept the thread of late busy for 38.0 ms of its wait of 38.0 ms"
        assert found.waited_ns == 38 * MS
        assert [(c.kind, c.op, c.ns) for c in found.covered] == [("wait", "slow", 38 * MS)]

    def test_the_input_that_was_made_last(self):
        run = milliseconds(
            ("a", "Source", [], 1, 0, 0, 10),
            ("fast", "Neg", ["a"], 1, 10, 12, 20),
            ("slow", "MatMul", ["a"], 2, 10, 15, 60),
            ("join", "Add", ["fast", "slow"], 1, 60, 61, 70),
        )
        found = why_op(run, "join")
        assert links(found) == [("asked", "join"), ("input", "slow"), ("input", "a")]
        assert [link.gap_ns for link in found.rows] == [0, MS, 5 * MS]
        assert found.origin == "a waited for no op: the run began then"

    def test_a_quick_op_in_between_hides_no_long_input(self):
        run = milliseconds(
            ("long", "MatMul", [], 1, 0, 0, 50),
            ("tiny", "Const", [], 1, 0, 50, 50.1),
            ("next", "Neg", ["long"], 1, 50, 50.1, 51),
        )
        assert links(why_op(run, "next")) == [("asked", "next"), ("input", "long")]

    def test_what_took_long_is_compared_with_its_median(self):
        def run(ns):
            return run_of(("a", "Neg", [], 1, 0, 0, ns), ("b", "Neg", ["a"], 1, ns, ns, ns + 5))

        found = why_op(run(400), "a", number=3, others=[run(90), run(100), run(130)])
        assert (found.node_ns, found.median_ns, found.compared, found.run) == (400, 100, 3, 3)
        assert found.rows[0].reason == "took 400 ns, 4.0 times its median of 3 other runs"

    def test_the_chain_ends_at_what_comes_from_outside(self):
        pipeline = milliseconds(
            ("iterator", "IteratorV2", [], 1, 0, 0, 1),
            ("next", "IteratorGetNext", ["iterator"], 1, 1, 1, 20),
            ("use", "Neg", ["next"], 1, 20, 20, 21),
        )
        found = why_op(pipeline, "use")
        assert links(found) == [("asked", "use"), ("input", "next")]
        assert "a pipeline outside of the run" in found.origin
        assert links(why_op(pipeline, "next"))[1:] == [("input", "iterator")]
        fed = why_op(milliseconds(("use", "Neg", ["x:0"], 1, 0, 0, 1)), "use")
        assert fed.origin == "what use takes (x) was not made in the run, or not recorded"

    def test_of_several_executions_it_is_the_longest(self):
        loop = milliseconds(*[("body", "Neg", [], 1, i, i, i + 0.1 * (i + 1)) for i in range(5)])
        found = why_op(loop, "body")
        assert (found.executions, found.ns) == (5, MS // 2)

    @pytest.mark.parametrize("pool", [-1, 0], ids=["inline", "pooled"])
    def test_a_recorded_op_names_the_op_that_delayed_it(self, pool):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [300, 300], name="x")
            slow = tf.py_func(work, [x], tf.float32, name="scope/slow")
            with tf.control_dependencies([slow]):
                late = tf.negative(x, name="scope/late")
            metadata = recorded(tf.add(late, 1.0, name="out"), x, pool)
        found = why_op(metadata, "out")
        assert [link.op for link in found.rows[:3]] == ["out", "scope/late", "scope/slow"]
        late, slow = found.rows[1:3]
        assert slow.ns > late.ns
        assert slow.to_ns <= late.from_ns
        assert slow.line.startswith(__file__)
        assert "from outside" in found.origin

    @pytest.mark.parametrize("pool", [-1, 0], ids=["inline", "pooled"])
    def test_on_one_thread_an_op_that_waits_names_what_ran_there(self, pool):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [300, 300], name="x")
            both = [tf.py_func(work, [x], tf.float32, name=name) for name in ("one", "two")]
            metadata = recorded(tf.add_n(both, name="out"), x, pool)
        ops = metadata.ops
        starts = {name: int(ops.start_ns[list(ops.name).index(name)]) for name in ("one", "two")}
        first, second = sorted(starts, key=starts.__getitem__)
        found = why_op(metadata, second)
        assert links(found)[:2] == [("asked", second), ("thread", first)]
        assert found.covered[0].op == first


class TestNames:
    RUN = run_of(*[(name, "Neg", [], 1, 0, 0, 1) for name in ("a/kernel", "a/kernel/read", "b")])

    def test_a_part_that_one_has(self):
        assert node_named(self.RUN, "read") == "a/kernel/read"
        assert node_named(self.RUN, "kernel") == "a/kernel"
        assert node_named(self.RUN, "B") == "b"

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ("ker", "2 ops of the run have 'ker' in their name: a/kernel, a/kernel/read; write"),
            ("a/kernle", "no op of the run has 'a/kernle' in its name, of 3 ops; did you mean a/k"),
            ("zzzzzzz", "stepscope top --by name"),
        ],
    )
    def test_others_say_what_there_is(self, wanted, said):
        with pytest.raises(StepscopeError) as error:
            node_named(self.RUN, wanted)
        assert said in str(error.value)

    def test_a_run_without_ops_says_so(self):
        with pytest.raises(StepscopeError, match="no op was recorded"):
            why_op(RunMetadata(), "x")


def step(matmul=1.0, wait=0.0, outside=0.0, **parts):
    begun = 2 + matmul + wait
    return milliseconds(
        ("read", "ReadFile", [], 7, 0, 0, 2),
        ("net/MatMul", "MatMul", ["read"], 7, 2, 2, 2 + matmul),
        ("net/Relu", "Relu", ["net/MatMul"], 7, 2 + matmul, begun, begun + 0.1),
        ("end", "NoOp", ["net/Relu"], 7, *[begun + 0.1 + outside] * 2, begun + 0.2 + outside),
        sources=lambda: {"net/MatMul": "net.py:7"},
        **parts,
    )


def thirty(number, odd):
    return [(i, odd if i == number else step(1 + i % 3 / 10)) for i in range(30)]


class TestARun:
    def test_the_op_that_was_slow_in_one_of_thirty(self):
        found = why_run(thirty(17, step(matmul=21)), 17)
        assert (found.run, found.ns, found.compared, found.first) == (17, 23_200_000, 28, False)
        assert found.median_ns == 3.3 * MS
        assert [(c.kind, c.op, c.line) for c in found.causes] == [("op", "net/MatMul", "net.py:7")]
        assert links(found) == [("asked", "net/MatMul"), ("input", "read")]
        assert found.rows[0].reason == "took 21.0 ms, 19.9 ms longer than it usually does"
        assert {link.run for link in found.rows} == {17}

    def test_a_wait(self):
        found = why_run(thirty(17, step(wait=15)), 17)
        assert [(c.kind, c.op) for c in found.causes] == [("wait", "net/Relu"), ("outside", "")]
        assert found.rows[0].reason.startswith("waited 15.0 ms longer for a thread")

    def test_rather_the_op_that_took_longer_than_one_that_waited_for_it(self):
        def run(first):
            rows = ("first", "Neg", [], 1, 0, 0, first), ("then", "Neg", [], 1, 0, first, first + 1)
            return milliseconds(*rows)

        found = why_run([(i, run(20 if i == 5 else 2)) for i in range(10)], 5)
        assert {(c.kind, c.op) for c in found.causes} == {("op", "first"), ("wait", "then")}
        assert found.op == "first"

    def test_time_outside_of_ops_is_a_cause_and_the_chain_is_of_the_end(self):
        found = why_run(thirty(17, step(outside=9)), 17)
        assert [(c.kind, c.op) for c in found.causes] == [("outside", "")]
        assert links(found)[0] == ("asked", "end")

    def test_a_run_that_was_not_slower_has_no_cause(self):
        found = why_run(thirty(17, step(matmul=0.5)), 17)
        assert (found.causes, found.op) == ((), "end")
        assert found.ns < found.median_ns

    def test_the_first_and_the_only_one(self):
        found = why_run(thirty(0, step(matmul=50)), 0)
        assert (found.first, found.compared, found.op) == (True, 29, "net/MatMul")
        alone = why_run([(0, step())], 0)
        assert (alone.compared, alone.median_ns, alone.causes) == (0, 0, ())

    def test_numbers_may_have_gaps(self):
        runs = [(2 * place, run) for place, run in thirty(17, step(matmul=21))]
        assert why_run(runs, 34).op == "net/MatMul"
        with pytest.raises(StepscopeError, match="there is no run 3; there are 0 to 58"):
            why_run(runs, 3)

    def test_a_run_that_failed_says_so(self):
        runs = [(0, step()), (1, step(status=Status("INTERNAL", "disk on fire\nmore")))]
        with pytest.raises(StepscopeError, match=r"run 1 failed \(INTERNAL: disk on fire\)"):
            why_run(runs, 1)


@pytest.fixture(scope="module")
def with_a_big_tensor():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [10, 1000], name="x")
        big = tf.tile(x, [100, 1], name="big")
        small = tf.reduce_sum(big, axis=0, name="small")
        return recorded(tf.negative(small, name="out"), x, 0)


class TestBytes:
    def test_the_big_tensor_at_the_peak(self, with_a_big_tensor):
        found = why_bytes(with_a_big_tensor)
        big = found.rows[0]
        assert (big.op, big.type, big.bytes, big.shape) == ("big", "Tile", 4_000_000, "[1000,1000]")
        assert (big.until, big.reason) == ("small", "was freed when small had taken it")
        assert big.from_ns <= found.at_ns < big.to_ns
        assert big.line.startswith(__file__)
        assert sum(row.bytes for row in found.rows) == found.bytes == found.peak_bytes
        assert sum(row.share for row in found.rows) == pytest.approx(1)

    def test_what_was_fed_was_there_before(self, with_a_big_tensor):
        (fed,) = [row for row in why_bytes(with_a_big_tensor).rows if row.op == "x"]
        assert (fed.bytes, fed.from_ns, fed.to_ns) == (40_000, 0, -1)
        assert fed.reason == "was there before the run"

    def test_at_an_instant(self, with_a_big_tensor):
        gone = why_bytes(with_a_big_tensor).rows[0].to_ns
        found = why_bytes(with_a_big_tensor, f"{gone + 1}ns")
        assert "big" not in {row.op for row in found.rows}
        assert found.at_ns == gone + 1
        assert found.bytes < found.peak_bytes

    @pytest.mark.parametrize(
        ("at", "said"), [("1000s", "is after the end of the run"), ("soon", "is no instant")]
    )
    def test_no_instant(self, with_a_big_tensor, at, said):
        with pytest.raises(StepscopeError, match=said):
            why_bytes(with_a_big_tensor, at)

    def test_without_allocations_it_says_how_to_record_them(self):
        with pytest.raises(StepscopeError, match="no single allocations were recorded"):
            why_bytes(step())


def test_the_chain_of_the_end_is_the_critical_path():
    """Where no thread was shared, they are the same ops."""
    run = step(matmul=5)
    chain = [link.op for link in why_op(run, "end").rows]
    assert tuple(chain[::-1]) == critical_path(run).names
