"""Runs that fail and runs that take too long, on TensorFlow: what is known of them afterwards."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import stepscope
from patience import patient
from stepscope import errors
from stepscope.adapters import tensorflow as adapter
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

FULL = RunOptions.FULL_TRACE
SOFTWARE = RunOptions.SOFTWARE_TRACE
DEADLINES_MS = (300, 3_000, 30_000)
"""Tried in turn: on a busy machine the first may be over before much was executed."""
SLACK_S = patient(10)
"""How late control may come back where everything can be cancelled, and would not by itself."""


def failing(error, call, **options):
    """(error, metadata, seconds) of a run that has to fail."""
    options.setdefault("trace_level", SOFTWARE)
    metadata = RunMetadata()
    began = time.monotonic()
    with pytest.raises(error) as caught:
        call(options=RunOptions(**options), run_metadata=metadata)
    assert caught.value.run_metadata is metadata
    return caught.value, metadata, time.monotonic() - began


# -- an op that fails ------------------------------------------------------------------------------


def hundred(tf, x):
    """100 ops, each needing the one before; the sixtieth looks for a value that is not there."""
    y = x
    for i in range(1, 101):
        if i == 60:
            y = tf.gather(y, tf.argmax(tf.shape(y)) + 5, name="op_60", batch_dims=0)
            y = tf.reshape(y, [1, 1])
        else:
            y = tf.matmul(y, x, name=f"op_{i}")
    return y


@pytest.fixture
def hundred_as(tensorflow):
    """Run the hundred ops in a mode."""
    tf = tensorflow

    def session():
        graph = tf.Graph()
        with graph.as_default():
            x = tf.compat.v1.placeholder(tf.float32, [1, 1])
            y = hundred(tf, x)
        opened = adapter.Session(graph=graph)
        return lambda **kw: opened.run(y, {x: np.ones((1, 1), np.float32)}, **kw)

    def function():
        traced = tf.function(lambda x: hundred(tf, x))
        return lambda **kw: adapter.run(traced, tf.ones([1, 1]), **kw)

    def eager():
        return lambda **kw: adapter.run(lambda: hundred(tf, tf.ones([1, 1])), **kw)

    return lambda mode: {"session": session, "function": function, "eager": eager}[mode]()


@pytest.mark.parametrize("level", [SOFTWARE, FULL])
@pytest.mark.parametrize("mode", ["session", "function"])
def test_what_ran_before_a_failure_is_in_the_metadata(tensorflow, hundred_as, mode, level):
    call = hundred_as(mode)
    for _ in range(3):
        error, metadata, _ = failing(
            tensorflow.errors.InvalidArgumentError, call, trace_level=level
        )
        names = [name.rpartition("/")[2] for name in metadata.ops.name]
        assert [n for n in names if n in {f"op_{i}" for i in range(1, 101) if i != 60}] == [
            f"op_{i}" for i in range(1, 60)
        ]
        assert metadata.status.code == "INVALID_ARGUMENT"
        assert metadata.status.in_flight == ["op_60"]
        assert metadata.status.message == error.message
        assert not metadata.completeness.complete


def test_eager_code_that_fails_keeps_what_it_did(tensorflow, hundred_as):
    _, metadata, _ = failing(tensorflow.errors.InvalidArgumentError, hundred_as("eager"))
    assert list(metadata.ops.op).count("MatMul") == 59
    assert metadata.status.code == "INVALID_ARGUMENT"


def test_an_error_of_the_users_own_is_raised_as_it_is(tensorflow):
    class Mine(Exception):
        pass

    def body():
        tensorflow.ones([2]) + 1.0
        raise Mine("no")

    error, metadata, _ = failing(Mine, lambda **kw: adapter.run(body, **kw))
    assert type(error) is Mine
    assert metadata.status.code == "UNKNOWN"
    assert metadata.status.message == "Mine: no"
    assert "AddV2" in list(metadata.ops.op)


# -- deadlines: functions --------------------------------------------------------------------------


def endless(tf):
    return tf.function(
        lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 1e9, lambda y: [tf.sin(y)], [x])[0]
    )


def blocked(tf):
    queue = tf.queue.FIFOQueue(1, [tf.float32], [[]])
    return queue, tf.function(lambda x: queue.dequeue() + x)


@pytest.mark.parametrize("level", [0, SOFTWARE])
def test_a_loop_in_a_function_ends_at_the_deadline(tensorflow, level):
    function = endless(tensorflow)
    x = tensorflow.ones([2])
    function.get_concrete_function(x)
    for deadline_ms in DEADLINES_MS:
        _, metadata, seconds = failing(
            tensorflow.errors.DeadlineExceededError,
            lambda **kw: adapter.run(function, x, **kw),
            timeout_in_ms=deadline_ms,
            trace_level=level,
        )
        assert metadata.status.code == "DEADLINE_EXCEEDED"
        assert seconds >= deadline_ms / 1e3
        if level == 0:
            assert seconds < deadline_ms / 1e3 + SLACK_S
            break
        if len(metadata.ops) > 100:
            # The run ended in time; then its tens of thousands of events were read.
            took = (metadata.ops.end_ns.max() - metadata.ops.start_ns.min()) / 1e9
            assert took < deadline_ms / 1e3 + SLACK_S
            assert "while" in metadata.status.in_flight[0]
            break
    assert level == 0 or len(metadata.ops) > 100


def test_a_blocked_dequeue_in_a_function_ends_at_the_deadline(tensorflow):
    queue, function = blocked(tensorflow)
    x = tensorflow.ones([])
    queue.enqueue(1.0)
    function(x)
    _, metadata, seconds = failing(
        tensorflow.errors.DeadlineExceededError,
        lambda **kw: adapter.run(function, x, **kw),
        timeout_in_ms=300,
    )
    assert 0.3 <= seconds < 0.3 + SLACK_S
    assert [op.outcome for op in metadata.status.outcomes] == ["cancelled"]
    assert "dequeue" in metadata.status.in_flight[0].lower()
    queue.enqueue(2.0)
    assert function(x).numpy() == 3.0


def test_a_sleeping_python_op_is_waited_for_and_named_with_how_late_it_was(tensorflow):
    tf = tensorflow
    inside = threading.Event()

    def nap(x):
        inside.set()
        time.sleep(0.5)
        return x

    function = tf.function(lambda x: tf.numpy_function(nap, [x], tf.float32) + 1.0)
    x = tf.ones([])
    function(x)
    inside.clear()
    while not inside.is_set():  # on a busy machine the time may be over before
        _, metadata, seconds = failing(
            tf.errors.DeadlineExceededError,
            lambda **kw: adapter.run(function, x, **kw),
            timeout_in_ms=200,
        )
    assert 0.5 <= seconds < 0.5 + SLACK_S
    (late,) = metadata.status.outcomes
    assert late.name == "PyFunc"
    assert late.outcome == "waited_for"
    assert 0.25 < late.waited_ns / 1e9 < seconds - 0.2


def test_eager_code_is_looked_at_when_it_returns(tensorflow):
    tf = tensorflow
    inside = threading.Event()

    def nap(x):
        inside.set()
        time.sleep(0.3)
        return x

    def body():
        return tf.numpy_function(nap, [tf.ones([])], tf.float32)

    while not inside.is_set():  # on a busy machine the time may be over before
        _, metadata, seconds = failing(
            tf.errors.DeadlineExceededError, lambda **kw: adapter.run(body, **kw), timeout_in_ms=100
        )
    assert seconds >= 0.3
    assert [op.outcome for op in metadata.status.outcomes] == ["waited_for"]
    assert 0.15 < metadata.status.outcomes[0].waited_ns / 1e9 < seconds - 0.1


def test_a_run_in_time_is_not_disturbed_by_its_deadline(tensorflow):
    function = tensorflow.function(lambda x: x + 1.0)
    metadata = RunMetadata()
    options = RunOptions(trace_level=SOFTWARE, timeout_in_ms=int(patient(20) * 1000))
    result = adapter.run(function, tensorflow.ones([]), options=options, run_metadata=metadata)
    assert result.numpy() == 2.0
    assert metadata.status.ok


def test_one_threads_timeout_never_cancels_another_threads_run(tensorflow):
    tf = tensorflow
    loop, x = endless(tf), tf.ones([2])
    long = tf.function(
        lambda x: tf.numpy_function(lambda v: (time.sleep(0.3), v)[1], [x], tf.float32) + 1.0
    )
    long(x)
    loop.get_concrete_function(x)
    results, problems = [], []

    def unharmed():
        try:
            for traced in (False, True):
                options = RunOptions(trace_level=SOFTWARE if traced else 0)
                metadata = RunMetadata()
                results.append(adapter.run(long, x, options=options, run_metadata=metadata))
                results.append(long(x))
        except BaseException as error:  # noqa: BLE001 - asserted on below
            problems.append(error)

    thread = threading.Thread(target=unharmed)
    thread.start()
    while thread.is_alive():
        failing(
            tf.errors.DeadlineExceededError,
            lambda **kw: adapter.run(loop, x, **kw),
            timeout_in_ms=100,
            trace_level=0,
        )
    thread.join()
    assert problems == []
    assert [r.numpy().tolist() for r in results] == [[2.0, 2.0]] * 4


def test_a_dequeue_in_eager_code_is_cancelled_and_takes_no_item(tensorflow):
    tf = tensorflow
    queue = tf.queue.FIFOQueue(1, [tf.float32], [[]])

    def body():
        tf.ones([2]) + 1.0
        return queue.dequeue() * 2.0

    for level in (0, SOFTWARE):
        _, metadata, seconds = failing(
            tf.errors.DeadlineExceededError,
            lambda **kw: adapter.run(body, **kw),
            timeout_in_ms=200,
            trace_level=level,
        )
        assert 0.2 <= seconds < 0.2 + SLACK_S
        (late,) = metadata.status.outcomes
        assert (late.name, late.outcome) == ("QueueDequeueV2", "cancelled")
        assert "Mul" not in list(metadata.ops.op)
    queue.enqueue(3.0)
    options = RunOptions(timeout_in_ms=20_000)
    assert adapter.run(body, options=options).numpy() == 6.0


def test_an_op_of_another_thread_is_not_cancelled_with_it(tensorflow):
    tf = tensorflow
    queue = tf.queue.FIFOQueue(1, [tf.float32], [[]])
    taken = []
    other = threading.Thread(target=lambda: taken.append(queue.dequeue().numpy()), daemon=True)
    other.start()
    empty = tf.queue.FIFOQueue(1, [tf.float32], [[]])
    failing(
        tf.errors.DeadlineExceededError,
        lambda **kw: adapter.run(empty.dequeue, **kw),
        timeout_in_ms=100,
    )
    queue.enqueue(5.0)
    other.join(patient(20))
    assert taken == [5.0]


def test_a_deadline_between_two_ops_blames_none(tensorflow):
    tf = tensorflow

    def body():
        x = tf.ones([2]) + 1.0
        time.sleep(0.3)
        return x * 2.0

    _, metadata, _ = failing(
        tf.errors.DeadlineExceededError,
        lambda **kw: adapter.run(body, **kw),
        timeout_in_ms=100,
        trace_level=0,
    )
    assert metadata.status.in_flight == []
    (loss,) = metadata.completeness.losses
    assert loss.what == "ops in flight"
    assert "between two ops" in loss.reason


@pytest.mark.parametrize("nested", [False, True])
def test_without_a_trace_a_function_names_the_python_op_that_was_late(tensorflow, nested):
    tf = tensorflow
    inside = threading.Event()

    def nap(x):
        inside.set()
        time.sleep(0.3)
        return x

    inner = tf.function(lambda x: tf.numpy_function(nap, [x], tf.float32, name="asleep"))
    function = tf.function(lambda x: inner(x) + 1.0) if nested else inner
    x = tf.ones([])
    function(x)
    inside.clear()
    while not inside.is_set():  # on a busy machine the time may be over before
        _, metadata, seconds = failing(
            tf.errors.DeadlineExceededError,
            lambda **kw: adapter.run(function, x, **kw),
            timeout_in_ms=100,
            trace_level=0,
        )
    (late,) = metadata.status.outcomes
    assert (late.name, late.outcome) == ("asleep", "waited_for")
    assert 0.1e9 < late.waited_ns < seconds * 1e9


# -- deadlines: sessions ---------------------------------------------------------------------------


@pytest.fixture(params=["fed", "folded"])
def napping(request, tensorflow):
    """(session, the fetch that sleeps, another fetch, the feeds)."""
    tf = tensorflow
    let_go = threading.Event()

    def nap(x):
        let_go.wait(patient(60))
        return x

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder_with_default(np.float32(2), [])
        before = tf.sin(x, name="before")
        asleep = tf.numpy_function(nap, [before], tf.float32, name="asleep")
        after = tf.tanh(asleep, name="after")
    session = adapter.Session(graph=graph)
    yield session, after, before, {x: 2.0} if request.param == "fed" else {}
    let_go.set()


def test_a_session_gives_control_back_at_the_deadline_and_survives(tensorflow, napping):
    session, after, before, feed = napping
    _, metadata, seconds = failing(
        tensorflow.errors.DeadlineExceededError,
        lambda **kw: session.run(after, feed, **kw),
        timeout_in_ms=300,
    )
    assert 0.3 <= seconds < 0.3 + 2 * SLACK_S
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert metadata.status.in_flight == ["asleep"]
    assert metadata.status.outcomes[0].outcome == "abandoned"
    if feed:
        assert "before" in list(metadata.ops.name)
    assert session.run(before, feed) == pytest.approx(np.sin(2.0), rel=1e-5)
    again = RunMetadata()
    session.run(before, feed, options=RunOptions(trace_level=SOFTWARE), run_metadata=again)
    assert again.status.ok
    assert len(again.ops) >= 2


def test_a_blocked_dequeue_in_a_session_is_cancelled(tensorflow):
    tf = tensorflow
    graph = tf.Graph()
    with graph.as_default():
        queue = tf.queue.FIFOQueue(1, [tf.float32], [[]], name="queue")
        taken = queue.dequeue(name="taken")
        put = queue.enqueue(4.0)
    with adapter.Session(graph=graph) as session:
        for _ in range(3):  # on a busy machine the op may end after the error is raised
            _, metadata, seconds = failing(
                tf.errors.DeadlineExceededError,
                lambda **kw: session.run(taken, **kw),
                timeout_in_ms=300,
            )
            assert 0.3 <= seconds < 0.3 + 2 * SLACK_S
            assert metadata.status.in_flight == ["taken"]
            if metadata.status.outcomes[0].outcome == "cancelled":
                break
        assert metadata.status.outcomes[0].outcome == "cancelled"
        session.run(put)
        assert session.run(taken) == 4.0


# -- classes ---------------------------------------------------------------------------------------


def test_errors_are_of_tensorflows_class_and_ours(tensorflow, hundred_as):
    for mode in ("session", "function", "eager"):
        error, _, _ = failing(tensorflow.errors.InvalidArgumentError, hundred_as(mode))
        assert isinstance(error, errors.InvalidArgumentError)
        assert isinstance(error, errors.OpError)
        assert error.error_code == tensorflow.errors.INVALID_ARGUMENT
        assert type(error).__name__ == "InvalidArgumentError"
    with pytest.raises(errors.DeadlineExceededError):
        adapter.run(
            endless(tensorflow), tensorflow.ones([2]), options=RunOptions(timeout_in_ms=100)
        )


# -- calls that nothing is recorded of ------------------------------------------------------------


def test_an_untraced_call_that_failed_leaves_the_next_one_alone(tensorflow):
    tf = tensorflow
    inverse = tf.function(tf.linalg.inv)
    for _ in range(2):
        with pytest.raises(stepscope.errors.InvalidArgumentError) as raised:
            stepscope.run(inverse, tf.zeros([2, 2]))
        assert isinstance(raised.value, tf.errors.InvalidArgumentError)
        assert raised.value.run_metadata.status.code == "INVALID_ARGUMENT"
        assert len(raised.value.run_metadata.ops) == 0
    assert stepscope.run(inverse, tf.eye(2)).numpy().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("compiled", [True, False])
def test_an_untraced_call_replaces_what_the_metadata_held(tensorflow, compiled):
    add = (lambda x: x + x) if not compiled else tensorflow.function(lambda x: x + x)
    metadata = stepscope.RunMetadata()
    x = tensorflow.ones([2])
    stepscope.run(add, x, run_metadata=metadata)
    assert len(metadata.ops) > 0
    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.NO_TRACE)
    stepscope.run(add, x, options=options, run_metadata=metadata)
    assert len(metadata.ops) == 0
    assert metadata.status.code == "OK"
    assert metadata.engine == ("tensorflow function" if compiled else "tensorflow eager")
    assert metadata.run_options == options
    assert metadata.completeness.complete
