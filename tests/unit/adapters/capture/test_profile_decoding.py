"""The profiler's events: columns say what the messages say, and every shape of execution is read.

How an execution looks in the events depends on its kernel and on its thread, so each way is built
here as the profiler writes it; what real programs leave is compared with protobuf's own reading.
"""

from __future__ import annotations

import numpy as np
import pytest

import stepscope
from profiler_events import BASE, STEP, Host, done, kernel, process
from stepscope.adapters.tensorflow.capture import profiler
from stepscope.metadata.xplane import Space, XSpace

SCHEDULED = ("ExecutorState::ScheduleReady", 31, 32, {"id": STEP})


def test_a_kernel_and_the_mark_after_it_are_an_execution_with_its_inputs():
    host = Host().thread(
        process(0, 100),
        kernel("a:AddV2", 10, 20, shape="(float[4];float[4])"),
        done("a", 21),
        SCHEDULED,
        kernel("scope/b:Addons>Rare", 40, 50, shape="=(float[2])"),
        done("=scope/b", 51),
    )
    profile, found = host.read()
    assert found == [("a", "AddV2", 10, 20), ("scope/b", "Addons>Rare", 40, 50)]
    shapes = {row.name: row.shapes for row in profile.rows_of([STEP])}
    assert shapes == {"a": "(float[4];float[4])", "scope/b": "(float[2])"}
    assert profile.done_in([STEP]) == {"a", "scope/b"}
    assert profile.unfinished_in([STEP]) == []


def test_events_need_not_be_in_order():
    ordered = [
        process(0, 100), kernel("a:AddV2", 10, 20), done("a", 21), kernel("b:Mul", 30, 40),
        done("b", 41),
    ]  # fmt: skip
    assert Host().thread(*reversed(ordered)).read()[1] == Host().thread(*ordered).read()[1]


def test_an_asynchronous_kernel_ends_where_its_mark_is():
    host = Host().thread(process(0, 100), kernel("q:Dequeue", 10, 12), kernel("a:Mul", 20, 30),
                         done("a", 31))  # fmt: skip
    _, found = host.thread(process(60, 90), done("q", 70)).read()
    assert found == [("a", "Mul", 20, 30), ("q", "Dequeue", 10, 70)]


def test_and_not_where_the_call_that_began_it_returns_having_been_held_up():
    """What reads its output runs elsewhere meanwhile."""
    host = Host().thread(process(0, 100), kernel("take:IteratorGetNext", 10, 80))
    _, found = host.thread(process(20, 60), done("take", 30), kernel("after:AddV2", 40, 50),
                           done("after", 51)).read()  # fmt: skip
    assert found == [("after", "AddV2", 40, 50), ("take", "IteratorGetNext", 10, 30)]


@pytest.mark.parametrize("between", [[], [SCHEDULED], [process(60, 80)]], ids=len)
def test_and_also_where_its_mark_is_next_on_the_very_thread_that_began_it(between):
    host = Host().thread(process(0, 20), kernel("r:_Recv", 10, 12), *between, done("r", 70))
    profile, found = host.read()
    assert found == [("r", "_Recv", 10, 70)]
    assert profile.unfinished_in([STEP]) == []


def test_a_kernel_without_an_end_is_told_as_such():
    host = Host().thread(process(0, 100), kernel("q:Dequeue", 10, 12), kernel("a:Mul", 20, 30),
                         done("a", 31))  # fmt: skip
    profile, found = host.read()
    assert ("q", "Dequeue", 10, 12) in found
    assert [row.name for row in profile.unfinished_in([STEP])] == ["q"]


def test_the_mark_of_a_kernel_after_another_began_is_its_late_end():
    _, found = Host().thread(
        process(0, 100), kernel("q:Dequeue", 10, 12), kernel("a:Mul", 20, 30), done("a", 31),
        done("q", 40), kernel("b:Mul", 50, 60), done("b", 61),
    ).read()  # fmt: skip
    assert found == [("a", "Mul", 20, 30), ("b", "Mul", 50, 60), ("q", "Dequeue", 10, 40)]


def test_a_kernel_that_goes_on_with_those_after_it_ended_at_its_mark():
    _, found = Host().thread(
        process(0, 100), kernel("q:Recv", 10, 90), done("q", 30), kernel("a:Mul", 40, 50),
        done("a", 51),
    ).read()  # fmt: skip
    assert found == [("a", "Mul", 40, 50), ("q", "Recv", 10, 30)]


def test_a_call_holds_the_step_that_it_started():
    profile, found = (
        Host()
        .thread(
            process(0, 100),
            kernel("call:PartitionedCall", 10, 80),
            ("FunctionRun", 11, 79, {"id": 8}),
            process(12, 78, step=8),
            kernel("inner:Mul", 20, 30),
            done("inner", 31, step=8),
            done("call", 81),
        )
        .read()
    )
    assert found == [("call", "PartitionedCall", 10, 80), ("inner", "Mul", 20, 30)]
    assert [row.name for row in profile.rows_of([8])] == ["inner"]


def test_marks_without_a_kernel_are_silent_nodes_or_dead_ones():
    profile, found = (
        Host()
        .thread(
            process(0, 100), done("const", 5), kernel("a:Mul", 10, 20), done("a", 21), done("a", 40)
        )
        .read()
    )
    assert found == [("a", "Mul", 10, 20), ("const", "", 5, 5)]
    assert profile.steps[STEP].dead == {"a": [BASE + 40]}


def test_the_rest_of_a_kernel_on_a_thread_without_executor_is_no_execution_of_its_own():
    host = Host().thread(process(0, 30), kernel("c:CollectiveReduce", 10, 12))
    _, found = host.thread(kernel("c:CollectiveReduce", 20, 60), done("c", 50)).read()
    assert found == [("c", "CollectiveReduce", 10, 50)]


def test_a_profile_that_was_stopped_inside_the_executors_span_has_what_was_done():
    _, found = Host().thread(kernel("a:Mul", 10, 20), done("a", 21)).read()
    assert found == [("a", "Mul", 10, 20)]


def test_and_what_was_inside_its_kernels():
    """An annotation in a Python function, and a function that the node calls."""
    profile, found = (
        Host()
        .thread(
            kernel("py:PyFunc", 10, 50),
            ("stepscope:span:mine", 20, 40, {}),
            done("py", 51),
            kernel("call:PartitionedCall", 60, 90),
            ("FunctionRun", 61, 89, {"id": 8}),
            done("call", 91),
        )
        .thread(process(62, 88, step=8), kernel("inner:Mul", 70, 80), done("inner", 81, step=8))
        .read()
    )
    assert {row[:2] for row in found} == {
        ("py", "PyFunc"), ("mine", "Annotation"), ("call", "PartitionedCall"), ("inner", "Mul"),
    }  # fmt: skip
    assert {row.name for row in profile.rows_of([STEP])} == {"py", "mine", "call", "inner"}
    assert list(profile.called_elsewhere()) == []


def session_run(*inside, step=STEP):
    """A run of a session that is over, on its caller's thread."""
    return Host().thread(
        ("stepscope:run:1", 0, 99, {}), ("SessionRun", 1, 95, {"id": step}), process(5, 90),
        kernel("a:Mul", 10, 20), done("a", 21), *inside,
    )  # fmt: skip


OTHER = 9


def test_what_a_run_that_is_not_over_did_last_is_not_of_one_that_is():
    """The profiler stopped between a kernel and its mark: nothing says of which step it is."""
    host = session_run()
    host.thread(kernel("b0:Mul", 30, 40), done("b0", 41, OTHER), kernel("b1:Mul", 50, 60),
                name="tf_Compute")  # fmt: skip
    profile, _ = host.read()
    assert [row.name for row in profile.rows_of([STEP])] == ["a"]
    assert [row.name for row in profile.rows_of([OTHER])] == ["b0"]
    assert profile.unfinished_in([STEP]) == []


def test_what_no_other_step_can_have_done_was_in_flight_if_the_run_failed():
    host = session_run().thread(kernel("b:Mul", 50, 60), name="tf_Compute")
    profile, _ = host.read()
    assert [row.name for row in profile.unfinished_in([STEP])] == ["b"]
    # With executors' marks, it is none of a run that ended well: that has marks of all.
    assert [row.name for row in profile.unmarked_in([STEP])] == ["b"]


def test_a_name_of_ours_is_no_kernel():
    profile, found = (
        Host()
        .thread(
            ("stepscope:run:5", 0, 100, {}),
            ("stepscope:span:load %23 1", 10, 20, {}),
            ("EagerExecute", 30, 40, {"is_func": 0}),
            ("EagerLocalExecute: Relu", 31, 39, {}),
            ("EagerExecute", 50, 60, {"is_func": 1}),
            ("EagerLocalExecute: __inference_f_1", 51, 59, {}),
            ("stepscope:op:PyFunc:mine", 70, 80, {}),
        )
        .read()
    )
    assert found == []
    run = profile.of_run("stepscope:run:5")
    assert [(row.name, row.op) for row in run.spans] == [("load # 1", "Annotation")]
    assert [(row.name, row.op) for row in run.eager] == [("Relu", "Relu"), ("mine", "PyFunc")]


@pytest.fixture
def profiles(monkeypatch):
    """The data of all profiles that are taken."""
    taken = []
    stop = profiler.SharedProfiler.stop

    def stop_and_keep(self, batch):
        stop(self, batch)
        taken.append(batch.data)

    monkeypatch.setattr(profiler.SharedProfiler, "stop", stop_and_keep)
    return taken


def stats_of(event, plane):
    """The stats of an event by name, as protobuf reads them."""
    names = plane.stat_metadata
    found = {}
    for stat in event.stats:
        which = stat.WhichOneof("value")
        value = getattr(stat, which)
        found[names[stat.metadata_id].name] = names[value].name if which == "ref_value" else value
    return found


def test_columns_say_what_protobuf_reads(tensorflow, profiles):
    tf = tensorflow

    @tf.function
    def step(x):
        for _ in tf.range(3):
            x = tf.matmul(x, x) * 0.5
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x)

    stepscope.run(step, tf.ones([4, 4]), run_metadata=stepscope.RunMetadata())
    (data,) = profiles
    compared = 0
    for plane, message in zip(Space(data).planes, XSpace.FromString(data).planes, strict=True):
        assert plane.names == {key: m.name for key, m in message.event_metadata.items()}
        assert plane.stat_names == {key: m.name for key, m in message.stat_metadata.items()}
        for line, events in zip(plane.lines, message.lines, strict=True):
            assert line.name == (events.display_name or events.name)
            assert line.timestamp_ns == events.timestamp_ns
            assert line.metadata_id.tolist() == [e.metadata_id for e in events.events]
            assert line.offset_ps.tolist() == [e.offset_ps for e in events.events]
            assert line.duration_ps.tolist() == [e.duration_ps for e in events.events]
            said = [stats_of(event, message) for event in events.events]
            stats = line.stats(np.arange(len(line)))
            assert stats.numbers("id").tolist() == [s.get("id", 0) for s in said]
            for stat in ("kernel_name", "shape"):
                assert stats.texts(stat).tolist() == [s.get(stat, "") for s in said]
                assert stats.given(stat).tolist() == [bool(s.get(stat)) for s in said]
            compared += len(said)
    assert compared > 50
