"""Training on several processes, each under `stepscope run`: merged, attributed, and cut off."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import ExitStack

import pytest

import started_python
from patience import patient
from stepscope.analysis import WorkerRuns, network, workers_at
from stepscope.metadata import load

pytestmark = pytest.mark.tensorflow
STEPS = 4
LAST_OF_KILLED = 2

MIRRORED = """
import os, signal, time
import stepscope
import tensorflow as tf

def written():
    try:
        return len(stepscope.load("{folder}/mirrored/worker1"))
    except stepscope.errors.StepscopeError:
        return 0

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
while True:  # until the second is killed, with some of its runs on disk
    second = strategy.cluster_resolver.task_id == 1
    if second and written() >= 9:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    try:
        step()
    except tf.errors.OpError:
        break
"""
COORDINATED = """
import stepscope
import tensorflow as tf
from stepscope.analysis import WorkerRuns, network, workers_at
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type != "chief":
    spec, job, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id
    tf.distribute.Server(spec, job_name=job, task_index=index).join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w = tf.Variable(tf.ones([16, 16]))

@tf.function
def step():
    w.assign_sub(1e-4 * tf.matmul(w, w))

def joined():
    try:
        rows = network(WorkerRuns(workers_at("{folder}/tasks")), "edge").rows
    except stepscope.errors.StepscopeError:
        return 0
    calls = {{(row.producer, row.source, row.target): row.calls for row in rows}}
    there = calls.get(("mul", "worker:0", "ps:0"), 0)
    return min(there, calls.get(("MatMul/ReadVariableOp", "ps:0", "worker:0"), 0))

while joined() < {steps}:  # a server lacks what it does while the profiler is read
    for _ in range(10):
        coordinator.schedule(step)
        coordinator.join()
"""
SERVED = """
import json, os, signal, time
import stepscope
import tensorflow.compat.v1 as tf

def written():
    try:
        runs = stepscope.load("{folder}/served/worker1")
    except stepscope.errors.StepscopeError:
        return 0
    return sum("AssignSubVariableOp" in run.ops.op for run in runs)

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
                while written() < {killed}:
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            session.run(train)
"""


class Launched:
    """Scripts under `stepscope run`, a process for each task; `codes` are how they ended."""

    def __init__(self, folder):
        self.folder = folder
        self._processes = {}
        self._said = {}
        self.codes = {}

    def start(self, name, text, cluster, tasks):
        script = self.folder / f"{name}.py"
        script.write_text(text.format(steps=STEPS, killed=LAST_OF_KILLED, folder=self.folder))
        for job, index in tasks:
            config = {"cluster": cluster, "task": {"type": job, "index": index}}
            self._processes[f"{name} {job}:{index}"] = started_python.start(
                [sys.executable, "-m", "stepscope", "run", "--budget", "off", "--out",
                 str(self.folder / name / f"{job}{index}"), str(script)],
                cwd=self.folder,
                env={**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "3",
                     "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"},
                outputs=1,
            )  # fmt: skip

    def wait(self, *terminated):
        """Until all have ended; some have no end of their own, and come last."""
        try:
            for name, process in self._processes.items():
                if name in terminated:
                    process.send_signal(signal.SIGTERM)
                (self._said[name],) = process.communicate(patient(240))
                self.codes[name] = process.wait()
        finally:
            for process in self._processes.values():
                process.send_signal(signal.SIGKILL)

    def ended(self, **others):
        """Check that all ended well but for those that were killed."""
        wrong = {
            name: (code, self._said[name])
            for name, code in self.codes.items()
            if code != others.get(name.replace(" ", "_").replace(":", ""), 0)
        }
        assert not wrong


def addresses(**tasks):
    """A cluster of so many tasks of each job, with an address that is free for each."""
    with ExitStack() as held:

        def address():
            port = held.enter_context(socket.socket())
            port.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{port.getsockname()[1]}"

        return {job: [address() for _ in range(count)] for job, count in tasks.items()}


@pytest.fixture(scope="module")
def trained(nursery, tmp_path_factory):
    """The directories of two mirrored workers and of two of a parameter server, one killed each."""
    launched = Launched(tmp_path_factory.mktemp("trained"))
    served = addresses(ps=1, worker=2)
    workers = [("worker", 0), ("worker", 1)]
    launched.start("mirrored", MIRRORED, addresses(worker=2), workers)
    launched.start("served", SERVED, served, workers)
    server = {}
    try:
        server = nursery.ask(spec=served, job="ps", task=0, clock=None, environment={})
        launched.wait()
    finally:
        if server:
            nursery.ask(stop=server["process"])
    launched.ended(mirrored_worker1=-signal.SIGKILL, served_worker1=-signal.SIGKILL)
    return launched.folder


@pytest.fixture(scope="module")
def coordinated(tensorflow, tmp_path_factory):
    """The directories of a coordinator, its worker and its parameter server."""
    launched = Launched(tmp_path_factory.mktemp("coordinated"))
    cluster = addresses(chief=1, worker=1, ps=1)
    launched.start("tasks", COORDINATED, cluster, [(job, 0) for job in cluster])
    launched.wait("tasks worker:0", "tasks ps:0")
    launched.ended(tasks_worker0=-signal.SIGTERM, tasks_ps0=-signal.SIGTERM)
    return launched.folder / "tasks"


def test_collectives_of_mirrored_workers_are_matched_and_have_bytes(trained):
    runs = WorkerRuns(workers_at(trained / "mirrored"))
    found = network(runs, "edge")
    assert found.tasks == ("worker:0", "worker:1")
    rows = {(row.producer, row.target): row for row in found.rows}
    for task in found.tasks:
        row = rows["CollectiveReduceV2", task]
        assert (row.bytes, row.source) == (row.calls * 16 * 16 * 4, "(all)")
        assert row.calls == rows["CollectiveReduceV2", found.tasks[0]].calls > STEPS
        assert row.waiting_ns + row.moving_ns == row.total_ns > 0
    assert found.collectives >= STEPS
    clock = found.clocks.rows[1]
    assert (clock.task, abs(clock.offset_ns) < 10**9) == ("worker:1", True)
    assert clock.constraints >= STEPS
    said = [what for task, what in runs.missing() if task == "worker:1"]
    assert len(said) == len(runs.missing()) > 0
    assert said[-1] == "what came after its last run: it was killed, or is still running"


def test_a_merged_trace_of_mirrored_workers_has_all_ops_of_both(command, trained, tmp_path):
    code, out, err = command("merge", trained / "mirrored", "-o", "all.json")
    assert code == 0
    assert "worker:1: what came after its last run" in err
    assert "clocks" in out
    trace = json.loads((tmp_path / "all.json").read_text())
    process = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"]
               if e["name"] == "process_name"}  # fmt: skip
    reduced = [
        process[e["pid"]] for e in trace["traceEvents"] if e["name"] == "CollectiveReduceV2"
        and e["ph"] == "X"
    ]  # fmt: skip
    for task in (0, 1):
        own = sum(f"/job:worker/replica:0/task:{task}/" in name for name in reduced)
        runs = len(load(trained / "mirrored" / f"worker{task}"))
        assert STEPS < own <= runs


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


def test_tasks_of_a_parameter_server_strategy_are_joined_by_call(command, coordinated, tmp_path):
    workers = workers_at(coordinated)
    assert [(w.task, w.ended) for w in workers] == [
        (task, True) for task in ("chief:0", "ps:0", "worker:0")
    ]
    runs = WorkerRuns(workers)
    found = network(runs, "edge")
    assert (found.tasks, runs.missing()) == (("ps:0", "worker:0"), [])
    rows = {(row.producer, row.source, row.target): row.calls for row in found.rows}
    assert rows["mul", "worker:0", "ps:0"] >= STEPS
    assert rows["MatMul/ReadVariableOp", "ps:0", "worker:0"] >= STEPS
    assert [clock.found for clock in found.clocks.rows] == ["reference", "measured"]
    code, _, err = command("merge", coordinated, "-o", "all.json")
    assert (code, err) == (0, "")
    trace = json.loads((tmp_path / "all.json").read_text())
    process = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"]
               if e["name"] == "process_name"}  # fmt: skip
    where = {e["name"]: process[e["pid"]] for e in trace["traceEvents"] if e["ph"] == "X"}
    assert "worker:0" in where["MatMul"]
    assert "ps:0" in where["AssignSubVariableOp"]
    marks = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "run"]
    assert {mark.split()[0] for mark in marks} == {"chief:0", "ps:0", "worker:0"}
