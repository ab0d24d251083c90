"""What to change in a program, and what came of a change."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stepscope.tf1 as tf
from analysed_runs import T0, run_of
from stepscope.analysis import NamedRun, advise, memory_growth, steps
from stepscope.analysis.advice import AdviceSums
from stepscope.analysis.advice.check import chosen, growth_check, peak_check, step_check
from stepscope.analysis.advice.rules.recompute import BytesOverTime, _Idle, _unknown_bytes
from stepscope.errors import InvalidArgumentError
from stepscope.metadata import AllocationColumns, Note, Program, RunMetadata
from stepscope.metadata.program_notes import CallTime
from stepscope.options import RunOptions

LINES = {"wide": "train.py:8", "back": "train.py:9", "x": "train.py:7"}
MS = 1_000_000
MIB = 1 << 20


def step(cast_ms, *, work_ms=10):
    """A step that casts a tensor there and back, if that takes time, and works."""
    rows, at, before = [], 0, "x"
    parts = [("x", "Tanh", work_ms), ("wide", "Cast", cast_ms), ("back", "Cast", cast_ms)]
    for name, kind, long in parts:
        if not long:
            continue
        rows.append((name, kind, [before] if name != "x" else [], 7, at, at, at + long * MS))
        at, before = at + long * MS, name
    return run_of(*rows, sources=lambda: LINES, call=CallTime(T0, T0 + at, 7))


def recorded(*runs):
    return [(f"run_{i:06d} train", run) for i, run in enumerate(runs)]


OLD = recorded(*[step(5)] * 8)


def test_a_finding_has_its_line_its_gain_and_what_was_seen():
    (found,) = advise(OLD).rows
    assert (found.id, found.line, found.step) == ("copies@train.py:8", "train.py:8", "train")
    assert found.gain == pytest.approx(10 * MS, rel=0.05)
    assert found.low < 10 * MS < found.high
    assert found.share == pytest.approx(0.5, abs=0.03)
    assert [(one.what, one.ns) for one in found.evidence] == [("wide", 5 * MS), ("back", 5 * MS)]
    assert "would save" in found.sentence
    assert found.error == 0


def fed_with_a_table(*, around_ms):
    """A step of a session on TensorFlow that looks up rows of a table, which is fed."""
    rows = [
        ("_arg_table_0_0", "_Arg", [], 7, 0, 0, 0),
        ("rows", "GatherV2", ["_arg_table_0_0"], 7, 0, 0, MS),
    ]
    return run_of(*rows, call=CallTime(T0 - around_ms * MS, T0 + MS, 7))


def advised_of_feeds(size, **step):
    sums = AdviceSums()
    for run in recorded(*[fed_with_a_table(**step)] * 8):
        sums.add(NamedRun(*run))
    feeds = Note("feeds", T0, details={"feeds": {"table:0": [8, 7, size]}})
    began = Note("process", T0, 0, 7, "train.py")
    return sums.advice(Program(Path("out"), (began, feeds)))


def test_feeding_what_never_changes_takes_the_time_of_copying_it():
    (found,) = advised_of_feeds(10_000_000, around_ms=4).rows
    assert found.rule == "fed-constant"
    # All ops follow from the table; beside them the call took 4 ms, some of it to copy 10 MB.
    assert found.low == pytest.approx(1.8 * MS, rel=0.05)
    assert found.high == pytest.approx(5 * MS, rel=0.05)
    # Of a kilobyte nobody is told that the call would be shorter by much.
    (small,) = advised_of_feeds(1_024, around_ms=4).rows
    assert small.high == pytest.approx(MS, rel=0.06)


def test_a_program_without_copies_gets_no_finding():
    assert advise(recorded(*[step(0)] * 8)).rows == ()


@pytest.mark.parametrize(("cast_ms", "spoken_of"), [(0.03, False), (0.2, True)])
def test_copies_are_spoken_of_where_a_step_gains_a_hundredth(cast_ms, spoken_of):
    found = advise(recorded(*(step(cast_ms) for _ in range(8))))
    assert [row.rule for row in found.rows] == (["copies"] if spoken_of else [])


def test_what_was_achieved_is_compared_with_what_was_predicted():
    finding = chosen(advise(OLD), "copies")
    kept = step_check(finding, steps(OLD), steps(recorded(*[step(0)] * 8)))
    assert (kept.before, kept.after, kept.achieved) == (20 * MS, 10 * MS, 10 * MS)
    assert kept.inside
    assert kept.error < 0.05
    missed = step_check(finding, steps(OLD), steps(recorded(*[step(4)] * 8)))
    assert (missed.achieved, missed.inside) == (2 * MS, False)


def test_a_finding_that_there_is_not_is_an_error_that_names_those_there_are():
    with pytest.raises(InvalidArgumentError, match=r"its findings: copies@train\.py:8"):
        chosen(advise(OLD), "leak")


def test_advice_shows_itself_in_a_notebook():
    shown = advise(OLD)._repr_html_()
    assert "copies@train.py:8" in shown
    finding = chosen(advise(OLD), "copies")
    assert "predicted" in step_check(finding, steps(OLD), steps(OLD))._repr_html_()


def leaking(steps, *, kept=True):
    """A program that puts a MiB into a queue in each step, which nobody takes out."""
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(1000, [tf.float32], shapes=[[512, 512]], name="history")
        put = queue.enqueue([tf.fill([512, 512], 1.0, name="made")], name="put")
        taken = queue.dequeue(name="taken")
        found = []
        for _ in range(steps):
            found.append(RunMetadata())
            full = RunOptions(trace_level=RunOptions.FULL_TRACE)
            session.run(put, options=full, run_metadata=found[-1])
            if not kept:
                session.run(taken)
    return found


def test_memory_that_grows_is_a_finding_with_its_line_and_bytes_a_step():
    [found] = [row for row in advise(leaking(12)).rows if row.rule == "leak"]
    assert "test_advice.py" in found.line
    assert (found.gain, found.low, found.high) == (MIB, MIB, MIB)
    assert found.gains == "1.00 MiB ± 0 B a step"
    assert [(one.what, one.bytes) for one in found.evidence] == [("put", 11 * MIB)]
    assert "take out of the queue" in found.advice
    assert not [row for row in advise(leaking(12, kept=False)).rows if row.rule == "leak"]


def test_a_leak_is_checked_by_what_grows_in_a_step():
    finding = chosen(advise(leaking(12)), "leak")
    old, mended = memory_growth(leaking(12)), memory_growth(leaking(12, kept=False))
    kept = growth_check(finding, old, mended)
    assert (kept.before, kept.after, kept.inside, kept.error) == (MIB, 0, True, 0)
    missed = growth_check(finding, old, old)
    assert (missed.achieved, missed.inside) == (0, False)
    with pytest.raises(InvalidArgumentError, match="too few runs"):
        growth_check(finding, old, memory_growth(leaking(2)))


def serial(long_us, kind="Tanh", engine="embedded"):
    """Two ops of that length of which one waits for the other, and needs nothing of it."""
    us = 1000
    rows = [
        ("one", kind, [], 7, 0, 0, long_us * us),
        ("two", kind, ["^one"], 7, 0, long_us * us, 2 * long_us * us),
        ("sum", "AddN", ["one", "two"], 7, 0, 2 * long_us * us, (2 * long_us + 1) * us),
    ]
    return run_of(*rows, engine=engine, call=CallTime(T0, T0 + (2 * long_us + 1) * us, 7))


def test_ops_that_are_shorter_than_waking_a_thread_are_not_sent_to_one():
    assert advise(recorded(*[serial(20)] * 8)).rows == ()
    [found] = advise(recorded(*[serial(2000)] * 8)).rows
    assert found.rule == "serial-path"
    assert found.low < found.gain < found.high < 2.1 * MS


def test_a_machine_that_is_busy_widens_the_interval_of_what_another_thread_gains():
    even = [serial(3000)] * 12
    uneven = [serial(2000), serial(3000), serial(4000)] * 4
    [quiet], [busy] = (advise(recorded(*runs)).rows for runs in (even, uneven))
    assert busy.gain == pytest.approx(quiet.gain, rel=0.02)
    assert busy.high - busy.gain > 2 * (quiet.high - quiet.gain)
    assert busy.gain - busy.low > 1.1 * (quiet.gain - quiet.low)
    # Afterwards both branches run side by side at the pace of the quickest runs, or the slowest.
    for long_us in (2000, 4000):
        achieved = 6 * MS - (1.05 * long_us + 300) * 1000
        assert busy.low < achieved < busy.high


def test_what_waking_a_thread_took_in_the_runs_is_what_it_will_take():
    def woken(us):
        rows = [
            ("one", "Tanh", [], 7, 0, 0, 2 * MS), ("two", "Tanh", ["^one"], 7, 0, 2 * MS, 4 * MS),
            ("away", "Neg", ["one"], 8, 0, 2 * MS + us * 1000, 2 * MS + us * 1000 + 10),
            ("sum", "AddN", ["one", "two"], 7, 0, 4 * MS, 4 * MS + 1000),
        ]  # fmt: skip
        return run_of(*rows, engine="embedded", call=CallTime(T0, T0 + 4 * MS + 1000, 7))

    [quick] = advise(recorded(*[woken(50)] * 8)).rows
    [slow] = advise(recorded(*[woken(700)] * 8)).rows
    assert quick.gain - slow.gain == pytest.approx(0.65 * MS, rel=0.2)


@pytest.mark.parametrize("kind", ["Cumsum", "PyFunc"])
def test_ops_that_keep_pythons_lock_gain_nothing_from_another_thread(kind):
    runs = [serial(2000, kind)] * 8
    assert "serial-path" not in {row.rule for row in advise(recorded(*runs)).rows}
    # TensorFlow's kernels have no such lock.
    runs = [serial(2000, kind, "tensorflow")] * 8
    assert "serial-path" in {row.rule for row in advise(recorded(*runs)).rows}


def test_a_gain_is_of_a_step_of_the_whole_recording():
    # Every second run is looked at: these are the short ones.
    found = advise(recorded(step(5), *[step(5), step(15)] * 15)).rows[0]
    assert found.step == "train"
    lengths = steps(recorded(step(5), *[step(5), step(15)] * 15)).rows[0].median_ns
    assert lengths == 30 * MS
    assert found.gain == pytest.approx(10 * MS * 30 / 20, rel=0.05)


def test_a_tensor_that_is_most_of_the_peak_is_named_with_who_holds_it():
    runs = []
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [4096, 1], name="x")
        pairs = tf.matmul(x, x, transpose_b=True, name="pairs")
        total = tf.reduce_sum(pairs, name="total")
        for _ in range(3):
            runs.append(RunMetadata())
            full = RunOptions(trace_level=RunOptions.FULL_TRACE)
            feed = {x: np.ones((4096, 1), np.float32)}
            session.run(total, feed, options=full, run_metadata=runs[-1])
    [found] = [row for row in advise(runs).rows if row.rule == "large-tensor"]
    assert "test_advice.py" in found.line
    assert found.title.startswith("`pairs`")
    assert found.title.endswith("held until `total` has read it")
    assert [(one.what, one.bytes) for one in found.evidence] == [
        ("pairs", 64 * MIB),
        ("total", 0),
    ]
    assert found.low == pytest.approx(0.95 * 32 * MIB)
    assert found.high <= 64 * MIB
    peak = runs[-1].peak_bytes()
    kept = peak_check(found, peak, peak - 50 * MIB)
    assert (kept.achieved, kept.inside) == (50 * MIB, True)
    assert not peak_check(found, peak, peak).inside


def test_a_large_tensor_that_nothing_reads_is_named_too():
    """The run ended before its reader began, as one does that is out of memory."""
    allocations = AllocationColumns.build(
        name=["base", "wide"],
        device=["CPU:0"] * 2,
        time_ns=[T0, T0 + 1],
        event=["allocate"] * 2,
        bytes=[16 * MIB, 64 * MIB],
    )
    rows = [("base", "Tanh", [], 7, 0, 0, MS), ("wide", "Tile", [], 7, MS, MS, 2 * MS)]
    call = CallTime(T0, T0 + 2 * MS, 7)
    runs = recorded(*[run_of(*rows, call=call, allocations=lambda: allocations)] * 3)
    [found] = [row for row in advise(runs).rows if row.rule == "large-tensor"]
    assert found.title == "`wide` is 80% of the peak of 80.0 MiB"
    assert [one.what for one in found.evidence] == ["wide"]


def recomputed(*, changed):
    """What `recompute` finds in a program that reads a large tensor before its peak and after it.

    The tensor is made of a variable, which may change in between.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        scale = tf.Variable(2.0, use_resource=False, name="scale")
        x = tf.placeholder(tf.float32, [1024, 1024], "x")
        early = tf.multiply(x, scale, name="early")
        hidden = tf.cumsum(early, name="first_use")
        for number in range(6):  # a step that takes far longer than making `early` again
            hidden = tf.cumsum(hidden, axis=number % 2)
        joined = tf.concat([hidden] * 4, axis=0, name="joined")
        small = tf.reduce_sum(joined, axis=0, keepdims=True, name="small")
        with tf.control_dependencies([small]):
            update = tf.assign(scale, 3.0) if changed else tf.no_op()
        with tf.control_dependencies([update]):
            late = tf.reduce_sum(tf.multiply(early, small, name="late"), name="loss")
        session.run(tf.global_variables_initializer())
        found = []
        for _ in range(4):
            found.append(RunMetadata())
            full = RunOptions(trace_level=RunOptions.FULL_TRACE)
            session.run(late, {x: np.ones((1024, 1024))}, full, found[-1])
    return [row for row in advise(found).rows if row.rule == "recompute"]


def test_a_tensor_that_is_held_over_the_peak_and_is_cheap_is_a_finding():
    [found] = recomputed(changed=False)
    assert "`early`" in found.title
    assert "test_advice.py" in found.line
    assert found.gain == pytest.approx(4 * MIB, rel=0.01)
    assert found.low < 4 * MIB < found.high
    assert [(one.what, one.bytes) for one in found.evidence] == [("early", 4 * MIB)]
    assert found.evidence[0].ns > 0
    [again] = found.rewrite.again
    assert (again.chain, again.readers) == (("early",), ("late",))


def test_how_far_a_peak_may_be_off_is_what_may_be_held_beside_it():
    held = BytesOverTime(np.array([0.0, 2.0, 3.0, 9.0]), np.array([20, -4, 10, -26]))
    assert held.peak() == (3.0, 26)
    idle = _Idle(None, bytes=8, beside=3, early=1.0, late=5.0, ns=1.0, soonest=4.0, read=6.0)
    cut = held.cut(8, 1.0, 5.0, beside=3)
    runs = [SimpleNamespace(peak_bytes=lambda peak=peak: peak) for peak in (26, 31, 27)]
    # The peak is when it is made again, at 5; at 4 there is nothing more. 3 bytes are freed next to
    # it, and the peaks of the runs are 5 apart.
    assert cut.peak() == (5.0, 29)
    assert _unknown_bytes(SimpleNamespace(runs=runs), cut, [idle]) == 0 + 3 + 5
    # Made again at 2.5, it is there at the peak at 3.
    soon = replace(idle, soonest=2.5)
    assert _unknown_bytes(SimpleNamespace(runs=runs), cut, [soon]) == 0 + 3 + 5
    assert _unknown_bytes(SimpleNamespace(runs=runs), cut, [replace(soon, beside=6)]) == 3 + 3 + 5


def test_what_is_made_of_a_variable_that_changes_meanwhile_is_not_made_again():
    assert recomputed(changed=True) == []
