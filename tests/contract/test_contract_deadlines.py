"""Rule 6: a deadline is kept by the strongest means there is, and the outcome is said."""

import threading
import time

import numpy as np
import pytest

from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions


def queue_program(ops):
    queue = ops.FIFOQueue(10, [ops.float32], shapes=[[]], name="queue")
    x = ops.placeholder(ops.float32, [], name="x")
    before = ops.add(x, 1.0, name="before")
    with ops.control_dependencies([before]):
        item = queue.dequeue(name="take")
    return {
        "x": x, "before": before, "take": item, "put": queue.enqueue([x], name="put"),
        "after": ops.add(item, before, name="after"),
    }  # fmt: skip


def stuck_program(function):
    def build(ops):
        x = ops.placeholder(ops.float32, [2], name="x")
        before = ops.add(x, 1.0, name="before")
        inside = ops.py_func(function, [before], ops.float32, name="inside")
        return {
            "x": x, "before": before, "inside": inside,
            "after": ops.multiply(inside, 2.0, name="after"),
        }  # fmt: skip

    return build


FED = {"x": np.array([1.0, 2.0], np.float32)}


@pytest.fixture(params=[0, -1], ids=["on a pool", "on the caller's thread"])
def pool(request):
    return request.param


def test_a_blocked_dequeue_is_cancelled(engine, pool):
    program = engine.start(queue_program)
    error, metadata, seconds = program.failing(
        engine.errors.DeadlineExceededError,
        "after", {"x": 1.0}, timeout_in_ms=60, inter_op_thread_pool=pool,
    )  # fmt: skip
    assert error.error_code == 4
    assert 0.05 <= seconds < 5
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert [(o.name, o.outcome) for o in metadata.status.outcomes] == [("take", "cancelled")]
    assert "before" in metadata.ops.name
    assert "take" not in metadata.ops.name
    assert program.run("before", {"x": 5.0}) == 6.0


def test_a_dequeue_that_gets_its_item_in_time_is_no_time_out(engine, pool):
    program = engine.start(queue_program)
    putting = threading.Timer(0.05, lambda: program.run("put", {"x": 40.0}))
    putting.start()
    metadata = RunMetadata()
    options = RunOptions(timeout_in_ms=20_000, inter_op_thread_pool=pool, trace_level=3)
    assert program.run("after", {"x": 1.0}, options, metadata) == 42.0
    putting.join()
    assert metadata.status.code == "OK"
    assert metadata.completeness.complete
    took = dict(zip(metadata.ops.name, metadata.ops.end_ns - metadata.ops.start_ns, strict=True))
    assert took["take"] > 20_000_000


def test_a_cancelled_dequeue_takes_no_item(engine):
    program = engine.start(queue_program)
    program.failing(engine.errors.DeadlineExceededError, "after", {"x": 1.0}, timeout_in_ms=30)
    program.run("put", {"x": 7.0})
    assert program.run("take", {"x": 0.0}) == 7.0


def test_a_python_op_is_abandoned_and_named(engine, stuck):
    program = engine.start(stuck_program(stuck))
    error, metadata, seconds = program.failing(
        engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=150
    )
    assert 0.1 <= seconds < 5, "control comes back although the op goes on"
    assert not stuck.left.is_set()
    assert error.run_metadata is metadata
    assert metadata.status.in_flight == ["inside"]
    assert metadata.status.outcomes[0].outcome == "abandoned"
    assert "before" in metadata.ops.name
    assert not {"inside", "after"} & set(metadata.ops.name)
    (loss,) = metadata.completeness.losses
    assert "DEADLINE_EXCEEDED" in loss.reason
    assert "inside" in loss.reason
    assert loss.count >= 2


def test_the_session_is_usable_while_an_op_is_abandoned_and_after(engine, stuck):
    program = engine.start(stuck_program(stuck))
    program.failing(engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=50)
    for _ in range(3):
        np.testing.assert_array_equal(program.run("before", FED), [2.0, 3.0])
    stuck.let_go.set()
    assert stuck.left.wait(10)
    np.testing.assert_array_equal(program.run("after", FED), [4.0, 6.0])
    metadata = program.traced("after", FED, timeout_in_ms=20_000)
    assert metadata.completeness.complete


def test_what_an_abandoned_op_holds_is_left_alone(engine, stuck):
    program = engine.start(stuck_program(stuck))
    program.failing(engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=50)
    for _ in range(20):
        program.run("before", {"x": np.array([50.0, 60.0], np.float32)})
    stuck.let_go.set()
    assert stuck.left.wait(10)
    np.testing.assert_array_equal(stuck.seen[0], [2.0, 3.0])


def test_metadata_of_an_abandoned_run_stays_as_it_was(engine, stuck):
    program = engine.start(stuck_program(stuck))
    _, metadata, _ = program.failing(
        engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=50
    )
    stuck.let_go.set()
    assert stuck.left.wait(10)
    time.sleep(0.05)
    assert "inside" not in metadata.ops.name
    assert metadata.status.code == "DEADLINE_EXCEEDED"


def test_on_the_caller_s_thread_the_op_is_waited_for_and_how_long_is_said(engine, stuck):
    program = engine.start(stuck_program(stuck))
    threading.Timer(0.4, stuck.let_go.set).start()
    _, metadata, seconds = program.failing(
        engine.errors.DeadlineExceededError,
        "after", FED, timeout_in_ms=100, inter_op_thread_pool=-1,
    )  # fmt: skip
    assert seconds >= 0.39
    (outcome,) = metadata.status.outcomes
    assert (outcome.name, outcome.outcome) == ("inside", "waited_for")
    assert 0.1e9 < outcome.waited_ns < seconds * 1e9
    assert stuck.thread is threading.current_thread()
    assert {"before", "inside"} <= set(metadata.ops.name)
    assert "after" not in metadata.ops.name


def test_with_a_deadline_nothing_runs_on_the_caller_s_thread(engine):
    program = engine.start(
        lambda ops: {"y": ops.py_func(lambda: np.int64(threading.get_ident()), [], ops.int64)}
    )
    assert program.run("y", None, RunOptions(timeout_in_ms=20_000)) != threading.get_ident()
    options = RunOptions(timeout_in_ms=20_000, inter_op_thread_pool=-1)
    assert program.run("y", None, options) == threading.get_ident()


@pytest.mark.parametrize("timeout", [0, -1, -500])
def test_zero_and_below_is_no_deadline(engine, timeout):
    program = engine.start(
        lambda ops: {"y": ops.py_func(lambda: time.sleep(0.05) or np.float32(1), [], ops.float32)}
    )
    assert program.run("y", None, RunOptions(timeout_in_ms=timeout)) == 1.0


def test_a_run_in_time_loses_nothing(engine):
    program = engine.start(stuck_program(lambda v: v))
    metadata = program.traced("after", FED, timeout_in_ms=20_000)
    assert metadata.status.code == "OK"
    assert {"before", "inside", "after"} <= set(metadata.ops.name)
    assert metadata.completeness.complete


def test_the_configured_time_out_holds_for_runs_without_one(engine):
    program = engine.start(queue_program, engine.config(operation_timeout_in_ms=50))
    began = time.monotonic()
    with pytest.raises(engine.errors.DeadlineExceededError):
        program.run("take", {"x": 0.0})
    assert time.monotonic() - began < 5


def test_the_option_overrides_the_configured_time_out(engine):
    program = engine.start(queue_program, engine.config(operation_timeout_in_ms=30))
    patient = RunOptions(timeout_in_ms=20_000)
    putting = threading.Timer(0.2, lambda: program.run("put", {"x": 3.0}, patient))
    putting.start()
    assert program.run("take", {"x": 0.0}, patient) == 3.0
    putting.join()


def test_a_time_out_without_a_trace_still_says_what_was_in_flight(engine, stuck):
    program = engine.start(stuck_program(stuck))
    _, metadata, _ = program.failing(
        engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=80, trace_level=0
    )
    assert metadata.status.in_flight == ["inside"]
    assert len(metadata.ops) == 0


def test_of_several_ops_in_flight_each_outcome_is_said(engine, stuck):
    def build(ops):
        queue = ops.FIFOQueue(10, [ops.float32], shapes=[[]], name="queue")
        x = ops.constant([1.0])
        return {
            "both": ops.group(
                ops.py_func(stuck, [x], ops.float32, name="inside"), queue.dequeue(name="take")
            )
        }

    program = engine.start(build)
    _, metadata, _ = program.failing(engine.errors.DeadlineExceededError, "both", timeout_in_ms=200)
    assert {(o.name, o.outcome) for o in metadata.status.outcomes} == {
        ("inside", "abandoned"),
        ("take", "cancelled"),
    }
