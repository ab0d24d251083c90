"""What a run of the embedded engine held is free again when nobody has it any more: at once.

Tensors are megabytes in few objects, so Python's collector of cycles comes late; here not at all.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import stepscope.tf1 as tf
from stepscope.runtime.execute import frames


@pytest.fixture
def collector_off():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("level", [tf.RunOptions.NO_TRACE, tf.RunOptions.FULL_TRACE])
def test_loops_go_with_a_run_that_failed_inside_of_them(collector_off, level):
    def work(i, j):
        if (i, j) == (2, 3):
            raise ValueError("enough")
        return np.int32(j + 1)

    def outer(i):
        def step(j):
            return tf.reshape(tf.py_func(work, [i, j], tf.int32), [])

        inner = tf.while_loop(lambda j: j < 5, step, [0])
        with tf.control_dependencies([inner]):
            return i + 1

    with tf.Graph().as_default(), tf.Session() as session:
        endless = tf.while_loop(lambda i: i >= 0, outer, [0])
        options = tf.RunOptions(inter_op_thread_pool=-1, trace_level=level)
        with pytest.raises(tf.errors.InvalidArgumentError, match="enough"):
            session.run(endless, options=options, run_metadata=tf.RunMetadata())
        assert [thing for thing in gc.get_objects() if type(thing) is frames._Frame] == []
