"""Which thread a traced run says it ran on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import stepscope
import stepscope.tf1 as tf
from patience import patient

FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)


def threads_of(session, fetch):
    metadata = stepscope.RunMetadata()
    session.run(fetch, options=FULL, run_metadata=metadata)
    ops = metadata.ops
    (number,) = set(ops.thread.tolist())
    return number, ops.thread_names[number]


def test_each_run_names_the_thread_it_is_on_by_the_name_it_has_now():
    with tf.Graph().as_default():
        x = tf.ones([4]) * 2.0
        session = stepscope.Session()
    found = []

    def work():
        me = threading.current_thread()
        for name in ("first name", "second name"):
            me.name = name
            found.append((threads_of(session, x), (threading.get_native_id(), name)))

    for _ in range(2):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(patient(60))
    assert [said for said, _ in found] == [true for _, true in found]
    assert len(found) == 4
    assert threads_of(session, x)[0] == threading.get_native_id()
    session.close()


FORKED = """
import os, threading
import stepscope, stepscope.tf1 as tf
x = tf.ones([4]) * 2.0
session = stepscope.Session()
full = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
def number():
    metadata = stepscope.RunMetadata()
    session.run(x, options=full, run_metadata=metadata)
    return set(metadata.ops.thread.tolist())
assert number() == {threading.get_native_id()}
child = os.fork()
if not child:
    os._exit(0 if number() == {threading.get_native_id()} else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_a_thread_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, timeout=patient(240))
    assert done.returncode == 0, done.stderr.decode()
