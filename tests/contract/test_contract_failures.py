"""Rule 3: whatever ends a run, its metadata holds all that was recorded until then."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from contract_programs import FED, IN_TIME_MS, around

from patience import patient
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions


def assert_tells(engine, program, metadata, code, *, node="inside"):
    """The metadata of a run of `around` that ended inside the node."""
    assert metadata.status.code == code
    assert metadata.status.message
    assert list(program.outcomes(metadata)) == [node]
    assert "before" in program.ran(metadata)
    assert not {node, "after"} & program.ran(metadata)
    assert not metadata.completeness.complete
    (loss,) = engine.losses(metadata)
    assert loss.what == "node executions"
    assert code in loss.reason
    saved = RunMetadata.FromString(metadata.SerializeToString())
    assert saved.status.code == code
    assert saved.status.in_flight == metadata.status.in_flight


PLACES = {
    "caller's thread": {"inter_op_thread_pool": -1},
    "chosen by the engine": {},
    "pool": {"timeout_in_ms": 60_000},
}


@pytest.fixture(params=PLACES.values(), ids=PLACES)
def place(request):
    return request.param


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [
        (ValueError("wrong"), "InvalidArgumentError", "INVALID_ARGUMENT"),
        (RuntimeError("odd"), "UnknownError", "UNKNOWN"),
        (MemoryError("full"), "ResourceExhaustedError", "RESOURCE_EXHAUSTED"),
        (NotImplementedError("later"), "UnimplementedError", "UNIMPLEMENTED"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_op_error(engine, place, raised, kind, code):
    def fail(_value):
        raise raised

    program = engine.start(around(fail))
    if engine.refusal(program, "after", FED, RunOptions(**place)):
        return
    error, metadata, _ = program.failing(engine.raised(raised, kind), "after", FED, **place)
    assert error.run_metadata is metadata
    assert str(raised) in str(error)
    if engine.names_the_failing_op:
        assert error.op.name == "inside"
        assert error.node_def.name == "inside"
    if engine.knows_sources:
        assert "contract_programs.py" in error.message, "the line that made the node"
    assert_tells(engine, program, metadata, code)
    np.testing.assert_array_equal(program.run("before", FED), [2.0, 3.0])


def test_an_error_carries_metadata_that_nobody_asked_for(engine):
    def fail(_value):
        raise ValueError("wrong")

    program = engine.start(around(fail))
    with pytest.raises(engine.raised(ValueError(), "InvalidArgumentError")) as caught:
        program.run("after", FED)
    found = caught.value.run_metadata
    assert found.status.code == "INVALID_ARGUMENT"
    assert list(program.outcomes(found)) == ["inside"]


def test_an_error_of_a_kernel(engine, place):
    def build(ops):
        index = ops.placeholder(ops.int32, [], name="index")
        x = ops.constant([1.0, 2.0, 3.0], name="x")
        before = ops.add(x, ops.cast(index, ops.float32), name="before")
        return {"index": index, "after": ops.gather(before, index, name="pick")}

    program = engine.start(build)
    if engine.refusal(program, "after", {"index": 1}, RunOptions(**place)):
        return
    error, metadata, _ = program.failing(
        engine.errors.InvalidArgumentError, "after", {"index": 17}, **place
    )
    assert error.run_metadata is metadata
    assert list(program.outcomes(metadata)) == ["pick"]
    assert "17" in metadata.status.message
    assert "pick" not in program.ran(metadata)
    assert "before" in program.ran(metadata)
    assert program.run("after", {"index": 1}) == 3.0


def test_a_time_out(engine, stuck):
    program = engine.start(around(stuck))
    if engine.python_op_at_deadline == "waited_for":
        stuck.let_go_after(0.2)
    error, metadata, _ = stuck.timing_out(
        program, engine.errors.DeadlineExceededError, "after", FED, timeout_in_ms=80
    )
    assert error.run_metadata is metadata
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert list(program.outcomes(metadata)) == ["inside"]
    assert "before" in program.ran(metadata)


# -- session.close() from another thread -------------------------------------------------------


def close_when_entered(program, entered, then=lambda: None):
    def close():
        assert entered.wait(patient(20))
        time.sleep(0.02)
        program.close()
        then()

    thread = threading.Thread(target=close)
    thread.start()
    return thread


def test_closing_the_session_abandons_a_python_op_on_a_pool(session_engine, stuck):
    engine = session_engine
    program = engine.start(around(stuck))
    closing = close_when_entered(program, stuck.entered)
    error, metadata, seconds = program.failing(
        engine.errors.CancelledError, "after", FED, timeout_in_ms=60_000
    )
    closing.join(patient(20))
    assert seconds < 4
    assert "closed" in error.message
    assert error.run_metadata is metadata
    assert_tells(engine, program, metadata, "CANCELLED")
    assert metadata.status.outcomes[0].outcome == "abandoned"
    with pytest.raises(RuntimeError, match="closed Session"):
        program.run("before", FED)


def test_closing_does_not_wait_for_a_python_op(session_engine, stuck):
    engine = session_engine
    program = engine.start(around(stuck))
    run = threading.Thread(
        target=lambda: program.failing(
            engine.errors.CancelledError, "after", FED, timeout_in_ms=60_000
        )
    )
    run.start()
    assert stuck.entered.wait(patient(20))
    began = time.monotonic()
    program.close()
    assert time.monotonic() - began < 3
    run.join(patient(20))


def blocked(ops):
    queue = ops.FIFOQueue(1, [ops.float32], shapes=[[]], name="queue")
    entered = threading.Event()
    x = ops.placeholder(ops.float32, [2], name="x")
    before = ops.py_func(lambda v: entered.set() or v, [x], ops.float32, name="before")
    with ops.control_dependencies([before]):
        item = queue.dequeue(name="inside")
    return {
        "x": x, "after": ops.add(item, 1.0, name="after"), "entered": entered,
        "put": queue.enqueue([1.0], name="put"),
    }  # fmt: skip


def test_closing_the_session_wakes_a_blocked_dequeue(session_engine, place):
    engine = session_engine
    program = engine.start(blocked)
    closing = close_when_entered(program, program.named["entered"])
    _, metadata, seconds = program.failing(engine.errors.CancelledError, "after", FED, **place)
    closing.join(patient(20))
    assert seconds < 10
    assert_tells(engine, program, metadata, "CANCELLED")
    assert metadata.status.outcomes[0].outcome == "cancelled"


def test_closing_twice_is_fine_and_a_closed_session_says_so(session_engine):
    engine = session_engine
    program = engine.start(around(lambda v: v))
    program.close()
    program.close()
    with pytest.raises(RuntimeError, match=r"^Attempted to use a closed Session\.$"):
        program.run("before", FED)


# -- KeyboardInterrupt -------------------------------------------------------------------------


def interrupt_when(entered, then=None):
    """Send this process a real SIGINT as soon as the op is inside, and do something afterwards.

    The thread that does: what it runs has to be over before the program is closed.
    """

    def send():
        if entered.wait(patient(20)):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
            if then is not None:
                time.sleep(0.2)
                then()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    return sender


def test_a_keyboard_interrupt_inside_a_python_op(engine, stuck, place):
    program = engine.start(around(stuck))
    if engine.refusal(program, "after", FED, RunOptions(**place)):
        return
    at_once = engine.interrupts(place)
    # TensorFlow looks at signals when the run is over.
    interrupt_when(stuck.entered, None if at_once else stuck.let_go.set)
    kind, code = engine.interrupted(place)
    error, metadata, seconds = program.failing(kind, "after", FED, **place)
    assert seconds < 10
    assert error.run_metadata is metadata
    assert metadata.status.code == code
    assert "KeyboardInterrupt" in metadata.status.message
    assert "before" in program.ran(metadata)
    if at_once:
        assert_tells(engine, program, metadata, code)
    np.testing.assert_array_equal(program.run("before", FED), [2.0, 3.0])


def test_a_keyboard_interrupt_while_a_dequeue_is_blocked(engine, place):
    program = engine.start(blocked)
    if engine.refusal(program, "after", FED, RunOptions(**place)):
        return
    at_once = engine.interrupts(place, python=False)
    wake = None if at_once else lambda: program.run("put")
    sender = interrupt_when(program.named["entered"], wake)
    error, metadata, _ = program.failing(KeyboardInterrupt, "after", FED, **place)
    sender.join(patient(20))
    assert error.run_metadata is metadata
    assert metadata.status.code == "CANCELLED"
    if at_once:
        assert_tells(engine, program, metadata, "CANCELLED")


def test_control_c_in_a_program_of_its_own(engine):
    """A process that is sent SIGINT while many runs are under way saves what its run did."""
    script = textwrap.dedent(
        f"""
        import sys, time
        sys.path[:0] = {[str(p) for p in Path(__file__).parents[:2]]!r}
        import numpy as np
        from contract_tensorflow import ENGINES
        from stepscope.metadata import RunMetadata
        from stepscope.options import RunOptions

        engine = ENGINES[{engine.key or engine.name!r}]()

        def wait(value):
            print("inside", flush=True)
            time.sleep({30 if engine.interrupts({}) else 1})
            return value

        def build(ops):
            x = ops.placeholder(ops.float32, [1], name="x")
            before = ops.add(x, 1.0, name="before")
            return {{"x": x, "y": ops.py_func(wait, [before], ops.float32, name="inside")}}

        program = engine.start(build)
        metadata = RunMetadata()
        try:
            program.run("y", {{"x": [1.0]}}, RunOptions(trace_level=3), metadata)
        except KeyboardInterrupt as error:
            print(metadata.status.code, list(program.outcomes(metadata)),
                  "before" in program.ran(metadata), error.run_metadata is metadata)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "inside\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=patient(20))
    inside = ["inside"] if engine.names_what_was_interrupted() else []
    assert out == f"CANCELLED {inside} True True\n", err
    assert process.returncode == 0


# -- several ops at once -----------------------------------------------------------------------


def test_when_one_of_two_parallel_ops_fails_its_error_is_the_run_s(parallel_engine):
    engine = parallel_engine
    together = threading.Barrier(2, timeout=patient(20))

    def fail(value):
        together.wait()
        raise ValueError("this one")

    def wait(value):
        together.wait()
        time.sleep(0.1)
        return value

    def build(ops):
        x = ops.placeholder(ops.float32, [2], name="x")
        bad = ops.py_func(fail, [x], ops.float32, name="bad")
        good = ops.py_func(wait, [x], ops.float32, name="good")
        return {"x": x, "both": ops.add(bad, good, name="both")}

    program = engine.start(build)
    error, metadata, _ = program.failing(engine.errors.InvalidArgumentError, "both", FED)
    assert "this one" in error.message
    assert "bad" in program.outcomes(metadata)
    assert "both" not in program.ran(metadata)


def test_a_failing_op_wakes_a_dequeue_that_waits_beside_it(parallel_engine):
    engine = parallel_engine

    def fail(value):
        time.sleep(0.05)
        raise ValueError("no more")

    def build(ops):
        queue = ops.FIFOQueue(1, [ops.float32], shapes=[[]], name="queue")
        x = ops.placeholder(ops.float32, [2], name="x")
        bad = ops.py_func(fail, [x], ops.float32, name="bad")
        return {"x": x, "both": ops.group(bad, queue.dequeue(name="take"))}

    program = engine.start(build)
    _, metadata, seconds = program.failing(engine.errors.InvalidArgumentError, "both", FED)
    assert "bad" in program.outcomes(metadata)
    assert seconds < 10


def test_a_run_that_failed_keeps_its_deadline_beside_an_op_that_does_not_end(
    parallel_engine, stuck
):
    engine = parallel_engine

    def fail(value):
        assert stuck.entered.wait(patient(20))
        raise ValueError("the cause")

    def build(ops):
        x = ops.placeholder(ops.float32, [2], name="x")
        bad = ops.py_func(fail, [x], ops.float32, name="bad")
        slow = ops.py_func(stuck, [x], ops.float32, name="slow")
        return {"x": x, "both": ops.add(bad, slow), "quick": ops.add(x, 1.0, name="quick")}

    program = engine.start(build)
    if engine.cause_after_a_stuck_op == "when the op ends":
        stuck.let_go_after(0.6)
    known = engine.cause_after_a_stuck_op != "never"
    kind = engine.errors.InvalidArgumentError if known else engine.errors.DeadlineExceededError
    error, metadata, seconds = program.failing(kind, "both", FED, timeout_in_ms=300)
    assert ("the cause" in error.message) is known
    assert 0.25 <= seconds < 10
    outcomes = {name: o.outcome for name, o in program.outcomes(metadata).items()}
    if known:
        assert outcomes["bad"] == "failed"
    if engine.python_op_at_deadline == "abandoned":
        assert outcomes["slow"] == "abandoned"
    options = RunOptions(timeout_in_ms=IN_TIME_MS)
    np.testing.assert_array_equal(program.run("quick", FED, options), [2.0, 3.0])


def test_closing_the_session_ends_a_run_on_the_caller_s_thread_when_its_op_ends(embedded, stuck):
    engine = embedded  # TensorFlow runs what is left, where nothing of it can be cancelled
    program = engine.start(around(stuck))
    closing = close_when_entered(program, stuck.entered, stuck.let_go.set)
    error, metadata, _ = program.failing(
        engine.errors.CancelledError, "after", FED, inter_op_thread_pool=-1
    )
    closing.join(patient(20))
    assert error.run_metadata is metadata
    assert metadata.status.code == "CANCELLED"
    assert {"before", "inside"} <= set(metadata.ops.name)


def test_options_that_are_wrong_fail_before_anything_runs(engine):
    calls = []
    program = engine.start(around(lambda v: calls.append(1) or v))
    with pytest.raises(engine.errors.InvalidArgumentError):
        program.run("after", FED, RunOptions(inter_op_thread_pool=9))
    assert not calls
