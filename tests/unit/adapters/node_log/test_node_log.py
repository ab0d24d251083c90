"""What nodes of a session did, from our own executor; and doing without it."""

import threading
import time
from collections import Counter

import numpy as np
import pytest
from output_shapes import shapes_of

import stepscope
from patience import patient
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.log import NodeLog
from stepscope.options import RunOptions

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)
SOFTWARE = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)


@pytest.fixture(scope="module")
def program(tensorflow):
    """A graph with a branch, a loop, Python, strings and a chain, and what is to be fetched."""
    v1 = tensorflow.compat.v1

    def python(value):
        with stepscope.annotate("inside"):
            return value

    graph = v1.Graph()
    with graph.as_default():
        x = v1.placeholder(tensorflow.float32, [4], name="x")
        y = x
        for i in range(30):
            y = y * x if i % 2 else y + x
        branch = tensorflow.cond(
            tensorflow.reduce_sum(x) > 0, lambda: y + 1.0, lambda: tensorflow.tanh(y)
        )
        (loop,) = tensorflow.while_loop(lambda i: i < 5, lambda i: (i + 1,), [tensorflow.size(x)])
        called = tensorflow.numpy_function(python, [branch], tensorflow.float32, name="called")
        text = tensorflow.strings.join([tensorflow.as_string(x), "!"])
    return graph, {x: np.full(4, 0.5, np.float32)}, [called, loop, text]


@pytest.fixture
def session(prepared, program):
    with adapter.Session(graph=program[0]) as found:
        assert logs(found)
        yield found


def logs(session):
    """Whether the session's runs are logged."""
    return session._stepscope.logs_nodes


def traced(session, program, options=FULL):
    metadata = stepscope.RunMetadata()
    session.run(program[2], program[1], options=options, run_metadata=metadata)
    return metadata


def native(tensorflow, session, program):
    v1 = tensorflow.compat.v1
    message = v1.RunMetadata()
    session.native_run(program[2], program[1], v1.RunOptions(trace_level=1), message)
    return [stats for device in message.step_stats.dev_stats for stats in device.node_stats]


def test_a_warm_run_has_what_step_stats_of_tensorflow_have(tensorflow, session, program):
    for _ in range(200):
        session.run(program[2], program[1])
    metadata = traced(session, program)
    ops = metadata.ops
    stats = native(tensorflow, session, program)
    assert Counter(ops.name) == Counter([s.node_name for s in stats] + ["inside"])
    places = {name: i for i, name in enumerate(ops.name)}
    ours = shapes_of(metadata)
    for stat in stats:
        row = places[stat.node_name]
        assert f" = {ops.op[row]}(" in stat.timeline_label
        for output in stat.output:
            described = output.tensor_description
            shape = tuple(axis.size for axis in described.shape.dim)
            assert ours[stat.node_name, output.slot] == (described.dtype, shape)
    assert np.all(ops.scheduled_ns <= ops.start_ns)
    assert np.all(ops.start_ns <= ops.end_ns)
    assert abs(time.time_ns() - int(ops.end_ns.max())) < 60e9
    assert ops.thread[places["inside"]] == ops.thread[places["called"]]
    assert set(ops.thread.tolist()) <= set(ops.thread_names)
    inside, called = places["inside"], places["called"]
    # The span's times are by the profiler's clock, which may be some microseconds off ours.
    assert ops.start_ns[called] - 1_000_000 <= ops.start_ns[inside] <= ops.end_ns[inside]
    assert metadata.overhead.ns > 0


def test_without_it_a_run_has_the_same_ops(session, program):
    logged = traced(session, program, SOFTWARE)
    build.turn_off()
    with adapter.Session(graph=program[0]) as other:
        assert not logs(other)
        profiled = traced(other, program, SOFTWARE)
    assert Counter(profiled.ops.name) == Counter(logged.ops.name)


@pytest.fixture(scope="module")
def training(tensorflow):
    """A step of gradient descent: its graph, what to run first, its feed and its fetch."""
    v1 = tensorflow.compat.v1
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tensorflow.float32, [8, 5], name="x")
        y = x
        weights = []
        for i, (rows, columns) in enumerate([(5, 7), (7, 3)]):
            weights.append(v1.get_variable(f"w{i}", [rows, columns], use_resource=True))
            y = tensorflow.nn.relu(tensorflow.matmul(y, weights[-1]))
        loss = tensorflow.reduce_mean(y * y, name="loss")
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = v1.global_variables_initializer()
    feed = {x: np.linspace(0, 1, 40, dtype=np.float32).reshape(8, 5)}
    return graph, init, feed, [loss, step]


def of_training(training):
    """The full trace of the first step of a session of its own."""
    graph, init, feed, fetch = training
    with adapter.Session(graph=graph) as session:
        session.run(init)
        metadata = stepscope.RunMetadata()
        session.run(fetch, feed, options=FULL, run_metadata=metadata)
    assert "op executions" not in {loss.what for loss in metadata.completeness.losses}
    return metadata


def test_a_training_step_is_the_same_as_in_a_cold_profile(training, prepared):
    logged = of_training(training)
    build.turn_off()
    profiled = of_training(training)
    assert Counter(zip(logged.ops.name, logged.ops.op, logged.ops.device, strict=True)) == Counter(
        zip(profiled.ops.name, profiled.ops.op, profiled.ops.device, strict=True)
    )
    # The profiler tells an output by what reads it; the log has those that nothing reads as well.
    ours, theirs = shapes_of(logged), shapes_of(profiled)
    assert theirs
    assert {key: ours.get(key) for key in theirs} == theirs


def test_a_python_function_is_timed(tensorflow, prepared):
    def slow(value):
        with stepscope.annotate("inside"):
            time.sleep(0.02)
            return value

    v1 = tensorflow.compat.v1
    with v1.Graph().as_default() as graph:
        found = v1.py_func(slow, [v1.placeholder_with_default(1.0, [])], v1.float32, name="called")
    metadata = stepscope.RunMetadata()
    with adapter.Session(graph=graph) as session:
        session.run(found, options=SOFTWARE, run_metadata=metadata)
    ops = metadata.ops
    took = dict(zip(ops.name, ops.end_ns - ops.start_ns, strict=True))
    assert min(took["called"], took["inside"]) >= 19_000_000
    assert dict(zip(ops.name, ops.op, strict=True))["called"] == "PyFunc"


@pytest.mark.parametrize("wait", ["take", "late"])
def test_a_deadline_names_the_op_that_was_late(tensorflow, prepared, wait):
    v1 = tensorflow.compat.v1
    let_go = threading.Event()

    def stay(value):
        let_go.wait(patient(30))
        return value

    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tensorflow.float32, [])
        before = tensorflow.add(x, 1.0, name="before")
        with tensorflow.control_dependencies([before]):
            if wait == "take":
                found = v1.FIFOQueue(1, [tensorflow.float32], [[]]).dequeue(name="take")
            else:
                found = v1.py_func(stay, [x], tensorflow.float32, name="late")
        after = tensorflow.multiply(found, before, name="after")
    options = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE, timeout_in_ms=400)
    late = pytest.raises(tensorflow.errors.DeadlineExceededError)
    with adapter.Session(graph=graph) as session:
        session.run(before, {x: 1.0})
        try:
            with late as caught:
                session.run(after, {x: 1.0}, options=options)
        finally:
            let_go.set()
    metadata = caught.value.run_metadata
    ((name, outcome),) = [(row.name, row.outcome) for row in metadata.status.outcomes]
    assert (name, outcome) == (wait, "cancelled" if wait == "take" else "abandoned")
    assert "before" in metadata.ops.name
    assert not {wait, "after"} & set(metadata.ops.name)


def test_a_program_that_profiles_itself_loses_no_ops(tensorflow, session, program):
    whole = traced(session, program)
    tensorflow.profiler.experimental.start("ram://own-profile")
    try:
        metadata = traced(session, program)
    finally:
        tensorflow.profiler.experimental.stop(save=False)
    assert Counter(metadata.ops.name) + Counter(["inside"]) == Counter(whole.ops.name)
    assert {loss.what for loss in metadata.completeness.losses} >= {"annotations, input pipelines"}
    assert len(set(metadata.ops.thread.tolist()) - {0}) >= 1


def test_a_log_of_nothing_is_empty(prepared):
    log = NodeLog(outputs=True)
    log.enter()
    log.leave()
    nodes = log.read()
    log.release()
    assert (len(nodes.columns(1, {}, failed=False, outputs=True)), nodes.ended) == (0, [])
    assert nodes.executed() == []


def test_what_a_failing_op_left_undone(tensorflow, prepared):
    v1 = tensorflow.compat.v1
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tensorflow.float32, [2])
        y = v1.placeholder_with_default([3.0, 4.0], [2])
        for i in range(1, 101):
            if i == 60:
                y = tensorflow.debugging.check_numerics(y / 0.0 * 0.0, "not a number", name="bad")
            else:
                step = tensorflow.multiply if i % 2 else tensorflow.add
                y = step(y, x, name=f"op{i}")
    failing = pytest.raises(tensorflow.errors.InvalidArgumentError)
    with adapter.Session(graph=graph) as session, failing as caught:
        session.run(y, {x: [1.0, 2.0]}, options=SOFTWARE)
    metadata = caught.value.run_metadata
    assert {f"op{i}" for i in range(1, 60)} <= set(metadata.ops.name)
    assert not {"bad", "op61"} & set(metadata.ops.name)
    assert list(metadata.status.in_flight) == ["bad"]


def test_threads_that_share_a_session_keep_their_ops_apart(tensorflow, prepared):
    v1 = tensorflow.compat.v1
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tensorflow.float32, [2])
        ends = []
        for number in range(8):
            y = v1.placeholder_with_default([3.0, 4.0], [2])
            for i in range(40):
                step = tensorflow.multiply if i % 2 else tensorflow.add
                y = step(y, x, name=f"of{number}_{i}")
            ends.append(y)
    found: dict[int, set[int]] = {}
    errors = []

    def work(number):
        try:
            for _ in range(20):
                metadata = stepscope.RunMetadata()
                session.run(ends[number], {x: [1, 2]}, options=SOFTWARE, run_metadata=metadata)
                names = [name for name in metadata.ops.name if name.startswith("of")]
                assert set(names) == {f"of{number}_{i}" for i in range(40)}
                found.setdefault(number, set()).add(len(names))
        except Exception as error:  # noqa: BLE001 - told by the test's own thread
            errors.append(error)

    with adapter.Session(graph=graph) as session:
        threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patient(60))
    assert not errors
    assert found == {number: {40} for number in range(8)}


def test_nothing_is_used_or_left_behind_without_a_compiler(not_built, program, monkeypatch):
    monkeypatch.setenv("CXX", str(not_built / "no-such-compiler"))
    with adapter.Session(graph=program[0]) as session:
        assert not logs(session)
        traced(session, program)
    assert not not_built.exists()


def test_the_executor_type_that_a_program_chose_stays(tensorflow, prepared, program):
    config = tensorflow.compat.v1.ConfigProto()
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    with adapter.Session(graph=program[0], config=config) as session:
        assert not logs(session)


@pytest.fixture
def not_built(tensorflow, monkeypatch, tmp_path):
    """As on a machine where nothing was ever built; gives the cache's folder."""
    monkeypatch.setattr(build, "_loaded", None)
    monkeypatch.setattr(build, "_in_use", False)
    monkeypatch.setattr(build, "_looked", False)
    monkeypatch.delenv(build.SWITCH)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "stepscope"


def test_without_a_compiler_it_is_said(not_built, monkeypatch):
    monkeypatch.setenv("CXX", str(not_built / "no-such-compiler"))
    assert adapter.prepare() == build.NO_COMPILER
    assert build.executor_type() == ""


@pytest.fixture
def compiler(not_built, monkeypatch):
    """A function that makes a shell script the C++ compiler."""

    def use(script):
        path = not_built.parent / "compiler"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))

    return use


def test_what_the_compiler_says_is_told_and_nothing_is_left_behind(compiler, not_built):
    compiler("echo no such header; exit 1")
    assert adapter.prepare().endswith("no such header\n")
    assert list(not_built.iterdir()) == []
    assert build.executor_type() == ""


def test_a_compiler_that_takes_too_long_is_stopped(compiler, not_built):
    compiler("exec sleep 60")
    assert "timed out after 0.2 seconds" in adapter.prepare(0.2)
    assert list(not_built.iterdir()) == []


def test_a_library_that_cannot_be_loaded_is_not_kept(compiler, not_built):
    compiler('for word; do case "$word" in *.so) echo garbage >"$word"; esac; done')
    reason = adapter.prepare()
    assert "of no use and not kept" in reason
    assert "file too short" in reason
    assert list(not_built.iterdir()) == []
    assert build.executor_type() == ""
