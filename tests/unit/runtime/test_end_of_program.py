"""A program that leaves its session open ends when it is at its end."""

import subprocess
import sys

NOTED = """
import os, sys, threading

def wait_for(self, predicate, timeout=None, plain=threading.Condition.wait_for,
             ending=sys.is_finalizing, write=os.write):
    if ending():
        write(1, b"waits at the end")
    return plain(self, predicate, timeout)

threading.Condition.wait_for = wait_for
"""
PROGRAM = f"""
import os, threading
import stepscope.tf1 as tf

# In a namespace of its own: what hangs on this one's would keep the session alive for longer.
exec({NOTED!r}, {{}})
session = tf.Session()
doubled = tf.constant([1.0]) + 1.0
# A run with a deadline is made by a worker thread, which lives as long as the session.
assert session.run(doubled, options=tf.RunOptions(timeout_in_ms=600_000)).tolist() == [2.0]
assert any(thread.name.startswith("stepscope/") for thread in threading.enumerate())
os.write(1, b"done ")
"""


def test_no_thread_is_waited_for_at_the_end() -> None:
    """Threads stand still by then: whoever waits for one waits as long as he is patient."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr, run.returncode) == ("done ", "", 0)
