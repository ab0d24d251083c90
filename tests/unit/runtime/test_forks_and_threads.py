"""The engine in a process that forks, and beside threads that come and go.

Each program runs in a process of its own, so that one that hangs can be ended: a deadline of the
test, generous, is what fails then.
"""

import subprocess
import sys
import textwrap

PATIENCE_S = 120


def run(source: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


POOLED = """
    import multiprocessing, os, sys, threading
    import numpy as np
    import stepscope.tf1 as tf

    config = tf.ConfigProto(inter_op_parallelism_threads=2)
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [400, 400])
        a, b = x, x + 1.0
        for _ in range(3):
            a, b = tf.matmul(a, x) / 400.0, tf.matmul(b, x) / 400.0
        total = tf.reduce_sum(a) + tf.reduce_sum(b)
    session = tf.Session(graph=graph, config=config)
    fed = {x: np.ones((400, 400), np.float32)}

    def threads_of_run():
        metadata = tf.RunMetadata()
        # With a deadline nothing runs on the caller's thread.
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=600_000)
        value = session.run(total, fed, options=options, run_metadata=metadata)
        names = {metadata.ops.thread_names.get(t, "") for t in metadata.ops.thread}
        return float(value), any(name.startswith("stepscope/") for name in names)
"""


def test_pooled_runs_go_on_in_the_child_of_a_fork() -> None:
    before, child, after = run(
        POOLED
        + """
    print(threads_of_run(), flush=True)
    child = os.fork()
    if child == 0:
        print(threads_of_run(), flush=True)
        session.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(threads_of_run(), flush=True)
    """
    )
    assert before == child == after == "(480000.0, True)"


def test_workers_of_multiprocessing_run_the_sessions_they_inherit() -> None:
    (values,) = run(
        POOLED
        + """
    expected = threads_of_run()

    def work(_):
        return threads_of_run() == expected

    with multiprocessing.get_context("fork").Pool(2) as workers:
        print(workers.map(work, range(4)))
    """
    )
    assert values == "[True, True, True, True]"


def test_a_fork_while_other_threads_run() -> None:
    """What another thread has under way stays the parent's; the child's own runs are right."""
    (values,) = run(
        POOLED.replace("threads=2", "threads=1")
        + """
    expected = threads_of_run()
    inside, leave = threading.Event(), threading.Event()

    def stay(v):
        inside.set()
        leave.wait()
        return v

    with graph.as_default():
        stuck = tf.py_func(stay, [x], tf.float32) + 1.0
    other = threading.Thread(
        target=lambda: session.run(stuck, fed, options=tf.RunOptions(timeout_in_ms=600_000))
    )
    other.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        right = threads_of_run() == expected
        session.close()
        os._exit(0 if right else 3)
    left = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    leave.set()
    other.join()
    print(left, threads_of_run() == expected)
    """
    )
    assert values == "0 True"


def test_deadlines_beside_threads_that_end() -> None:
    """Naming the op in flight must not stop the process, whatever the collector is doing.

    `sys._current_frames` did, on CPython before 3.11.9: it allocates, which may collect garbage,
    which may let other threads run, one of which may end and wait for what is locked.
    """
    (values,) = run(
        """
    import gc, threading, time
    import stepscope.tf1 as tf

    class Cycle:
        def __init__(self):
            self.itself = self
        def __del__(self):
            time.sleep(0)  # lets other threads run

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32)
        y = tf.py_func(lambda v: (time.sleep(0.02), v)[1], [x], tf.float32, name="sleeps")
    config = tf.ConfigProto(inter_op_parallelism_threads=64)
    session = tf.Session(graph=graph, config=config)
    options = tf.RunOptions(timeout_in_ms=5)
    named = []

    def work():
        for _ in range(40):
            try:
                session.run(y, {x: 1.0}, options=options)
            except tf.errors.DeadlineExceededError as error:
                named.extend(error.run_metadata.status.in_flight)
            Cycle()
            threading.Thread(target=lambda: None).start()

    gc.set_threshold(5, 1, 1)
    for _ in range(4):
        threads = [threading.Thread(target=work) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(sorted(set(named)))
    """
    )
    assert values == "['sleeps']"
