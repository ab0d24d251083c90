"""Deadlines of runs whose record is not read in time: control comes back first."""

import threading
import time

import pytest

import stepscope
from patience import patient
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.capture import capture, events
from stepscope.adapters.tensorflow.capture.profiled_capture import ProfiledCapture
from stepscope.adapters.tensorflow.capture.profiler import SharedProfiler
from stepscope.adapters.tensorflow.node_log import log as node_log
from stepscope.metadata.logged_nodes import LoggedNodes
from stepscope.metadata.xplane import Row

ENDLESS = 10**9
DEADLINES_MS = (300, 3_000, 30_000)
"""Tried in turn: on a busy machine the first may be over before an op was executed."""


def counting(tensorflow, until):
    """A loop of cheap ops: a million nodes in a second."""
    return tensorflow.while_loop(
        lambda i, x: i < until,
        lambda i, x: (i + 1, x * 1.0001 + 1.0),
        [tensorflow.constant(0), tensorflow.constant(1.0)],
    )


def multiplying(tensorflow, until):
    """A loop that takes a while for each time round: its record is soon read."""
    return tensorflow.while_loop(
        lambda i, x: i < until,
        lambda i, x: (i + 1, tensorflow.matmul(x, x)),
        [tensorflow.constant(0), tensorflow.fill([512, 512], 1 / 512)],
    )


@pytest.fixture(params=["session", "function"])
def call(request, tensorflow):
    """Goes round without an end, traced, until a deadline."""
    traced = stepscope.RunOptions(trace_level=stepscope.RunOptions.SOFTWARE_TRACE)
    if request.param == "function":
        function = tensorflow.function(lambda until: multiplying(tensorflow, until))

        def run(until, options, **metadata):
            return adapter.run(function, tensorflow.constant(until), options=options, **metadata)
    else:
        with tensorflow.Graph().as_default() as graph:
            until = tensorflow.compat.v1.placeholder(tensorflow.int32, [])
            fetch = multiplying(tensorflow, until)
        session = adapter.Session(graph=graph)

        def run(number, options, **metadata):
            return session.run(fetch, {until: number}, options=options, **metadata)

    def late(deadline_ms, metadata):
        options = stepscope.RunOptions(
            trace_level=stepscope.RunOptions.SOFTWARE_TRACE, timeout_in_ms=deadline_ms
        )
        with pytest.raises(stepscope.errors.DeadlineExceededError) as caught:
            run(ENDLESS, options, run_metadata=metadata)
        return caught.value

    run(3, traced)
    yield late
    if request.param == "session":
        session.close()


@pytest.fixture
def reading(monkeypatch):
    """Who took a record apart, in order; stopping the profiler waits until it is let go on."""
    readers = []
    go_on = threading.Event()
    stop = SharedProfiler.stop

    def held_up(self, batch):
        go_on.wait(patient(20))
        stop(self, batch)

    def noted(kind):
        decode = kind.__init__

        def note(self, data, *others):
            if data:
                readers.append(kind)
            decode(self, data, *others)

        monkeypatch.setattr(kind, "__init__", note)

    monkeypatch.setattr(SharedProfiler, "stop", held_up)
    noted(events.Profile)
    noted(node_log.LoggedRun)
    yield readers, go_on
    go_on.set()


def assert_nothing_is_read_before_it_is_looked_at(call, reading):
    readers, go_on = reading
    for deadline_ms in DEADLINES_MS:
        readers.clear()
        go_on.clear()
        metadata = stepscope.RunMetadata()
        error = call(deadline_ms, metadata)
        read = list(readers)
        go_on.set()
        assert error.run_metadata is metadata
        assert metadata.status.code == "DEADLINE_EXCEEDED"
        if any(op.outcome == "abandoned" for op in metadata.status.outcomes):
            continue  # what it has noted so far is taken when it is given up on
        assert not read
        if len(metadata.ops):
            break
    assert len(metadata.ops)
    assert readers


def test_control_comes_back_before_the_profiler_is_stopped(call, reading):
    assert_nothing_is_read_before_it_is_looked_at(call, reading)


def test_control_comes_back_before_the_log_is_read(prepared, call, reading):
    assert_nothing_is_read_before_it_is_looked_at(call, reading)


def test_a_run_with_a_deadline_does_not_wait_until_an_earlier_one_is_read(call, reading):
    readers, go_on = reading
    for deadline_ms in DEADLINES_MS:
        go_on.clear()
        first, second = stepscope.RunMetadata(), stepscope.RunMetadata()
        for metadata in (first, second):
            call(deadline_ms, metadata)
        assert not readers
        go_on.set()
        assert [
            loss.what for loss in second.completeness.losses if "still being read" in loss.reason
        ] == ["op executions"]
        assert not len(second.ops)
        if len(first.ops):
            break
        readers.clear()
    assert len(first.ops)


@pytest.fixture
def late_functions(tensorflow, prepared):
    """A loop without an end and a dequeue that nobody fills, traced until a deadline."""
    raw, kinds = tensorflow.raw_ops, [tensorflow.float32]

    @tensorflow.function
    def take():
        # A queue of the function's own: Python's are destroyed by an op, in whatever run that is.
        queue = raw.FIFOQueueV2(component_types=kinds, shared_name="nobody_fills_it")
        return raw.QueueDequeueV2(handle=queue, component_types=kinds, name="take")

    take.get_concrete_function()
    loop = tensorflow.function(lambda until: counting(tensorflow, until))
    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.SOFTWARE_TRACE)
    adapter.run(loop, tensorflow.constant(3), options=options)

    def late(function, *args):
        """Its metadata, once it executed something."""
        for deadline_ms in DEADLINES_MS:
            options.timeout_in_ms = deadline_ms
            metadata = stepscope.RunMetadata()
            with pytest.raises(stepscope.errors.DeadlineExceededError):
                adapter.run(function, *args, options=options, run_metadata=metadata)
            if metadata.status.in_flight:
                break
        return metadata

    return lambda: late(loop, tensorflow.constant(ENDLESS)), lambda: late(take)


def test_a_run_is_looked_at_while_the_full_log_of_another_is_read(late_functions, monkeypatch):
    late_loop, late_take = late_functions
    reading, go_on = threading.Event(), threading.Event()
    tensors = LoggedNodes._tensors
    reader = threading.Thread(target=late_loop, daemon=True)

    def held_up(self, mask):
        if threading.current_thread() is reader:
            reading.set()
            go_on.wait(patient(60))
        return tensors(self, mask)

    monkeypatch.setattr(LoggedNodes, "_tensors", held_up)
    reader.start()
    assert reading.wait(patient(60))
    found = []
    other = threading.Thread(target=lambda: found.append(late_take()), daemon=True)
    other.start()
    other.join(patient(20))
    in_time = bool(found)
    go_on.set()
    reader.join(patient(60))
    other.join(patient(60))
    assert in_time
    (metadata,) = found
    assert metadata.status.in_flight == ["take"]


def test_what_was_in_flight_is_known_without_taking_a_log_apart(late_functions, monkeypatch):
    late_loop, _ = late_functions
    made = []

    def row(*parts):
        made.append(Row(*parts))
        return made[-1]

    monkeypatch.setattr("stepscope.metadata.logged_nodes.Row", row)
    metadata = late_loop()
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert 0 < len(made) < 100 < len(metadata.ops)


def test_a_run_given_up_on_that_ends_before_the_profiler_does_keeps_its_ops(tensorflow, reading):
    _, go_on = reading
    entered, let_go = threading.Event(), threading.Event()

    def wait(value):
        entered.set()
        let_go.wait(patient(60))
        return value

    with tensorflow.Graph().as_default() as graph:
        x = tensorflow.compat.v1.placeholder(tensorflow.float32, [])
        before = tensorflow.sin(x, name="before")
        after = tensorflow.tanh(tensorflow.numpy_function(wait, [before], tensorflow.float32))
    options = stepscope.RunOptions(
        trace_level=stepscope.RunOptions.SOFTWARE_TRACE, timeout_in_ms=300
    )
    with adapter.Session(graph=graph) as session:
        while not entered.is_set():  # on a busy machine the time may be over before
            metadata = stepscope.RunMetadata()
            with pytest.raises(stepscope.errors.DeadlineExceededError):
                session.run(after, {x: 2.0}, options=options, run_metadata=metadata)
        let_go.set()
        while session._stepscope.threads:  # its thread lives until the profiler is stopped
            time.sleep(0.001)
        go_on.set()
        assert "before" in metadata.ops.name
        assert metadata.status.outcomes[0].outcome == "abandoned"


def test_a_run_that_the_profiler_lost_says_so(tensorflow, monkeypatch):
    """As TensorFlow 2.15 does where a thread ends and another one gets its number."""
    monkeypatch.setattr(ProfiledCapture, "_mark", lambda self: None)
    metadata = stepscope.RunMetadata()
    function = tensorflow.function(lambda x: x + 1)
    adapter.run(function, tensorflow.constant(1), run_metadata=metadata)
    assert not len(metadata.ops)
    (loss,) = [x for x in metadata.completeness.losses if x.what == "op executions"]
    assert "another thread took its place" in loss.reason


def test_a_record_too_large_to_be_read_is_declared(tensorflow, monkeypatch):
    monkeypatch.setattr("stepscope.adapters.tensorflow.capture.profiler.MOST_BYTES", 100)
    metadata = stepscope.RunMetadata()
    function = tensorflow.function(lambda x: x + 1)
    adapter.run(function, tensorflow.constant(1), run_metadata=metadata)
    assert not len(metadata.ops)
    (loss,) = [x for x in metadata.completeness.losses if x.what == "op executions"]
    assert "larger than what is read" in loss.reason


@pytest.mark.usefixtures("prepared")
def test_a_log_keeps_so_many_nodes_and_counts_the_others(tensorflow):
    steps = tensorflow.function(lambda until: counting(tensorflow, until))
    metadata = stepscope.RunMetadata()
    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.SOFTWARE_TRACE)
    adapter.run(steps, tensorflow.constant(3), options=options)
    adapter.run(steps, tensorflow.constant(150_000), options=options, run_metadata=metadata)
    (loss,) = [x for x in metadata.completeness.losses if x.what == "op executions"]
    assert loss.reason == capture._TOO_MANY
    assert loss.count > 0
    assert 0 < len(metadata.ops) <= 1 << 20
