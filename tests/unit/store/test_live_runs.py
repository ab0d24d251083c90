"""What a process was executing is known after its death: real programs, real deaths."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import stepscope.tf1 as tf
from patience import patient
from stepscope.metadata import RunMetadata, load
from stepscope.runtime.observers import recording
from stepscope.store import LiveRuns, Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")

BEGINNING = """
import os, pathlib, sys, threading
import stepscope.tf1 as tf
from stepscope.runtime.observers import recording
from stepscope.store import LiveRuns, Store
store = Store(pathlib.Path(sys.argv[1]))
live = LiveRuns(store.path)
def die(x):
    os._exit(0)
def record(metadata, graph):
    pass
x = tf.constant([1.0, 2.0], name="x")
y = tf.negative(x, name="y")
"""
RUN = """
with recording(record, 3, live), tf.Session(config=config) as session:
    for fetched in fetches:
        session.run(fetched)
"""


def left_by(source, folder):
    """The runs that a program leaves that ends by `os._exit(0)` before it stores any."""
    program = BEGINNING + "config = None\n" + textwrap.dedent(source) + RUN
    subprocess.run(
        [sys.executable, "-c", program, str(folder)], check=True, timeout=patient(240)
    )  # fmt: skip
    found = load(folder)
    return found if isinstance(found, list) else [found]


def test_the_op_in_flight_and_those_that_had_ended(tmp_path):
    ended, under_way = left_by(
        """
        z = tf.py_func(die, [tf.square(y, name="square")], tf.float32, name="z")
        fetches = [y, tf.negative(z, name="after")]
        """,
        tmp_path,
    )
    assert ended.status.ok
    assert ended.ops.name.tolist() == ["y"]
    assert under_way.status.code == "ABORTED"
    assert under_way.status.in_flight == ["z"]
    assert [op.outcome for op in under_way.status.outcomes] == ["running"]
    assert under_way.ops.name.tolist() == ["y", "square"]
    assert (under_way.ops.end_ns[0], under_way.ops.op.tolist()) == (
        under_way.ops.start_ns[1],
        ["Neg", "Square"],
    )
    (missing,) = [x for x in under_way.completeness.losses if x.what == "node executions"]
    assert missing.count == 2


def test_an_op_in_flight_on_each_thread(tmp_path):
    (run,) = left_by(
        """
        both = threading.Barrier(2)
        def wait(x):
            both.wait()
            threading.Event().wait()
        def wait_and_die(x):
            both.wait()
            die(x)
        a = tf.py_func(wait, [y], tf.float32, name="a")
        b = tf.py_func(wait_and_die, [y], tf.float32, name="b")
        config = tf.ConfigProto(inter_op_parallelism_threads=2)
        fetches = [[a, b]]
        """,
        tmp_path,
    )
    assert sorted(run.status.in_flight) == ["a", "b"]
    assert "y" in run.ops.name.tolist()


def test_the_op_in_flight_in_a_loop(tmp_path):
    (run,) = left_by(
        """
        def maybe(i):
            return die(i) if i == 3 else i
        def body(i):
            return tf.reshape(tf.py_func(maybe, [i], tf.int32, name="body"), []) + 1
        fetches = [tf.while_loop(lambda i: i < 9, body, [tf.constant(0)])]
        """,
        tmp_path,
    )
    assert run.status.code == "ABORTED"
    assert run.status.in_flight == ["while/body"]
    assert "while/Less" in run.ops.name.tolist()


def test_a_run_that_had_failed_says_so(tmp_path):
    (failed, _) = left_by(
        """
        def record(metadata, graph):
            pass
        fail = tf.py_func(lambda x: 1 / 0, [y], tf.float32, name="fail")
        with recording(record, 3, live), tf.Session() as session:
            try:
                session.run(fail)
            except tf.errors.OpError:
                pass
        fetches = [tf.py_func(die, [y], tf.float32)]
        """,
        tmp_path,
    )
    assert failed.status.code == "UNKNOWN"
    assert failed.ops.name.tolist() == ["y"]


def test_a_fork_that_goes_on_with_the_run_changes_nothing(tmp_path):
    (run,) = left_by(
        """
        def fork(x):
            child = os.fork()
            if not child:
                return x
            os.waitpid(child, 0)
            die(x)
        z = tf.py_func(fork, [y], tf.float32, name="forks")
        fetches = [tf.py_func(die, [tf.negative(z)], tf.float32, name="in_the_child")]
        """,
        tmp_path,
    )
    assert run.status.in_flight == ["forks"]
    assert run.ops.name.tolist() == ["y"]


@pytest.fixture
def recorded_here(tmp_path):
    """Record runs of this process; gives the store, the live runs and a session's `run`."""
    graph = tf.Graph()
    with graph.as_default():
        store = Store(tmp_path, lambda runs: live.stored([run.step_id for run in runs]))
        live = LiveRuns(store.path)
        with recording(lambda run, _: store.add(run), 3, live), tf.Session() as session:
            yield store, live, session.run
        store.close()


def test_nothing_is_left_of_a_process_that_ends_well(recorded_here, tmp_path):
    store, live, run = recorded_here
    y = tf.negative(tf.constant([1.0, 2.0]), name="y")
    for _ in range(200):
        np.testing.assert_array_equal(run(y), [-1.0, -2.0])
    assert live.path.exists()
    store.close()
    live.close()
    assert not live.path.exists()
    runs = load(tmp_path)
    assert len(runs) == 200
    assert all(run.completeness.complete for run in runs)
    assert all("y" in run.ops.name.tolist() for run in runs)


def test_a_run_is_not_shown_while_its_process_lives(recorded_here, tmp_path):
    store, _, run = recorded_here
    found = []

    def look(x):
        store.flush()
        found.extend(load(tmp_path))
        return x

    y = tf.constant([1.0])
    run(y)
    run(tf.py_func(look, [y], tf.float32))
    assert [run.status.code for run in found] == ["OK"]


def test_without_room_runs_are_recorded_all_the_same(tmp_path):
    live = LiveRuns(tmp_path / "no such directory" / "runs.stepscope")
    runs: list[RunMetadata] = []
    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.negative(tf.constant(1.0), name="y")
        with recording(lambda run, _: runs.append(run), 3, live):
            assert session.run(y) == -1.0
    live.close()
    assert "y" in runs[0].ops.name.tolist()
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_file_size_is_no_error(tmp_path):
    program = BEGINNING + textwrap.dedent(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 13, resource.RLIM_INFINITY))
        runs = []
        with recording(lambda run, _: runs.append(run), 3, live), tf.Session() as session:
            for _ in range(20):
                session.run(y)
        print(len(runs), runs[-1].ops.name.tolist())
        os._exit(0)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=True, capture_output=True, text=True, timeout=patient(240),
    )  # fmt: skip
    assert done.stdout.startswith("20 [")
    assert "'y'" in done.stdout


def test_an_op_that_was_abandoned_writes_where_no_other_run_does(recorded_here, tmp_path):
    _, live, run = recorded_here
    import threading

    release, ended = threading.Event(), threading.Event()

    def slow(x):
        release.wait(patient(60))
        ended.set()
        return x

    stuck = tf.py_func(slow, [tf.constant([1.0])], tf.float32, name="slow")
    quick = tf.negative(tf.constant([1.0]), name="quick")
    with pytest.raises(tf.errors.DeadlineExceededError) as caught:
        run(stuck, options=tf.RunOptions(timeout_in_ms=int(patient(2000))))
    assert caught.value.run_metadata.status.in_flight == ["slow"]
    for _ in range(3):
        run(quick)
    release.set()
    assert ended.wait(patient(60))
    run(quick)
    recorded_here[0].close()
    live.close()
    runs = load(tmp_path)
    assert [run.status.code for run in runs] == ["DEADLINE_EXCEEDED", *["OK"] * 4]
    assert not live.path.exists()
