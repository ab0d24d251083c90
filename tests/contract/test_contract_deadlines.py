"""Rule 6: a deadline is kept by the strongest means there is, and the outcome is said."""

import threading
import time

import numpy as np
import pytest
from contract_programs import FED, IN_TIME_MS, around

from patience import patient
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

CLOCKS_APART_NS = 2_000_000
"""Tasks of a cluster tell times in microseconds, by clocks that are corrected by estimates."""


def queue_program(ops):
    queue = ops.FIFOQueue(10, [ops.float32], shapes=[[]], name="queue")
    x = ops.placeholder(ops.float32, [], name="x")
    before = ops.add(x, 1.0, name="before")
    with ops.control_dependencies([before]):
        item = queue.dequeue(name="take")
    return {
        "x": x, "before": before, "take": item, "put": queue.enqueue([x], name="put"),
        "after": ops.multiply(item, before, name="after"),
    }  # fmt: skip


@pytest.fixture(params=[0, -1], ids=["on a pool", "on the caller's thread"])
def pool(request):
    return request.param


def late_put(program, seconds):
    """Put an item into the queue of `queue_program` after a while, from another thread.

    Gives the thread, and a list that gets the time at which it begins.
    """
    began = []

    def put():
        began.append(time.time_ns())
        program.run("put", {"x": 40.0}, RunOptions(timeout_in_ms=IN_TIME_MS))

    putting = threading.Timer(seconds, put)
    putting.start()
    return putting, began


def test_a_dequeue_that_waits_is_cancelled(engine, pool):
    program = engine.start(queue_program)
    if engine.refusal(program, "after", {"x": 1.0}, RunOptions(inter_op_thread_pool=pool)):
        return
    error, metadata, seconds = program.failing(
        engine.errors.DeadlineExceededError,
        "after", {"x": 1.0}, timeout_in_ms=250, inter_op_thread_pool=pool,
    )  # fmt: skip
    assert error.error_code == 4
    assert error.run_metadata is metadata
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert 0.25 <= seconds < 4
    assert program.run("before", {"x": 5.0}) == 6.0
    ((name, found),) = program.outcomes(metadata).items()
    assert (name, found.outcome) == ("take", "cancelled")
    assert "before" in program.ran(metadata)
    assert not {"take", "after"} & program.ran(metadata)


def test_a_dequeue_that_gets_its_item_in_time_is_no_time_out(engine, pool):
    program = engine.start(queue_program)
    options = RunOptions(timeout_in_ms=IN_TIME_MS, inter_op_thread_pool=pool, trace_level=3)
    if engine.refusal(program, "after", {"x": 1.0}, options):
        return
    program.run("before", {"x": 1.0})
    putting, began = late_put(program, 0.4)
    metadata = RunMetadata()
    assert program.run("after", {"x": 1.0}, options, metadata) == 80.0
    putting.join()
    assert metadata.status.code == "OK"
    assert not engine.losses(metadata)
    ended = metadata.ops.end_ns[program.rows(metadata)["take"]]
    assert ended > began[0] - CLOCKS_APART_NS


def test_a_cancelled_dequeue_takes_no_item(engine):
    program = engine.start(queue_program)
    program.failing(engine.errors.DeadlineExceededError, "after", {"x": 1.0}, timeout_in_ms=100)
    program.run("put", {"x": 7.0})
    assert program.run("take", {"x": 0.0}) == 7.0


def let_go_later(engine, stuck, seconds=0.4):
    """Where the caller has to wait for a Python op, see to it that the op ends."""
    if engine.python_op_at_deadline == "waited_for":
        stuck.let_go_after(seconds)


def test_a_python_op_is_abandoned_or_waited_for_and_named(engine, stuck):
    program = engine.start(around(stuck))
    let_go_later(engine, stuck)
    error, metadata, seconds = stuck.timing_out(
        program, engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=150
    )
    abandoned = engine.python_op_at_deadline == "abandoned"
    if abandoned:
        assert 0.1 <= seconds < 5, "control comes back although the op goes on"
        assert not stuck.left.is_set()
    else:
        assert seconds >= 0.39
    assert error.run_metadata is metadata
    ((name, found),) = program.outcomes(metadata).items()
    assert (name, found.outcome) == ("inside", engine.python_op_at_deadline)
    assert "before" in program.ran(metadata)
    assert ("inside" in program.ran(metadata)) is not abandoned
    if engine.stops_between_ops or abandoned:
        assert "after" not in program.ran(metadata)
        (loss,) = engine.losses(metadata)
        assert "DEADLINE_EXCEEDED" in loss.reason
        assert found.name in loss.reason
        if engine.counts_losses:
            assert loss.count >= (2 if abandoned else 1)
    if not abandoned:
        assert 0.1e9 < found.waited_ns < seconds * 1e9


def test_the_program_is_usable_while_an_op_is_abandoned_and_after(engine, stuck):
    program = engine.start(around(stuck))
    let_go_later(engine, stuck, 0.1)
    stuck.timing_out(program, engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=50)
    for _ in range(3):
        np.testing.assert_array_equal(program.run("before", FED), [2.0, 3.0])
    stuck.let_go.set()
    assert stuck.left.wait(patient(10))
    np.testing.assert_array_equal(program.run("after", FED), [4.0, 6.0])
    metadata = program.traced("after", FED, timeout_in_ms=IN_TIME_MS)
    assert not engine.losses(metadata)


def test_what_an_abandoned_op_holds_is_left_alone(engine, stuck):
    program = engine.start(around(stuck))
    let_go_later(engine, stuck, 0.1)
    stuck.timing_out(program, engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=50)
    for _ in range(20):
        program.run("before", {"x": np.array([50.0, 60.0], np.float32)})
    stuck.let_go.set()
    assert stuck.left.wait(patient(10))
    np.testing.assert_array_equal(stuck.seen[0], [2.0, 3.0])


def test_metadata_of_a_run_that_timed_out_stays_as_it_was(engine, stuck):
    program = engine.start(around(stuck))
    let_go_later(engine, stuck, 0.1)
    _, metadata, _ = stuck.timing_out(
        program, engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=50
    )
    shown = program.ran(metadata)
    stuck.let_go.set()
    assert stuck.left.wait(patient(10))
    time.sleep(0.05)
    assert program.ran(metadata) == shown
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert ("inside" in shown) is (engine.python_op_at_deadline == "waited_for")


def test_on_the_caller_s_thread_the_op_is_waited_for_and_how_long_is_said(engine, stuck):
    program = engine.start(around(stuck))
    if engine.refusal(program, "after", FED, RunOptions(inter_op_thread_pool=-1)):
        return
    stuck.let_go_after(0.4)
    _, metadata, seconds = stuck.timing_out(
        program, engine.errors.DeadlineExceededError,
        "after", FED, timeout_in_ms=100, inter_op_thread_pool=-1,
    )  # fmt: skip
    assert seconds >= 0.4
    assert stuck.ident == threading.get_ident()
    ((name, found),) = program.outcomes(metadata).items()
    assert (name, found.outcome) == ("inside", "waited_for")
    assert 0.1e9 < found.waited_ns < seconds * 1e9
    assert {"before", "inside"} <= program.ran(metadata)
    assert ("after" in program.ran(metadata)) is not engine.stops_between_ops


def test_with_a_deadline_sessions_run_on_other_threads_unless_asked(session_engine):
    program = session_engine.start(
        lambda ops: {"y": ops.py_func(lambda: np.int64(threading.get_ident()), [], ops.int64)}
    )
    assert program.run("y", None, RunOptions(timeout_in_ms=IN_TIME_MS)) != threading.get_ident()
    options = RunOptions(timeout_in_ms=IN_TIME_MS, inter_op_thread_pool=-1)
    assert program.run("y", None, options) == threading.get_ident()


@pytest.mark.parametrize("timeout", [0, -1, -500])
def test_zero_and_below_is_no_deadline(engine, timeout):
    program = engine.start(
        lambda ops: {"y": ops.py_func(lambda: time.sleep(0.05) or np.float32(1), [], ops.float32)}
    )
    assert program.run("y", None, RunOptions(timeout_in_ms=timeout)) == 1.0


def test_a_run_in_time_loses_nothing(engine):
    program = engine.start(around(lambda v: v))
    metadata = program.traced("after", FED, timeout_in_ms=IN_TIME_MS)
    assert metadata.status.code == "OK"
    assert {"before", "inside", "after"} <= program.ran(metadata)
    assert not engine.losses(metadata)


def test_the_configured_time_out_holds_for_runs_without_one(session_engine):
    engine = session_engine
    program = engine.start(queue_program, engine.config(operation_timeout_in_ms=50))
    began = time.monotonic()
    with pytest.raises(engine.errors.DeadlineExceededError):
        program.run("take", {"x": 0.0})
    assert time.monotonic() - began < 5


def test_the_configured_time_out_gives_control_back_too(session_engine, stuck):
    engine = session_engine
    program = engine.start(around(stuck), engine.config(operation_timeout_in_ms=80))
    _, metadata, seconds = stuck.timing_out(
        program, engine.errors.DeadlineExceededError, "after", FED
    )
    assert seconds < 5
    assert metadata.status.in_flight == ["inside"]


def test_the_option_overrides_the_configured_time_out(session_engine):
    engine = session_engine
    program = engine.start(queue_program, engine.config(operation_timeout_in_ms=30))
    putting, _ = late_put(program, 0.2)
    assert program.run("take", {"x": 0.0}, RunOptions(timeout_in_ms=IN_TIME_MS)) == 40.0
    putting.join()


def test_a_time_out_without_a_trace_names_the_python_op_in_flight(engine, stuck, pool):
    program = engine.start(around(stuck))
    options = {"timeout_in_ms": 300, "inter_op_thread_pool": pool, "trace_level": 0}
    if engine.refusal(program, "after", FED, RunOptions(**options)):
        return
    waited = pool == -1 or engine.python_op_at_deadline == "waited_for"
    if waited:
        stuck.let_go_after(0.8)
    _, metadata, seconds = stuck.timing_out(
        program, engine.errors.DeadlineExceededError, "after", FED, **options
    )
    assert len(metadata.ops) == 0
    ((name, found),) = program.outcomes(metadata).items()
    assert (name, found.outcome) == ("inside", "waited_for" if waited else "abandoned")
    if waited:
        assert 0.1e9 < found.waited_ns < seconds * 1e9


def test_a_time_out_without_a_trace_names_the_dequeue_in_flight_or_says_that_it_cannot(engine):
    program = engine.start(queue_program)
    for milliseconds in (80, 400, 2_000, 10_000):  # on a busy machine it comes to the op later
        _, metadata, _ = program.failing(
            engine.errors.DeadlineExceededError, "after", {"x": 1.0},
            timeout_in_ms=milliseconds, trace_level=0,
        )  # fmt: skip
        assert len(metadata.ops) == 0
        found = {name: op.outcome for name, op in program.outcomes(metadata).items()}
        if found or not engine.names_a_dequeue_without_a_trace:
            break
    if engine.names_a_dequeue_without_a_trace:
        assert found == {"take": "cancelled"}
    else:
        assert found == {}
        (loss,) = metadata.completeness.losses
        assert loss.what == "ops in flight"
        assert "nothing was traced" in loss.reason
        assert "can wait for another run: take" in loss.reason


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
    let_go_later(engine, stuck, 0.5)
    _, metadata, _ = stuck.timing_out(
        program, engine.errors.DeadlineExceededError, "both", timeout_in_ms=200
    )
    expected = {"inside": engine.python_op_at_deadline}
    if engine.parallel:
        expected["take"] = "cancelled"
    assert {name: o.outcome for name, o in program.outcomes(metadata).items()} == expected


def test_a_block_cannot_have_a_deadline(tensorflow):
    import stepscope
    from stepscope import errors

    with (
        pytest.raises(errors.InvalidArgumentError, match="timeout_in_ms"),
        stepscope.observe(RunOptions(timeout_in_ms=100)),
    ):
        raise AssertionError("the block is not entered")
