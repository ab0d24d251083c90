"""Runs that are profiled together: nested ones, and ones that wait for each other."""

import threading
import time

import pytest

import stepscope
from patience import patient
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.capture import profiler
from stepscope.metadata.xplane import XSpace


@pytest.fixture
def square(tensorflow):
    return tensorflow.function(lambda x: x * x + x)


def test_a_run_inside_another_belongs_to_both(tensorflow, square):
    x = tensorflow.ones([4])
    with stepscope.observe() as outer:
        tensorflow.matmul(tensorflow.ones([2, 2]), tensorflow.ones([2, 2]))
        with stepscope.observe() as inner:
            square(x)
    assert "MatMul" in outer.ops.op
    assert "AddV2" in outer.ops.op
    assert "AddV2" in inner.ops.op
    assert "MatMul" not in inner.ops.op
    assert any("inside another traced run" in loss.reason for loss in inner.completeness.losses)


def test_runs_that_wait_for_each_other_do_not_wait_for_ever(tensorflow, monkeypatch):
    monkeypatch.setattr(profiler, "PATIENCE_S", 0.2)
    queue = tensorflow.queue.FIFOQueue(4, [tensorflow.float32], shapes=[[]])
    taken, inside = stepscope.RunMetadata(), threading.Event()

    @tensorflow.function
    def take():
        tensorflow.py_function(inside.set, [], [])
        return queue.dequeue_many(2)

    @tensorflow.function
    def put():
        queue.enqueue(1.0)

    taking = threading.Thread(target=lambda: stepscope.run(take, run_metadata=taken), daemon=True)
    taking.start()
    assert inside.wait(patient(30))
    puts = [stepscope.RunMetadata(), stepscope.RunMetadata()]
    began = time.monotonic()
    for metadata in puts:
        stepscope.run(put, run_metadata=metadata)
    taking.join(patient(20))
    assert not taking.is_alive()
    assert time.monotonic() - began < 15
    for metadata in puts:
        # The profiler may stop before a thread has left the op; that is said, then.
        said = [loss.reason for loss in metadata.completeness.losses]
        assert "QueueEnqueueV2" in metadata.ops.op or any("mpty_enqueue" in why for why in said)
    assert any("waited too long" in loss.reason for loss in taken.completeness.losses)


def as_if_stopped_at_the_mark_of(node, data):
    """A profile without the spans that had not ended when the executor was done with a node."""
    space = XSpace.FromString(data)
    (host,) = [plane for plane in space.planes if plane.name == "/host:CPU"]
    for line in host.lines:
        marks = [
            event.offset_ps + event.duration_ps
            for event in line.events
            for stat in event.stats
            if host.event_metadata[event.metadata_id].name == "ExecutorPropagateOutputs"
            and node in (stat.str_value, host.stat_metadata[stat.ref_value].name)
        ]
        if marks:
            ended = [e for e in line.events if e.offset_ps + e.duration_ps <= max(marks)]
            del line.events[:]
            line.events.extend(ended)
    return space.SerializeToString()


@pytest.fixture(params=["session", "function"])
def put_cut_off(request, tensorflow, monkeypatch):
    """A traced enqueue whose thread was still inside the op when the profiler was stopped."""
    stop = profiler.SharedProfiler.stop

    def early(self, batch):
        stop(self, batch)
        batch.data = as_if_stopped_at_the_mark_of("put", batch.data)

    metadata = stepscope.RunMetadata()
    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.SOFTWARE_TRACE)
    v1 = tensorflow.compat.v1
    if request.param == "session":
        with tensorflow.Graph().as_default() as graph:
            queue = v1.FIFOQueue(4, [tensorflow.float32], shapes=[[]])
            put = queue.enqueue(1.0, name="put")
        with adapter.Session(graph=graph) as session:
            session.run(put)
            monkeypatch.setattr(profiler.SharedProfiler, "stop", early)
            session.run(put, options=options, run_metadata=metadata)
    else:
        queue = tensorflow.queue.FIFOQueue(4, [tensorflow.float32], shapes=[[]])

        @tensorflow.function
        def function():
            queue.enqueue(1.0, name="put")

        function()
        monkeypatch.setattr(profiler.SharedProfiler, "stop", early)
        adapter.run(function, options=options, run_metadata=metadata)
    return metadata


def test_an_op_that_the_profiler_was_stopped_inside_of_is_declared(put_cut_off):
    (loss,) = put_cut_off.completeness.losses
    assert (loss.what, loss.count) == ("op executions", 1)
    assert "put" in loss.reason


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="TensorFlow's profiler is handed an op by the thread that leaves it, and not if it was "
    "stopped before: at the stop nothing says that the op had begun.",
)
def test_an_op_that_the_profiler_was_stopped_inside_of_is_recorded(put_cut_off):
    assert "put" in put_cut_off.ops.name
