"""Real servers whose clocks are moved: found again within the stated error, and order restored."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from cluster_servers import Servers

import stepscope
from stepscope.analysis import clocks, critical_path, network
from stepscope.analysis.messages import traffic

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="a C compiler makes the moved clock"),
]

SECOND = 1_000_000_000
MOVED = {"worker:0": (5 * SECOND, 0.0), "worker:1": (-5 * SECOND, 0.0), "worker:2": (0, 100.0)}
TRIALS = 20
SIZE = 64


@pytest.fixture(scope="module")
def moved_servers(tensorflow, tmp_path_factory):
    """A server whose clock is right and three workers whose clocks are not; and since when."""
    library = tmp_path_factory.mktemp("clock") / "moved_clock.so"
    source = Path(__file__).with_name("moved_clock.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    since = time.time_ns()
    environments = {
        task: {
            "LD_PRELOAD": str(library),
            "MOVED_BY_NS": str(offset),
            "MOVED_PPM": str(ppm),
            "MOVED_SINCE_NS": str(since),
        }
        for task, (offset, ppm) in MOVED.items()
    }
    with Servers(environments, ps=1, worker=3) as running:
        yield running, since


@pytest.fixture(scope="module")
def session(moved_servers, tensorflow):
    """Every worker computes a gradient of the server's w, the second one more if it is told to."""
    from stepscope.adapters.tensorflow import Session

    tf = tensorflow.compat.v1
    graph = tensorflow.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            w = tf.get_variable("w", [SIZE, SIZE], initializer=tf.ones_initializer())
        x = tf.placeholder(tf.float32, [None, SIZE], name="x")
        slow = tf.placeholder(tf.float32, [None, None], name="slow")
        gradients = []
        for task in range(3):
            with tf.device(f"/job:worker/task:{task}"):
                inputs = tf.identity(x)
                if task == 1:
                    inputs += tf.reduce_sum(tf.matmul(slow, slow, name="slow_op")) * 0.0
                loss = tf.reduce_mean(tf.square(tf.matmul(inputs, w)))
                gradients += tf.gradients(loss, [w])
        with tf.device("/job:ps/task:0"):
            tf.group(tf.assign_sub(w, 1e-6 * tf.add_n(gradients)), name="train")
        tf.global_variables_initializer()
    servers, since = moved_servers
    with Session(servers.target, graph=graph) as session:
        session.run("init")
        yield session, since


def trained(session, steps, slow=2):
    runs = []
    feeds = {"x:0": np.ones((8, SIZE), np.float32), "slow:0": np.ones((slow, slow), np.float32)}
    for _ in range(steps):
        metadata = stepscope.RunMetadata()
        options = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
        session.run("train", feeds, options=options, run_metadata=metadata)
        runs.append(metadata)
    return runs


def test_moved_clocks_are_found_within_their_error_and_order_is_restored(session):
    session, since = session
    within = dict.fromkeys(MOVED, 0)
    for _ in range(TRIALS):
        runs = trained(session, 6)
        found = clocks(runs)
        assert found.reference == "ps:0"
        for row in found.rows[1:]:
            offset, ppm = MOVED[row.task]
            true = offset + ppm * 1e-6 * (found.base_ns - since)
            assert row.error_ns < 100_000_000
            within[row.task] += abs(row.offset_ns - true) <= row.error_ns
        messages = [m for run in found.apply(runs) for m in traffic(run.metadata.ops).messages]
        matched = [m for m in messages if m.producer >= 0]
        assert len(matched) >= 6 * 6
        # Rows of receives count in microseconds.
        assert min(m.received_ns - m.sent_ns for m in matched) > -1000
    assert min(within.values()) >= TRIALS * 19 // 20, within


def test_a_slow_op_makes_its_worker_the_straggler_and_lies_on_the_path(session):
    session, _ = session
    trained(session, 1, slow=1500)
    runs = trained(session, 3, slow=1500)
    found = network(runs)
    # What is fed goes from the first worker to the others, and no op made it.
    fed = [row for row in found.rows if row.producer in ("_recv_x_0", "_recv_slow_0")]
    assert sum(row.calls for row in fed) == found.unmatched == 3 * 3
    # Other work on the machine may hold up a message for longer than the slow op takes.
    named = [(late.kind, late.name) for late in found.stragglers]
    assert named.count(("task", "worker:1")) >= 2
    paths = [critical_path(run.metadata).names for run in found.clocks.apply(runs)]
    assert sum("slow_op" in names for names in paths) >= 2
