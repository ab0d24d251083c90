"""Training on several processes, each under `stepscope run`: merged, attributed, and cut off."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from stepscope.analysis import WorkerRuns, network, workers_at

pytestmark = pytest.mark.tensorflow
STEPS = 4
LAST_OF_KILLED = 2

MIRRORED = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    w = tf.Variable(tf.ones([16, 16]), name="w")
x = tf.ones([4, 16])

def replica():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    gradient = tape.gradient(loss, w)
    total = tf.distribute.get_replica_context().all_reduce("sum", gradient)
    w.assign_sub(1e-4 * total)
    return loss

@tf.function
def step():
    return strategy.run(replica)

for _ in range({steps}):
    step()
"""
SERVED = """
import json, os, signal, time
import tensorflow.compat.v1 as tf
config = json.loads(os.environ["TF_CONFIG"])
cluster, me = tf.train.ClusterSpec(config["cluster"]), config["task"]["index"]
server = tf.train.Server(cluster, job_name="worker", task_index=me)
here = f"/job:worker/task:{{me}}"
with tf.Graph().as_default():
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=here)):
        w = tf.get_variable("w", [16, 16], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.ones([4, 16]), w)), name="loss")
        gradient = tf.multiply(tf.gradients(loss, w)[0], 1e-4, name="to_w")
        train = tf.assign_sub(w, gradient)
        ready = tf.report_uninitialized_variables()
        init = tf.global_variables_initializer()
    alone = tf.ConfigProto(device_filters=["/job:ps", here])
    with tf.Session(server.target, config=alone) as session:
        if me == 0:
            session.run(init)
        while len(session.run(ready)):
            time.sleep(0.2)
        for number in range({steps}):
            if me == 1 and number == {killed}:
                os.kill(os.getpid(), signal.SIGKILL)
            session.run(train)
"""


@pytest.fixture(scope="module")
def trained(nursery, tmp_path_factory):
    """The directories of two mirrored workers, and of two of a parameter server, one killed."""
    folder = tmp_path_factory.mktemp("trained")
    with ExitStack() as held:

        def address():
            port = held.enter_context(socket.socket())
            port.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{port.getsockname()[1]}"

        mirrored = {"worker": [address(), address()]}
        served = {"ps": [address()], "worker": [address(), address()]}
    processes = {}
    for name, text, cluster in (("mirrored", MIRRORED, mirrored), ("served", SERVED, served)):
        script = folder / f"{name}.py"
        script.write_text(text.format(steps=STEPS, killed=LAST_OF_KILLED))
        for index in range(2):
            config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
            processes[name, index] = subprocess.Popen(
                [sys.executable, "-m", "stepscope", "run", "--out",
                 str(folder / name / f"w{index}"), str(script)],
                env={**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "3",
                     "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
    server = {}
    try:
        server = nursery.ask(spec=served, job="ps", task=0, clock=None, environment={})
        said = {key: process.communicate(timeout=100)[0] for key, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()
        if server:
            nursery.ask(stop=server["process"])
    codes = {key: process.returncode for key, process in processes.items()}
    killed = codes.pop(("served", 1))
    assert (killed, set(codes.values())) == (-signal.SIGKILL, {0}), said
    return folder


def test_collectives_of_mirrored_workers_are_matched_and_have_bytes(trained):
    runs = WorkerRuns(workers_at(trained / "mirrored"))
    found = network(runs, "edge")
    assert found.tasks == ("worker:0", "worker:1")
    rows = {(row.producer, row.target): row for row in found.rows}
    for task in found.tasks:
        row = rows["CollectiveReduceV2", task]
        assert (row.calls, row.bytes, row.source) == (STEPS, STEPS * 16 * 16 * 4, "(all)")
        assert row.waiting_ns + row.moving_ns == row.total_ns > 0
    assert found.collectives >= STEPS
    clock = found.clocks.rows[1]
    assert (clock.task, abs(clock.offset_ns) < 10**9) == ("worker:1", True)
    assert clock.constraints >= STEPS
    assert runs.missing() == []


def test_a_merged_trace_of_mirrored_workers_has_all_ops_of_both(command, trained, tmp_path):
    code, out, err = command("merge", trained / "mirrored", "-o", "all.json")
    assert (code, err) == (0, "")
    assert "clocks" in out
    trace = json.loads((tmp_path / "all.json").read_text())
    process = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"]
               if e["name"] == "process_name"}  # fmt: skip
    reduced = [
        process[e["pid"]] for e in trace["traceEvents"] if e["name"] == "CollectiveReduceV2"
        and e["ph"] == "X"
    ]  # fmt: skip
    assert len(reduced) == 2 * STEPS
    for task in (0, 1):
        assert sum(f"/job:worker/replica:0/task:{task}/" in name for name in reduced) == STEPS


def test_a_killed_worker_has_what_it_wrote_and_what_is_missing_is_said(command, trained):
    workers = workers_at(trained / "served")
    assert [(w.task, w.ended) for w in workers] == [("worker:0", True), ("worker:1", False)]
    trains = {
        worker.task: sum("AssignSubVariableOp" in run.metadata.ops.op for run in worker.runs())
        for worker in workers
    }
    assert trains == {"worker:0": STEPS, "worker:1": LAST_OF_KILLED}
    code, out, err = command("merge", trained / "served", "-o", "all.json")
    assert code == 0
    assert "worker:1: what came after its last run: it was killed, or is still running" in err
    assert "ps:0: everything: it is part of the cluster, and no run is of it" not in err
    code, out, err = command("network", trained / "served", "--by", "pair", "--json")
    pairs = {row["key"]: row["calls"] for row in json.loads(out)["rows"]}
    assert pairs["worker:0 -> ps:0"] >= STEPS
    assert pairs["worker:1 -> ps:0"] >= LAST_OF_KILLED
