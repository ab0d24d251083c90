"""Two and four real servers, most of their clocks moved: one run, one clock, and who was late."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import stepscope
from cluster_servers import Link, Servers
from stepscope.analysis import clocks, critical_path, network
from stepscope.analysis.cluster.messages import traffic
from stepscope.analysis.cluster.tasks import task_of
from stepscope.export import chrome

pytestmark = pytest.mark.tensorflow

SECOND = 1_000_000_000
MOVED = {"worker:0": (5 * SECOND, 0.0), "worker:1": (-5 * SECOND, 0.0), "worker:2": (0, 100.0)}
TRIALS = 20
WORKERS = 3
HIDDEN = 64
INPUTS = np.random.default_rng(3).normal(size=(8, HIDDEN)).astype(np.float32)
IDS = np.arange(0, 50_000, 500, dtype=np.int32)


@pytest.fixture(scope="module")
def four(nursery, tensorflow):
    """A server whose clock is right and three workers whose clocks are not; since when; a link."""
    since = time.time_ns()
    moved = {task: (*clock, since) for task, clock in MOVED.items()} if nursery.moves_clocks else {}
    link = Link()
    links = {("worker:2", "ps:0"): link}
    with Servers(nursery, moved, links, ps=1, worker=WORKERS) as running:
        yield running, since, link
    link.close()


def programs(tensorflow, workers):
    """A graph with two programs: an MLP and a wide embedding, each trained by all workers."""
    tf = tensorflow.compat.v1
    graph = tensorflow.Graph()
    server = "/job:ps/task:0"
    with graph.as_default():
        with tf.device(server):
            w1 = tf.get_variable("w1", [HIDDEN, HIDDEN], initializer=tf.ones_initializer())
            w2 = tf.get_variable("w2", [HIDDEN, 3], initializer=tf.ones_initializer())
            table = tf.get_variable("table", [50_000, 16], initializer=tf.ones_initializer())
            read = [tf.square(w, name=f"{w.op.name}_now") for w in (w1, w2)]
        x = tf.placeholder(tf.float32, [None, HIDDEN], name="x")
        ids = tf.placeholder(tf.int32, [None], name="ids")
        slow = tf.placeholder(tf.float32, [None, None], name="slow")
        gradients, scattered = [], []
        for task in range(workers):
            with tf.device(server):
                mine = tf.add(ids, task, name=f"ids_{task}")
                rows = tf.gather(table, mine, name=f"rows_{task}")
            with tf.device(f"/job:worker/task:{task}"):
                inputs = tf.identity(x)
                if task == 1:
                    # Times 0 an optimizer of some versions would take it out.
                    inputs += tf.reduce_sum(tf.matmul(slow, slow, name="slow_op")) * 1e-30
                loss = tf.reduce_mean(tf.matmul(tf.nn.relu(tf.matmul(inputs, read[0])), read[1]))
                both = zip((1, 2), tf.gradients(loss, read), strict=True)
                gradients += [tf.multiply(g, 1e-3, name=f"to_w{n}_{task}") for n, g in both]
                scattered.append((mine, tf.multiply(rows, 0.01, name=f"to_rows_{task}")))
        with tf.device(server):
            updates = [
                tf.assign_sub(w, tf.add_n(gradients[n::2]), name=f"apply_{n}")
                for n, w in enumerate((w1, w2))
            ]
            tf.group(*updates, name="mlp")
            tf.group(*(tf.scatter_sub(table, *of) for of in scattered), name="wide")
        tf.global_variables_initializer()
    return graph


def moved_bytes(name, workers):
    """What has to move between the tasks, and how much."""
    sizes = {"w1": HIDDEN * HIDDEN * 4, "w2": HIDDEN * 3 * 4, "rows": len(IDS) * 16 * 4}
    sent = {}
    for number in range(workers):
        task = f"worker:{number}"
        if name == "wide":
            sent[f"rows_{number}", "ps:0", task] = sizes["rows"]
            sent[f"to_rows_{number}", task, "ps:0"] = sizes["rows"]
            continue
        for w in ("w1", "w2"):
            sent[f"{w}_now", "ps:0", task] = sent[f"to_{w}_{number}", task, "ps:0"] = sizes[w]
    return sent


@pytest.fixture(scope="module")
def session(four, tensorflow):
    with opened(tensorflow, four[0], WORKERS) as session:
        yield session


def opened(tensorflow, servers, workers):
    from stepscope.adapters.tensorflow import Session

    class Kept(Session):
        """Keeps what TensorFlow itself told of the last run."""

        def native_run(self, fetches, feed_dict=None, options=None, run_metadata=None):
            self.native = run_metadata
            return super().native_run(fetches, feed_dict, options, run_metadata)

    session = Kept(servers.target, graph=programs(tensorflow, workers))
    session.run("init")
    return session


def trained(session, steps, slow=2, name="mlp"):
    runs = []
    feeds = {"x:0": INPUTS, "slow:0": np.ones((slow, slow), np.float32), "ids:0": IDS}
    if name == "wide":
        feeds = {"ids:0": IDS}
    for _ in range(steps):
        metadata = stepscope.RunMetadata()
        options = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
        session.run(name, feeds, options=options, run_metadata=metadata)
        runs.append(metadata)
    return runs


@pytest.fixture(scope="module")
def told(servers, session, tensorflow):
    """By number of workers and program a run, and what TensorFlow itself told of it."""
    found = {}
    with opened(tensorflow, servers, 1) as two:
        for workers, used in ((1, two), (WORKERS, session)):
            for name in ("mlp", "wide"):
                trained(used, 2, name=name)
                (run,) = trained(used, 1, name=name)
                found[workers, name] = run, used.native.message
    return found


CASES = [(workers, name) for workers in (1, WORKERS) for name in ("mlp", "wide")]


@pytest.mark.parametrize(("workers", "name"), CASES)
def test_all_tasks_are_one_run_with_owners_of_all_that_moved(told, workers, name):
    run, native = told[workers, name]
    # Every device once, and on it what TensorFlow's own rows say.
    stats = run.step_stats.dev_stats
    assert sorted(task_of(device.device) for device in stats) == tasks(workers)
    found, expected = totals(stats), totals(native.step_stats.dev_stats)
    untold = [loss for loss in run.completeness.losses if loss.what == "times of transfers"]
    more = sum(map(len, found.values())) - sum(map(len, expected.values()))
    assert more == sum(loss.count for loss in untold)
    for device, rows in expected.items():
        added = set(found[device]) - set(rows)
        assert all(row[:2] == ("RecvTensor", 0) for row in added)
        assert sorted(row for row in found[device] if row not in added) == sorted(rows)
    # Every transfer with both ends and its bytes.
    ops = run.ops
    messages = traffic(ops).messages
    assert len(messages) == np.count_nonzero(ops.op == "RecvTensor")
    sent = {(m.tensor, m.source, m.target): m.bytes for m in messages}
    wanted = moved_bytes(name, workers)
    assert wanted.items() <= sent.items()
    for message in messages:
        if (message.tensor, message.source, message.target) in wanted:
            assert ops.name[message.producer] == message.tensor
            assert message.consumer >= 0


def tasks(workers):
    return ["ps:0", *(f"worker:{number}" for number in range(workers))]


def test_transfers_are_arrows_between_the_tasks_in_a_trace_that_perfetto_takes(
    told, tmp_path, perfetto
):
    places = {case: tmp_path / f"{case[0]}_{case[1]}.json" for case in CASES}
    for case, place in places.items():
        run, _ = told[case]
        chrome(clocks(run).correct(run), place)
        events = json.loads(place.read_text())["traceEvents"]
        task = {e["pid"]: task_of(e["args"]["name"]) for e in events if e["name"] == "process_name"}
        ends = {e["id"]: task[e["pid"]] for e in events if e["ph"] == "f"}
        arrows = {(e["name"], task[e["pid"]], ends[e["id"]]) for e in events if e["ph"] == "s"}
        assert moved_bytes(case[1], case[0]).keys() <= arrows
    for case, said in zip(CASES, perfetto(*places.values()), strict=True):
        assert {task_of(name) for name in said["processes"]} - {""} == set(tasks(case[0]))
        assert said["flows"] >= len(moved_bytes(case[1], case[0]))


def totals(stats):
    """By device the rows: name, nanoseconds and bytes."""
    found = {}
    for device in stats:
        for row in device.node_stats:
            described = [out.tensor_description.allocation_description for out in row.output]
            nanos = row.all_end_rel_nanos or row.all_end_rel_micros * 1000
            size = sum(each.requested_bytes for each in described)
            found.setdefault(device.device, []).append((row.node_name, nanos, size))
    return found


def test_moved_clocks_are_found_within_their_error_and_order_is_restored(nursery, four, session):
    if not nursery.moves_clocks:
        pytest.skip("a C compiler makes the moved clock")
    _, since, _ = four
    within = dict.fromkeys(MOVED, 0)
    for _ in range(TRIALS):
        runs = trained(session, 6)
        found = clocks(runs)
        assert found.reference == "ps:0"
        for row in found.rows[1:]:
            offset, ppm = MOVED[row.task]
            true = offset + ppm * 1e-6 * (found.base_ns - since)
            assert row.error_ns < SECOND
            within[row.task] += abs(row.offset_ns - true) <= row.error_ns
        messages = [m for run in found.apply(runs) for m in traffic(run.metadata.ops).messages]
        matched = [m for m in messages if m.producer >= 0]
        assert len(matched) >= 6 * 4 * WORKERS
        # Rows of receives count in microseconds.
        assert min(m.received_ns - m.sent_ns for m in matched) > -1000
    assert min(within.values()) >= TRIALS * 19 // 20, within


def test_a_slow_op_makes_its_worker_the_straggler_and_lies_on_the_path(session):
    trained(session, 1, slow=1500)
    runs = trained(session, 3, slow=1500)
    found = network(runs)
    # What is fed goes from the first worker to the others, and no op made it.
    fed = [row for row in found.rows if row.producer.startswith("_recv_")]
    assert sum(row.calls for row in fed) == found.unmatched == 3 * 3
    # Other work on the machine may hold up a message for longer than the slow op takes.
    named = [(late.kind, late.name) for late in found.stragglers]
    assert named.count(("task", "worker:1")) >= 2
    paths = [critical_path(run.metadata).names for run in found.clocks.apply(runs)]
    assert sum("slow_op" in names for names in paths) >= 2


def test_a_slow_link_is_what_the_step_waited_for_and_lies_on_the_path(four, session):
    link = four[2]
    runs = trained(session, 3)
    link.delay_s = 0.15
    runs += trained(session, 3)
    link.delay_s = 0.0
    found = network(runs)
    # Other work on the machine may hold up something else for as long, but not in every step.
    late = [each for each in found.stragglers[-3:] if each.name == "ps:0 -> worker:2"]
    assert len(late) >= 2
    for each in late:
        assert each.kind == "link"
        assert 0.07 * SECOND < each.cost_ns <= each.length_ns
    longest = []
    for run in list(found.clocks.apply(runs))[-3:]:
        part = max(critical_path(run.metadata).rows, key=lambda part: part.ns)
        longest.append((part.kind, part.op, task_of(part.device)))
    assert longest.count(("transfer", "RecvTensor", "worker:2")) >= 2
