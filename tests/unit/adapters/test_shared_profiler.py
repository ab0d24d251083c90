"""Runs that are profiled together: nested ones, and ones that wait for each other."""

import threading
import time

import pytest

import stepscope
from patience import patient
from stepscope.adapters.tensorflow import profiler


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
    assert all("QueueEnqueueV2" in metadata.ops.op for metadata in puts)
    assert any("waited too long" in loss.reason for loss in taken.completeness.losses)
