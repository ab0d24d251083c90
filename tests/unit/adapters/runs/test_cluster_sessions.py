"""TensorFlow's sessions on a cluster, under the contract: two server processes on loopback."""

from __future__ import annotations

import re
import threading
import time

import numpy as np
import pytest

import stepscope
from cluster_servers import Servers
from patience import patient
from stepscope import errors
from stepscope.analysis.cluster.messages import traffic
from stepscope.options import RunOptions, run_option_fields

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
X = np.ones((16, 256), np.float32)


@pytest.fixture
def graph(tf, tensorflow):
    graph = tensorflow.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            w = tf.get_variable("w", [256, 256], initializer=tf.ones_initializer())
            index = tf.placeholder(tf.int32, [], name="index")
            picked = tf.gather(tf.constant([1.0, 2.0]), index, name="picked")
            queue = tensorflow.queue.FIFOQueue(3, [tf.float32], [[]], name="queue")
            queue.dequeue(name="empty")
            size = tf.placeholder(tf.int64, [1], name="size")
            tf.reduce_sum(tf.fill(size, 1.0, name="large"), name="sum_of_large")
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [None, 256], name="x")
            y = tf.nn.relu(tf.matmul(x, w, name="mm"), name="y")
            tf.reduce_sum(y, name="total")
            tf.add(tf.reduce_sum(y), picked, name="risky")
        tf.global_variables_initializer()
    return graph


@pytest.fixture
def session(servers, graph, tensorflow):
    from stepscope.adapters.tensorflow import Session

    class Kept(Session):
        """Keeps what TensorFlow itself told of the last run."""

        def native_run(self, fetches, feed_dict=None, options=None, run_metadata=None):
            self.native_options, self.native = options, run_metadata
            return super().native_run(fetches, feed_dict, options, run_metadata)

    with Kept(servers.target, graph=graph) as session:
        session.run("init")
        yield session


def traced(session, fetches="total:0", level=RunOptions.FULL_TRACE, feeds=None, **more):
    metadata = stepscope.RunMetadata()
    options = RunOptions(trace_level=level, **more)
    value = session.run(fetches, feeds or {"x:0": X}, options=options, run_metadata=metadata)
    return value, metadata


def losses(metadata):
    return {loss.what: loss.reason for loss in metadata.completeness.losses}


def test_all_tasks_are_in_one_metadata_and_every_device_once(session):
    value, metadata = traced(session)
    assert value == 16 * 256 * 256
    assert metadata.engine == "tensorflow cluster"
    assert metadata.status.ok
    assert len(session.native.message.step_stats.dev_stats) > 2  # TensorFlow has a device twice
    stats = metadata.step_stats.dev_stats
    assert sorted(device.device for device in stats) == [PS, WORKER]
    assert set(metadata.ops.step) == {metadata.step_id}


def test_a_transfer_has_producer_consumer_device_bytes_and_rate(session):
    _, metadata = traced(session)
    ops = metadata.ops
    (row,) = np.flatnonzero(ops.op == "RecvTensor")
    assert ops.device[row] == WORKER
    assert ops.output_bytes[row] == 256 * 256 * 4
    assert re.search(r"\[[\d.]+[GM]b/s\] edge_\d+_mm/ReadVariableOp from", ops.label[row])
    assert ops.end_ns[row] > ops.start_ns[row]
    (message,) = traffic(ops).messages
    assert (message.source, message.target) == ("ps:0", "worker:0")
    assert ops.name[message.producer] == "mm/ReadVariableOp"
    assert ops.name[message.consumer] == "mm"
    assert message.bytes == 256 * 256 * 4


@pytest.mark.parametrize("level", [RunOptions.SOFTWARE_TRACE, RunOptions.HARDWARE_TRACE])
def test_a_level_that_a_cluster_does_not_have_falls_back_and_says_so(session, level):
    _, metadata = traced(session, level=level)
    assert set(metadata.ops.device) == {PS, WORKER}
    name = RunOptions.TraceLevel.Name(level)
    assert losses(metadata)["trace_level"].endswith(f"used instead of {name}")
    assert {"threads", "sends"} <= losses(metadata).keys()


def test_full_trace_has_memory_and_no_loss_of_level(session):
    _, metadata = traced(session)
    assert "trace_level" not in losses(metadata)
    assert len(metadata.allocations)
    assert metadata.peak_bytes(WORKER) >= X.shape[0] * 256 * 4  # what mm puts out
    assert metadata.overhead.ns > 0


def test_without_a_trace_nothing_is_asked_of_the_cluster(session, tf):
    metadata = stepscope.RunMetadata()
    session.run("total:0", {"x:0": X}, options=RunOptions(), run_metadata=metadata)
    assert session.native_options.trace_level == tf.RunOptions.NO_TRACE
    assert len(metadata.ops) == 0
    assert metadata.status.ok
    assert metadata.completeness.complete


def test_partition_graphs_are_those_of_all_tasks(session):
    _, metadata = traced(session, level=0, output_partition_graphs=True)
    devices = [{node.device for node in graph.node} for graph in metadata.partition_graphs]
    assert sorted(devices, key=sorted) == [{PS}, {WORKER}]
    _, metadata = traced(session)
    assert len(metadata.partition_graphs) == 0
    assert {p.node: p.assigned for p in metadata.placements}["mm"] == WORKER
    assert {p.reason for p in metadata.placements} <= {"asked for", "default"}


def test_the_log_of_allocations_comes_from_the_step_stats(session):
    _, metadata = traced(session, level=0, allocation_log_buffer_size=2)
    assert 0 < len(metadata.allocation_log) <= 2
    assert len(metadata.ops) == 0


@pytest.mark.parametrize("pool", [-2, 1, 7])
def test_pools_that_do_not_exist_are_refused_where_the_cluster_would_not_look(session, pool):
    with pytest.raises(errors.InvalidArgumentError, match=f"Invalid inter_op_thread_pool: {pool}"):
        traced(session, inter_op_thread_pool=pool)


@pytest.mark.parametrize(
    "options",
    [
        {"inter_op_thread_pool": -1},
        {"experimental": {"use_run_handler_pool": True}},
    ],
)
def test_what_a_cluster_would_ignore_is_refused_by_name(session, tensorflow, options):
    field = next(iter(options))
    with pytest.raises(errors.UnimplementedError, match=f"{field}.*'tensorflow cluster'") as caught:
        traced(session, **options)
    assert isinstance(caught.value, tensorflow.errors.UnimplementedError)


def option(field, folder):
    """Options with this field set, to something other than its default."""
    options = RunOptions()
    watch = "debug_options.debug_tensor_watch_opts."
    if field.startswith(watch):
        options.debug_options.debug_tensor_watch_opts.add(
            node_name="y", debug_ops=["DebugIdentity"], debug_urls=[f"file://{folder}"]
        )
        return options
    *path, last = field.split(".")
    message = options
    for name in path:
        message = getattr(message, name)
    values = {"inter_op_thread_pool": -1, "allocation_log_sampling_rate": 0.5,
              "allocation_log_address": "raw", "timeout_in_ms": 60_000}  # fmt: skip
    kind = type(getattr(message, last))
    setattr(message, last, values.get(last, kind(1)))
    return options


@pytest.mark.parametrize("field", run_option_fields())
def test_what_the_table_says_of_an_option_is_so(session, tmp_path, field):
    from stepscope.adapters.tensorflow.support import CLUSTER, SUPPORT

    options = option(field, tmp_path)
    assert options != RunOptions()
    state, _ = SUPPORT[CLUSTER][field]
    if state == "yes":
        assert session.run("total:0", {"x:0": X}, options=options) == 16 * 256 * 256
    else:
        with pytest.raises(errors.UnimplementedError, match=re.escape(field)):
            session.run("total:0", {"x:0": X}, options=options)


def test_the_table_has_exactly_the_options_there_are():
    from stepscope.adapters.tensorflow.support import CLUSTER, SUPPORT

    assert set(SUPPORT[CLUSTER]) == set(run_option_fields())


def test_a_level_that_does_not_exist_is_refused(session, tf):
    with pytest.raises(errors.InvalidArgumentError, match="trace_level"):
        session.run("total:0", {"x:0": X}, options=tf.RunOptions(trace_level=7))


def test_thread_pools_in_the_configuration_are_refused_before_connecting(servers, graph, tf):
    from stepscope.adapters.tensorflow import Session

    config = tf.ConfigProto()
    config.session_inter_op_thread_pool.add().num_threads = 1
    with pytest.raises(errors.InvalidArgumentError, match="give the configuration to the servers"):
        Session(servers.target, graph=graph, config=config)


@pytest.mark.parametrize("level", [RunOptions.NO_TRACE, RunOptions.FULL_TRACE])
def test_a_failing_op_is_named_and_what_is_known_is_kept(session, tensorflow, level):
    feeds = {"x:0": X, "index:0": 0}
    traced(session, "risky:0", level, feeds, output_partition_graphs=True)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        traced(session, "risky:0", level, {**feeds, "index:0": 5}, output_partition_graphs=True)
    assert isinstance(caught.value, tensorflow.errors.InvalidArgumentError)
    metadata = caught.value.run_metadata
    assert metadata.status.code == "INVALID_ARGUMENT"
    assert metadata.status.in_flight == ["picked"]
    assert "5 is not in [0, 2)" in metadata.status.message
    assert len(metadata.partition_graphs) == 2  # of the run before, which was of the same kind
    if level:
        assert "did not end well" in losses(metadata)["op executions"]
        assert metadata.sources["picked"].startswith(__file__)
    assert traced(session, "risky:0", feeds=feeds)[0] == 16 * 256 * 256 + 1


def test_out_of_memory_says_what_was_refused_where_and_what_is_known_to_be_held(session):
    too_much = 1 << 42
    metadata = stepscope.RunMetadata()
    traced(session, ["sum_of_large:0", "total:0"], feeds={"size:0": [1000], "x:0": X})
    with pytest.raises(errors.ResourceExhaustedError) as caught:
        session.run(
            "sum_of_large:0", {"size:0": [too_much]},
            options=RunOptions(report_allocations_on_oom=True), run_metadata=metadata,
        )  # fmt: skip
    assert metadata.status.code == "RESOURCE_EXHAUSTED"
    report = metadata.out_of_memory
    request = report.request
    assert (request.op, request.bytes, request.device) == ("large", 4 * too_much, PS)
    assert request.shape == (too_much,)
    assert request.source.startswith(f"{__file__}:")
    held = {(row.op, row.kind): row.bytes for row in report.rows}
    assert held["w", "variable"] == 256 * 256 * 4
    assert held["large", "temporary"] >= 4000
    assert report.live == sum(held.values())
    assert report.text() in caught.value.message
    assert "the last traced run that fitted" in losses(metadata)["holders of memory"]
    assert traced(session)[0] == 16 * 256 * 256


def test_a_deadline_is_kept_and_said_in_the_words_of_a_cluster(session, tensorflow):
    metadata = stepscope.RunMetadata()
    began = time.monotonic()
    with pytest.raises(errors.DeadlineExceededError, match=r"Operation timed out\.") as caught:
        session.run("empty:0", options=RunOptions(timeout_in_ms=300), run_metadata=metadata)
    assert 0.3 <= time.monotonic() - began < 10
    assert isinstance(caught.value, tensorflow.errors.DeadlineExceededError)
    assert caught.value.run_metadata is metadata
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert metadata.status.message.startswith("Operation timed out.")
    assert "empty" in losses(metadata)["ops in flight"]
    assert traced(session)[1].status.ok


def test_a_deadline_of_the_configuration_is_kept(servers, graph, tf):
    from stepscope.adapters.tensorflow import Session

    with (
        Session(servers.target, graph, tf.ConfigProto(operation_timeout_in_ms=300)) as session,
        pytest.raises(errors.DeadlineExceededError, match=r"Operation timed out\."),
    ):
        session.run("empty:0")


def test_runs_side_by_side_each_have_their_own_rows(session):
    found = []

    def go():
        found.extend(traced(session)[1] for _ in range(3))

    threads = [threading.Thread(target=go, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(60))
    alone = sorted(traced(session)[1].ops.name)
    assert [sorted(metadata.ops.name) for metadata in found] == [alone] * 9


@pytest.mark.parametrize("level", [0, 3])
def test_a_script_s_own_session_is_recorded_and_gets_what_it_asked_for(servers, graph, tf, level):
    from stepscope.adapters.tensorflow.script.session_calls import SessionCall

    with tf.Session(servers.target, graph=graph) as session:
        session.run("init")
        asked = tf.RunOptions(trace_level=level)
        theirs = tf.RunMetadata()
        call = SessionCall(
            session, tf.Session.run, "total:0", {"x:0": X}, asked, theirs,
            RunOptions(trace_level=RunOptions.FULL_TRACE),
        )  # fmt: skip
        with call:
            assert call.call() == 16 * 256 * 256
        metadata = stepscope.RunMetadata()
        metadata.record(call.recording())
    assert metadata.engine == "tensorflow cluster"
    assert set(metadata.ops.device) == {PS, WORKER}
    assert theirs.HasField("step_stats") is bool(level)
    assert len(theirs.partition_graphs) == 0


def test_a_run_on_a_cluster_survives_saving(session, tmp_path):
    _, metadata = traced(session)
    loaded = stepscope.load(metadata.save(tmp_path / "run.pb"))
    assert loaded.engine == "tensorflow cluster"
    assert len(loaded.ops) == len(metadata.ops)
    assert losses(loaded) == losses(metadata)


def test_a_task_that_is_gone_does_not_hold_a_run_with_a_deadline(nursery, tensorflow, graph):
    from stepscope.adapters.tensorflow import Session

    with Servers(nursery, ps=1, worker=1) as own:
        session = Session(own.target, graph=graph)
        session.run("init")
        own.kill("ps:0")
        metadata = stepscope.RunMetadata()
        began = time.monotonic()
        with pytest.raises(errors.OpError) as caught:
            session.run(
                "total:0", {"x:0": X}, options=RunOptions(timeout_in_ms=2000), run_metadata=metadata
            )
        assert time.monotonic() - began < 20
        assert metadata.status.code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
        assert caught.value.run_metadata is metadata
        session.close()
