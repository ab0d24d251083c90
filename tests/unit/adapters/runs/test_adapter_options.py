"""Options and metadata of every kind, and a profiler that cannot be had or cannot see enough."""

from __future__ import annotations

import ast
import os
import pickle
import sys

import numpy as np
import pytest

import started_python
import stepscope
from patience import patient
from stepscope import errors
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow import support, versions
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

SOFTWARE = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
MODES = ("session", "function", "eager")
ENGINES = {
    "session": "tensorflow session",
    "function": "tensorflow function",
    "eager": "tensorflow eager",
}


@pytest.fixture(params=MODES)
def call(request, tensorflow):
    """One step, a product of matrices, in each mode; `call.mode` says which."""
    tf = tensorflow

    def product(x):
        return tf.matmul(x, x, name="product")

    if request.param == "session":
        graph = tf.Graph()
        with graph.as_default():
            x = tf.compat.v1.placeholder(tf.float32, [2, 2])
            y = product(x)
        session = adapter.Session(graph=graph)
        feed = {x: np.eye(2)}

        def run(**asked):
            return session.run(y, feed, **asked)

    else:
        called = tf.function(product) if request.param == "function" else product
        x = tf.eye(2)

        def run(**asked):
            return adapter.run(called, x, **asked)

    run.mode = request.param
    return run


def has_product(metadata):
    return "MatMul" in list(metadata.ops.op)


# -- messages of every kind ------------------------------------------------------------------------


def test_options_and_metadata_may_be_tensorflows_own_messages(tf, call):
    options = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
    message = tf.RunMetadata()
    call(options=options, run_metadata=message)
    nodes = [n for device in message.step_stats.dev_stats for n in device.node_stats]
    assert any("MatMul" in n.timeline_label for n in nodes)
    assert RunMetadata.FromString(message.SerializeToString()).engine == ENGINES[call.mode]


def test_options_and_metadata_may_be_tensorboards_messages(call):
    from tensorboard.compat.proto import config_pb2

    message = config_pb2.RunMetadata()
    call(options=config_pb2.RunOptions(trace_level=1), run_metadata=message)
    labels = [n.timeline_label for d in message.step_stats.dev_stats for n in d.node_stats]
    assert any("MatMul" in label for label in labels)


def test_metadata_is_replaced_never_appended_to(call):
    metadata = RunMetadata()
    for _ in range(3):
        call(options=SOFTWARE, run_metadata=metadata)
        assert list(metadata.ops.op).count("MatMul") == 1
    call(options=RunOptions(), run_metadata=metadata)
    assert len(metadata.ops) == 0
    assert metadata.status.ok


def test_the_engine_is_named_and_found_by_the_package(tensorflow, call):
    metadata = RunMetadata()
    call(options=SOFTWARE, run_metadata=metadata)
    assert metadata.engine == ENGINES[call.mode]
    metadata = RunMetadata()
    stepscope.run(lambda: tensorflow.eye(2) @ tensorflow.eye(2), run_metadata=metadata)
    assert metadata.engine == "tensorflow eager"
    with stepscope.observe() as observed, stepscope.annotate("here"):
        tensorflow.eye(2) @ tensorflow.eye(2)
    assert {"MatMul", "Annotation"} <= set(observed.ops.op)


# -- what is refused -------------------------------------------------------------------------------

SET = {
    "debug_options": {"debug_options": stepscope.DebugOptions(global_step=3)},
    "report_tensor_allocations_upon_oom": {"report_tensor_allocations_upon_oom": True},
    "experimental.collective_graph_key": {
        "experimental": RunOptions.Experimental(collective_graph_key=7)
    },
    "experimental.use_run_handler_pool": {
        "experimental": RunOptions.Experimental(use_run_handler_pool=True)
    },
    "allocation_log_buffer_size": {"allocation_log_buffer_size": 100},
    "allocation_log_sampling_rate": {"allocation_log_sampling_rate": 0.5},
}


@pytest.mark.parametrize("field", SET)
def test_what_an_engine_cannot_do_is_refused_by_name(call, field):
    engine = ENGINES[call.mode]
    states = {
        state for name, (state, _) in support.SUPPORT[engine].items() if name.startswith(field)
    }
    assert len(states) == 1
    if states == {"yes"}:
        call(options=RunOptions(**SET[field]))
        return
    with pytest.raises(errors.UnimplementedError) as caught:
        call(options=RunOptions(**SET[field]))
    assert field in str(caught.value)
    assert engine in str(caught.value)
    assert isinstance(caught.value, versions.tensorflow().errors.UnimplementedError)


def test_pools_that_do_not_exist_are_refused(tensorflow, call):
    for pool in (-2, 17):
        with pytest.raises(tensorflow.errors.InvalidArgumentError) as caught:
            call(options=RunOptions(inter_op_thread_pool=pool))
        assert f"Invalid inter_op_thread_pool: {pool}" in str(caught.value)
        assert isinstance(caught.value, errors.InvalidArgumentError)


def test_a_block_refuses_a_deadline(tensorflow):
    with (
        pytest.raises(tensorflow.errors.InvalidArgumentError, match="timeout_in_ms"),
        adapter.observe(RunOptions(timeout_in_ms=100)),
    ):
        raise AssertionError("the block must not be entered")


def test_an_error_can_be_pickled(tensorflow):
    function = tensorflow.function(lambda x: tensorflow.debugging.check_numerics(x, "bad"))
    with pytest.raises(tensorflow.errors.InvalidArgumentError) as caught:
        adapter.run(function, tensorflow.constant(float("nan")), options=SOFTWARE)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, tensorflow.errors.InvalidArgumentError)
    assert isinstance(again, errors.InvalidArgumentError)
    assert again.message == caught.value.message
    assert again.run_metadata.status.code == "INVALID_ARGUMENT"
    assert list(again.run_metadata.ops.name) == list(caught.value.run_metadata.ops.name)


# -- options that TensorFlow itself does -----------------------------------------------------------


@pytest.fixture
def watched(tensorflow, tmp_path):
    """(run, directory): a run whose result is dumped there, with other fields of the options."""
    graph = tensorflow.Graph()
    with graph.as_default():
        x = tensorflow.compat.v1.placeholder(tensorflow.float32, [2], name="x")
        y = tensorflow.add(x, 1.0, name="y")
    session = adapter.Session(graph=graph)

    def run(op="DebugIdentity", tolerate=False, watch=True, **debug):
        options = RunOptions(debug_options=stepscope.DebugOptions(**debug))
        if watch:
            options.debug_options.debug_tensor_watch_opts.add(
                node_name="y", output_slot=0, debug_ops=[op], debug_urls=[f"file://{tmp_path}"],
                tolerate_debug_op_creation_failures=tolerate,
            )  # fmt: skip
        metadata = RunMetadata()
        found = session.run(y, {x: [1.0, 2.0]}, options=options, run_metadata=metadata)
        assert found.tolist() == [2.0, 3.0]
        return metadata

    return run, tmp_path


def test_the_global_step_is_in_what_the_debugger_writes(watched):
    run, folder = watched
    assert run(global_step=42).completeness.complete
    (told,) = folder.glob("_tfdbg_core_metadata_*")
    assert b'"global_step":42' in told.read_bytes()
    (loss,) = run(watch=False, global_step=42).completeness.losses
    assert loss.what == "debug_options.global_step"
    assert "without watches" in loss.reason


def test_a_debug_op_that_cannot_be_made_is_an_error_unless_tolerated(tensorflow, watched):
    run, _ = watched
    with pytest.raises(tensorflow.errors.FailedPreconditionError, match="NoSuchDebugOp"):
        run("NoSuchDebugOp")
    assert run("NoSuchDebugOp", tolerate=True).status.ok


LIMITED = """
import sys
import numpy as np
import tensorflow as tf
from stepscope import RunMetadata, RunOptions, errors
from stepscope.adapters.tensorflow import Session

with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [100])
    y = tf.add(x, 1.0, name="y")

def outcomes(session, resets):
    for reset in resets:
        options = RunOptions()
        options.debug_options.reset_disk_byte_usage = reset
        options.debug_options.debug_tensor_watch_opts.add(
            node_name="y", output_slot=0, debug_ops=["DebugIdentity"],
            debug_urls=["file://" + sys.argv[1]],
        )
        metadata = RunMetadata()
        try:
            session.run(y, {x: np.ones(100)}, options=options, run_metadata=metadata)
        except errors.ResourceExhaustedError as error:
            assert "byte-size allowance" in error.message
        lost = [loss.what for loss in metadata.completeness.losses]
        yield metadata.status.code, "debug_options.reset_disk_byte_usage" in lost

print(list(outcomes(Session(graph=graph), [True] * 8)))
print(list(outcomes(Session(graph=graph), [False] * 8 + [True])))
"""


def test_the_disk_usage_of_the_debugger_is_reset(tensorflow, tmp_path):
    """TensorFlow has one limit per process, read when it first writes: 400 bytes a run here."""
    done = started_python.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "TFDBG_DISK_BYTES_LIMIT": "2000"},
        timeout=patient(240),
        check=True,
    )
    always, never = map(ast.literal_eval, done.stdout.splitlines())
    assert always == [("OK", False)] * 8
    assert never[0] == ("OK", False)
    assert ("RESOURCE_EXHAUSTED", False) in never
    assert never[-1] == ("RESOURCE_EXHAUSTED", True), "too late for a reset, and that is said"


@pytest.mark.parametrize("key", [0, 5])
def test_collectives_run_with_a_graph_key_and_without(tensorflow, key):
    tf = tensorflow
    parts = []
    with tf.Graph().as_default() as graph:
        for i in range(2):
            with tf.device(f"/cpu:{i}"):
                parts.append(
                    tf.raw_ops.CollectiveReduce(
                        input=tf.constant([1.0, 2.0]) * (i + 1), group_size=2, group_key=1,
                        instance_key=1, merge_op="Add", final_op="Id", subdiv_offsets=[0],
                    )
                )  # fmt: skip
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    options = RunOptions(trace_level=1, timeout_in_ms=60_000)
    options.experimental.collective_graph_key = key
    metadata = RunMetadata()
    with adapter.Session(graph=graph, config=config) as session:
        found = session.run(parts, options=options, run_metadata=metadata)
    assert [part.tolist() for part in found] == [[3.0, 6.0]] * 2
    assert set(metadata.ops.name) >= {part.op.name for part in parts}


def test_a_traced_function_keeps_to_the_program_s_soft_placement(tensorflow):
    tf = tensorflow
    function = tf.function(lambda x: x + 1.0)

    @tf.function
    def elsewhere(x):
        with tf.device("/device:GPU:7"):
            return x * 2.0

    full = RunOptions(trace_level=RunOptions.FULL_TRACE)
    before = tf.config.get_soft_device_placement()
    try:
        tf.config.set_soft_device_placement(False)
        with pytest.raises(tf.errors.InvalidArgumentError, match="GPU:7"):
            elsewhere(tf.ones([]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="GPU:7"):
            adapter.run(elsewhere, tf.ones([]), options=full)
        assert adapter.run(function, tf.ones([]), options=full).numpy() == 2.0
        tf.config.set_soft_device_placement(True)
        assert adapter.run(elsewhere, tf.ones([]), options=full).numpy() == 2.0
    finally:
        tf.config.set_soft_device_placement(before)


# -- the profiler ----------------------------------------------------------------------------------


def test_where_the_program_profiles_itself_nothing_fails(tensorflow, tmp_path, call):
    profiler = tensorflow.profiler.experimental
    profiler.start(str(tmp_path))
    try:
        metadata = RunMetadata()
        call(options=SOFTWARE, run_metadata=metadata)
    finally:
        profiler.stop()
    assert metadata.status.ok
    assert list(tmp_path.rglob("*.xplane.pb")), "the program's own profile is there"
    if call.mode == "eager":
        assert has_product(metadata), "eager ops are told by their calls"
        assert metadata.completeness.complete
        return
    (loss,) = metadata.completeness.losses
    assert "in use by the program" in loss.reason
    if call.mode == "session":
        assert has_product(metadata)
        assert loss.what == "threads"
        assert set(metadata.ops.thread) == {0}
    else:
        assert len(metadata.ops) == 0
        assert loss.what == "op executions"
    call(options=SOFTWARE, run_metadata=metadata)
    assert has_product(metadata)
    assert metadata.completeness.complete


def test_a_recorder_whose_level_cannot_be_raised_is_declared(monkeypatch, call):
    for _ in range(200):
        call()
    monkeypatch.setattr(versions.TraceLevel, "raise_to", lambda self, level: False)
    metadata = RunMetadata()
    call(options=SOFTWARE, run_metadata=metadata)
    assert metadata.status.ok
    if call.mode == "eager":
        assert metadata.completeness.complete, "eager ops are told by their calls"
        return
    (loss,) = metadata.completeness.losses
    assert loss.what == "executions of cheap ops"
    assert "level" in loss.reason


def test_the_recorders_level_is_there_and_is_reset(tensorflow, call):
    level = versions.TraceLevel()
    assert level.available
    call(options=SOFTWARE, run_metadata=RunMetadata())
    assert not level.raise_to(3), "nothing is being recorded any more"


def test_what_tracing_cost_is_said(call):
    metadata = RunMetadata()
    call(options=SOFTWARE, run_metadata=metadata)
    assert metadata.overhead.ns > 0
    assert metadata.overhead.fraction > 0
    call(options=RunOptions(), run_metadata=metadata)
    assert metadata.overhead.ns < 5_000_000
