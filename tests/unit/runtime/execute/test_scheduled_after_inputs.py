"""An op is scheduled once all its inputs are there, whichever thread was held up on the way."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from patience import patient
from stepscope.runtime.execute.pool_run import PoolRun

FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)


class HeldUp:
    """Between the end of the op `early` and the news of it, the op `late` ends and is followed."""

    def __init__(self, monkeypatch):
        self.early_ended, self.late_followed = threading.Event(), threading.Event()
        self._local = threading.local()
        told = PoolRun._ready_at
        monkeypatch.setattr(PoolRun, "_lock", property(self._lock_of, self._keep), raising=False)
        monkeypatch.setattr(PoolRun, "_ready_at", lambda run, ended: self._tell(told, run, ended))

    def late(self, value):
        assert self.early_ended.wait(patient(60))
        self._local.late = True
        return value

    def early(self, value):
        self._local.early = True
        return value

    def _keep(self, run, lock):
        run.__dict__["the_lock"] = lock

    def _lock_of(self, run):
        if self._local.__dict__.pop("early", False):
            self.early_ended.set()
            assert self.late_followed.wait(patient(60))
        return run.__dict__["the_lock"]

    def _tell(self, told, run, ended):
        now = told(run, ended)
        if self._local.__dict__.pop("late", False):
            self.late_followed.set()
        return now


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_what_two_threads_made_ready_is_scheduled_after_both(monkeypatch, in_a_loop):
    held_up = HeldUp(monkeypatch)

    def joined(start):
        early = tf.py_func(held_up.early, [start], tf.float32, name="early")
        late = tf.py_func(held_up.late, [start], tf.float32, name="late")
        early.set_shape([]), late.set_shape([])
        return tf.add(early, late, name="joined")

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        if in_a_loop:
            # A plan with a loop is executed by another class.
            y = tf.while_loop(lambda y: y < 4.0, lambda y: y + 1.0, [joined(x)])
        else:
            y = joined(x)
        metadata = stepscope.RunMetadata()
        config = tf.ConfigProto(inter_op_parallelism_threads=2)
        with stepscope.Session(config=config) as session:
            value = session.run(y, {x: np.float32(1.0)}, options=FULL, run_metadata=metadata)
    assert value == (4.0 if in_a_loop else 2.0)
    assert held_up.late_followed.is_set()
    ops = metadata.ops
    row = {name: i for i, name in enumerate(ops.name)}
    ends = [int(ops.end_ns[row[name]]) for name in ("early", "late")]
    assert ends[0] < ends[1]
    assert int(ops.scheduled_ns[row["joined"]]) >= ends[1]
