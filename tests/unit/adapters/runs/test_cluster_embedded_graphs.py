"""Graphs of the embedded engine on TensorFlow: the same program, another target."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import pytest

import stepscope
from cluster_servers import Servers
from patience import patient
from stepscope import errors
from stepscope import tf1 as tf
from stepscope.analysis.cluster.messages import traffic
from stepscope.options import RunOptions
from stepscope.runtime import observers

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
SOFT = stepscope.ConfigProto(allow_soft_placement=True)
FULL = RunOptions(trace_level=RunOptions.FULL_TRACE, output_partition_graphs=True)
RNG = np.random.default_rng(7)
BATCH = RNG.normal(size=(32, 20)).astype(np.float32)
WANTED = np.sin(BATCH[:, :3]).astype(np.float32)


def on(job):
    return tf.device(f"/job:{job}/task:0")


def anywhere(job):
    """For TensorFlow in this process: it has no such jobs, and soft placement does not help."""
    return nullcontext()


def start_values(*shape):
    return tf.constant_initializer(np.random.default_rng(1).normal(size=shape) * 0.3)


def mlp(on):
    """Two layers, their gradients written out, and a step of gradient descent."""
    graph = tf.Graph()
    with graph.as_default(), tf.variable_scope("mlp"):
        with on("ps"):
            w1 = tf.get_variable("w1", [20, 16], initializer=start_values(20, 16))
            b1 = tf.get_variable("b1", [16], initializer=tf.zeros_initializer())
            w2 = tf.get_variable("w2", [16, 3], initializer=start_values(16, 3))
            b2 = tf.get_variable("b2", [3], initializer=tf.zeros_initializer())
        with on("worker"):
            x = tf.placeholder(tf.float32, [None, 20], name="x")
            wanted = tf.placeholder(tf.float32, [None, 3], name="wanted")
            hidden = tf.nn.relu(tf.matmul(x, w1) + b1, name="hidden")
            off = tf.subtract(tf.matmul(hidden, w2) + b2, wanted, name="off")
            tf.reduce_mean(tf.square(off), name="loss")
            to_out = off * (2.0 / (32 * 3))
            to_hidden = tf.matmul(to_out, w2, transpose_b=True)
            to_hidden *= tf.cast(hidden > 0.0, tf.float32)
            gradients = (
                tf.matmul(x, to_hidden, transpose_a=True, name="to_w1"),
                tf.reduce_sum(to_hidden, 0),
                tf.matmul(hidden, to_out, transpose_a=True, name="to_w2"),
                tf.reduce_sum(to_out, 0),
            )
        updates = []
        for variable, gradient in zip((w1, b1, w2, b2), gradients, strict=True):
            # A variable is read in place: nothing may change one before all have been read.
            with on("ps"), tf.control_dependencies(gradients):
                updates.append(tf.assign_sub(variable, gradient * 0.5))
        tf.group(*updates, name="train")
        tf.global_variables_initializer()
    return graph


def embedding(on):
    """Rows of a wide table, summed; only those that were read are updated."""
    graph = tf.Graph()
    with graph.as_default(), tf.variable_scope("wide"):
        with on("ps"):
            table = tf.get_variable("table", [5000, 64], initializer=start_values(5000, 64))
            ids = tf.placeholder(tf.int32, [None], name="ids")
            rows = tf.gather(table, ids, name="rows")
        with on("worker"):
            off = tf.subtract(rows, 1.0, name="off")
            loss = tf.reduce_mean(tf.square(off), name="loss")
            gradient = tf.multiply(off, 2.0 / 64, name="gradient")
        with on("ps"), tf.control_dependencies([loss]):
            tf.scatter_sub(table, ids, gradient, name="train")
        tf.global_variables_initializer()
    return graph


PROGRAMS = {
    "mlp": (mlp, {"mlp/x:0": BATCH, "mlp/wanted:0": WANTED}),
    "wide": (embedding, {"wide/ids:0": np.arange(0, 5000, 50, dtype=np.int32)}),
}


def trained(target, name, steps=20):
    """The losses of so many steps, and the metadata of the last."""
    build, feeds = PROGRAMS[name]
    metadata = stepscope.RunMetadata()
    graph = build(anywhere if target == "tensorflow" else on)
    with stepscope.Session(target, graph=graph, config=SOFT) as session:
        session.run(f"{name}/init")
        fetches = [f"{name}/loss:0", f"{name}/train"]
        losses = [session.run(fetches, feeds)[0] for _ in range(steps - 1)]
        losses.append(session.run(fetches, feeds, options=FULL, run_metadata=metadata)[0])
    return losses, metadata


@pytest.mark.parametrize("name", PROGRAMS)
def test_training_gives_the_same_losses_on_every_engine(servers, name):
    embedded, own = trained("", name)
    assert own.engine == "embedded"
    assert embedded[-1] < 0.7 * embedded[0]
    for target in ("tensorflow", servers.target):
        losses, _ = trained(target, name)
        np.testing.assert_allclose(losses, embedded, atol=1e-4, rtol=0)


def test_the_metadata_of_a_cluster_has_all_tasks_and_the_program_s_lines(servers):
    _, metadata = trained(servers.target, "mlp", steps=3)
    assert metadata.engine == "tensorflow cluster"
    assert sorted(device.device for device in metadata.step_stats.dev_stats) == [PS, WORKER]
    assert len(metadata.partition_graphs) == 2
    placed = {p.node: p.assigned for p in metadata.placements}
    assert placed["mlp/w1"] == PS
    assert placed["mlp/off"] == WORKER
    assert metadata.sources["mlp/off"].startswith(f"{__file__}:")


SENT = {
    "mlp": {
        "mlp/w1/read": 20 * 16 * 4, "mlp/b1/read": 16 * 4, "mlp/w2/read": 16 * 3 * 4,
        "mlp/b2/read": 3 * 4, "mlp/to_w1": 20 * 16 * 4, "mlp/to_w2": 16 * 3 * 4,
        "mlp/Sum": 16 * 4, "mlp/Sum_1": 3 * 4,
    },
    "wide": {"wide/rows": 100 * 64 * 4, "wide/gradient": 100 * 64 * 4},
}  # fmt: skip
"""What has to move between the tasks: of the table only the rows that are read."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_transfer_of_every_step_has_both_ends_and_its_bytes(servers, name):
    build, feeds = PROGRAMS[name]
    with stepscope.Session(servers.target, graph=build(on), config=SOFT) as session:
        session.run(f"{name}/init")
        for _ in range(20):
            metadata = stepscope.RunMetadata()
            session.run(f"{name}/train", feeds, options=FULL, run_metadata=metadata)
            ops = metadata.ops
            messages = traffic(ops).messages
            assert len(messages) == np.count_nonzero(ops.op == "RecvTensor")
            assert SENT[name].items() <= {m.tensor: m.bytes for m in messages}.items()
            for message in messages:
                ends = {message.source, message.target}
                assert ends == {"ps:0", "worker:0"}
                if message.bytes and not message.tensor.startswith("_recv_"):
                    assert ops.name[message.producer] == message.tensor
                    assert message.consumer >= 0
            # TensorFlow itself logs only some of them; the others are said to have no length.
            bare = np.count_nonzero((ops.op == "RecvTensor") & (ops.end_ns == ops.start_ns))
            declared = [o for o in metadata.completeness.losses if o.what == "times of transfers"]
            assert sum(loss.count for loss in declared) == bare


def test_the_metadata_of_tensorflow_here_is_that_of_its_sessions(tensorflow):
    _, metadata = trained("tensorflow", "mlp", steps=3)
    assert metadata.engine == "tensorflow session"
    assert metadata.status.ok
    assert {"mlp/to_w1", "mlp/to_w2", "mlp/hidden"} <= set(metadata.ops.name)
    assert all(thread for thread in metadata.ops.thread)
    assert metadata.sources["mlp/off"].startswith(f"{__file__}:")


# -- a graph that grows, variables that stay ---------------------------------------------------


@pytest.fixture(params=["tensorflow", "cluster"])
def target(request):
    if request.param == "tensorflow":
        request.getfixturevalue("tensorflow")
        return "tensorflow"
    return request.getfixturevalue("servers").target


def counter(name):
    """A variable with no value of its own yet, and an op that adds one to it."""
    graph = tf.Graph()
    with graph.as_default():
        count = tf.get_variable(name, [], initializer=tf.zeros_initializer())
        tf.assign_add(count, 1.0, name="more")
        tf.global_variables_initializer()
    return graph, count


def test_a_graph_may_grow_between_runs_and_variables_stay(target):
    graph, count = counter("growing")
    with stepscope.Session(target, graph=graph) as session:
        session.run("init")
        assert [session.run("more:0") for _ in range(3)] == [1.0, 2.0, 3.0]
        with tf.control_dependencies([graph.get_operation_by_name("more")]):
            after = tf.multiply(tf.identity(count), 10.0, name="after")
        assert session.run({"a": after, "b": [count]}) == {"a": 40.0, "b": [4.0]}
        assert type(session.run(after)) is np.float32


def test_variables_on_a_cluster_outlive_the_session(servers):
    graph, count = counter("lasting")
    with stepscope.Session(servers.target, graph=graph) as session:
        session.run("init")
        session.run("more")
    with stepscope.Session(servers.target, graph=graph) as session:
        assert session.run(count) == 1.0
    stepscope.Session.reset(servers.target)
    with (
        stepscope.Session(servers.target, graph=graph) as session,
        pytest.raises(errors.FailedPreconditionError),
    ):
        session.run(count)


def test_what_was_exported_cannot_change(target):
    graph, _ = counter("changed")
    with stepscope.Session(target, graph=graph) as session:
        session.run("init")
        graph.get_operation_by_name("more")._set_device("/device:CPU:0")
        with pytest.raises(errors.FailedPreconditionError, match="'more' was changed after"):
            session.run("more")


def test_threads_share_a_session_while_its_graph_grows(target):
    graph, count = counter("shared")
    found = []
    with stepscope.Session(target, graph=graph) as session:
        session.run("init")

        def work(number):
            with graph.as_default():
                mine = tf.add(tf.constant(float(number)), 0.5, name=f"mine_{number}")
            found.append((session.run(mine), session.run("more:0")))

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patient(60))
        assert session.run(count) == 4.0
    assert sorted(value for value, _ in found) == [0.5, 1.5, 2.5, 3.5]


# -- feeds, fetches, errors ---------------------------------------------------------------------


def test_feeds_are_checked_as_on_the_embedded_engine(target):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        words = tf.placeholder(tf.string, [2], name="words")
        total = tf.reduce_sum(x)
        echo = tf.identity(words)
    with stepscope.Session(target, graph=graph) as session:
        assert session.run(total, {x: [[1, 2], [3, 4]]}) == 10.0
        assert session.run(echo, {words: ["a", b"b\0"]}).tolist() == [b"a", b"b\0"]
        with pytest.raises(ValueError, match=r"Cannot feed value of shape \(3,\)"):
            session.run(total, {x: np.ones(3)})
        call = session.make_callable(total, [x], accept_options=True)
        metadata = stepscope.RunMetadata()
        assert call(np.ones((3, 2)), options=FULL, run_metadata=metadata) == 6.0
        assert len(metadata.ops)
    with pytest.raises(RuntimeError, match="closed"):
        session.run(total, {x: np.ones((1, 2))})


def test_an_error_says_the_program_s_line_and_keeps_the_metadata(target):
    graph = tf.Graph()
    with graph.as_default():
        index = tf.placeholder(tf.int32, [], name="index")
        picked = tf.gather(tf.constant([1.0, 2.0]), index, name="picked")
    metadata = stepscope.RunMetadata()
    with (
        stepscope.Session(target, graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError) as caught,
    ):
        session.run(picked, {index: 9}, options=FULL, run_metadata=metadata)
    assert caught.value.run_metadata is metadata
    assert metadata.status.in_flight == ["picked"]
    assert f"    {graph.get_operation_by_name('picked').source}\n" in caught.value.message
    assert "embedded.py" not in caught.value.message


def test_python_functions_run_here_and_are_refused_on_a_cluster(servers):
    graph = tf.Graph()
    with graph.as_default():
        doubled = tf.py_func(
            lambda value: value * 2, [tf.constant([1.0, 2.0])], tf.float32, name="f"
        )
    with stepscope.Session("tensorflow", graph=graph) as session:
        np.testing.assert_array_equal(session.run(doubled), [2.0, 4.0])
    with (
        stepscope.Session(servers.target, graph=graph) as session,
        pytest.raises(errors.UnimplementedError, match=r"'f' .* Python function"),
    ):
        session.run(doubled)


def test_ops_that_tensorflow_does_not_have_are_listed_at_once(tensorflow, own_op_types):
    only_here = stepscope.register_op("OnlyHereForTargets", lambda x: x + 1)
    graph = tf.Graph()
    with graph.as_default():
        only_here(only_here(tf.constant(1.0)), name="twice")
    with (
        stepscope.Session("tensorflow", graph=graph) as session,
        pytest.raises(errors.UnimplementedError, match=r"OnlyHereForTargets \(x2\)"),
    ):
        session.run("twice:0")


def test_limits_of_memory_are_refused(target):
    config = stepscope.ConfigProto(memory_limit_bytes=1 << 20)
    with pytest.raises(errors.UnimplementedError, match="memory_limit_bytes"):
        stepscope.Session(target, graph=tf.Graph(), config=config)


def test_whoever_watches_all_runs_sees_these_too(target):
    graph, _ = counter("watched")
    seen = []
    with (
        stepscope.Session(target, graph=graph) as session,
        observers.recording(lambda m, g: seen.append((m, g)), RunOptions.FULL_TRACE),
    ):
        session.run("init")
        session.run("more")
    assert [g for _, g in seen] == [graph, graph]
    assert "more" in set(seen[1][0].ops.name)


def test_an_unknown_target_is_an_error_that_lists_what_there_is():
    with pytest.raises(errors.UnimplementedError, match=r"'grpc://\.\.\.', 'tensorflow'"):
        stepscope.Session("local://here", graph=tf.Graph())
    with pytest.raises(errors.InvalidArgumentError, match="grpc://host:port"):
        stepscope.Session("grpc://", graph=tf.Graph())


# -- more tasks --------------------------------------------------------------------------------


def test_four_tasks_are_one_run(nursery, tensorflow):
    """Two layers on two parameter servers, half of the batch on each of two workers."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            w1 = tf.get_variable("four_w1", [20, 16], initializer=start_values(20, 16))
        with tf.device("/job:ps/task:1"):
            w2 = tf.get_variable("four_w2", [16, 3], initializer=start_values(16, 3))
        x = tf.placeholder(tf.float32, [32, 20], name="x")
        parts = []
        for task in range(2):
            with tf.device(f"/job:worker/task:{task}"):
                half = x[16 * task : 16 * (task + 1)]
                hidden = tf.nn.relu(tf.matmul(half, w1), name=f"hidden_{task}")
                parts.append(tf.matmul(hidden, w2, name=f"out_{task}"))
        with tf.device("/job:worker/task:0"):
            tf.concat(parts, 0, name="all")
        tf.global_variables_initializer()
    results = []
    with Servers(nursery, ps=2, worker=2) as servers:
        for target in ("", servers.target):
            metadata = stepscope.RunMetadata()
            with stepscope.Session(target, graph=graph, config=SOFT) as session:
                session.run("init")
                fed = {"x:0": BATCH}
                results.append(session.run("all:0", fed, options=FULL, run_metadata=metadata))
    np.testing.assert_allclose(results[1], results[0], atol=1e-5)
    tasks = [f"/job:{j}/replica:0/task:{t}/device:CPU:0" for j in ("ps", "worker") for t in (0, 1)]
    assert sorted(device.device for device in metadata.step_stats.dev_stats) == tasks
    assert len(metadata.partition_graphs) == 4
    sent = {(m.tensor, m.source, m.target): m.bytes for m in traffic(metadata.ops).messages}
    weights = {
        (f"four_w{layer}/read", f"ps:{layer - 1}", f"worker:{task}"): size
        for layer, size in ((1, 20 * 16 * 4), (2, 16 * 3 * 4))
        for task in (0, 1)
    }
    assert weights.items() <= sent.items()
    assert sent["out_1", "worker:1", "worker:0"] == 16 * 3 * 4


def test_branches_and_loops_in_this_process():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.cond(x > 1.0, lambda: x * 2.0, lambda: x + 3.0)
        i, total = tf.while_loop(lambda i, _: i < 10, lambda i, s: [i + 1, s + y], [0, 0.0])
    with stepscope.Session("tensorflow", graph=graph) as session:
        assert session.run([y, i, total], {x: 2.0}) == [4.0, 10, 40.0]
        assert session.run([y, i, total], {x: 0.5}) == [3.5, 10, 35.0]
