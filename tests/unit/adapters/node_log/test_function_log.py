"""What nodes of functions did, from our own executor; and which calls that does not see."""

import os
import sys
import textwrap
import threading
import time
from collections import Counter

import numpy as np
import pytest
from output_shapes import shapes_of

import started_python
import stepscope
from patience import patient
from ready_compiler import ReadyCompiler
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.logged_capture import LoggedCapture
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.function_log import log_of_call
from stepscope.adapters.tensorflow.node_log.log import NodeLog
from stepscope.adapters.tensorflow.runs.function import Observed
from stepscope.adapters.tensorflow.script.deliveries import DeliveredRun
from stepscope.adapters.tensorflow.support import FUNCTION
from stepscope.metadata.stored.stored_log import pack_log
from stepscope.options import RunOptions
from stepscope.store import Store

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)
SOFTWARE = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)


def traced(function, *args, options=FULL):
    metadata = stepscope.RunMetadata()
    adapter.run(function, *args, options=options, run_metadata=metadata)
    return metadata


def is_logged(function):
    return log_of_call(function, outputs=False) is not None


def executed(metadata):
    ops = metadata.ops
    return Counter(zip(ops.name, ops.op, ops.device, strict=True))


@pytest.fixture
def model(tensorflow):
    """A function with a branch, a loop, a function of its own and a chain."""
    tf = tensorflow
    weight = tf.Variable(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))

    @tf.function(autograph=False)
    def inner(x):
        return tf.nn.relu(x) * 2.0

    @tf.function(autograph=False)
    def model(x):
        y = tf.matmul(x, weight)
        for _ in range(20):
            y = inner(y) + 1.0
        y = tf.cond(tf.reduce_sum(y) > 0, lambda: y + 1.0, lambda: tf.tanh(y))
        (loop,) = tf.while_loop(lambda i: i < 5, lambda i: (i + 1,), [tf.size(x)])
        weight.assign_add(tf.ones([4, 3]))
        return y, loop, tf.strings.join([tf.as_string(y), "!"])

    model(tf.ones([2, 4]))
    return model


def test_a_warm_call_has_what_the_profiler_shows_of_a_cold_one(tensorflow, compiled, model):
    x = tensorflow.ones([2, 4])
    profiled = traced(model, x)
    assert adapter.prepare() == ""
    for _ in range(200):
        model(x)
    logged = traced(model, x)
    short = traced(model, x, options=SOFTWARE)
    build.turn_off()
    assert executed(logged) == executed(profiled)
    assert Counter(short.ops.name) == Counter(profiled.ops.name)
    ours, theirs = shapes_of(logged), shapes_of(profiled)
    assert theirs
    assert {key: ours.get(key) for key in theirs} == theirs
    ops = logged.ops
    assert np.all(ops.scheduled_ns <= ops.start_ns)
    assert np.all(ops.start_ns <= ops.end_ns)
    assert set(ops.thread.tolist()) <= set(ops.thread_names)
    # What loops are lowered to is numbered anew each time a function is instantiated.
    shared = logged.sources.keys() & profiled.sources.keys()
    assert set(logged.ops.name) & set(profiled.ops.name) <= shared | {"_SOURCE"}
    assert all(logged.sources[name] == profiled.sources[name] for name in shared)
    assert len(logged.function_graphs) == len(profiled.function_graphs) == 1
    assert logged.overhead.ns > 0


def test_a_program_that_profiles_itself_loses_no_ops(tensorflow, prepared, model):
    x = tensorflow.ones([2, 4])
    model(x)
    tensorflow.profiler.experimental.start("ram://own-profile-of-functions")
    metadata = traced(model, x, options=SOFTWARE)
    tensorflow.profiler.experimental.stop(save=False)
    assert Counter(metadata.ops.op)["MatMul"] == 1
    assert metadata.completeness.complete


def test_what_runs_python_is_profiled_as_well(tensorflow, prepared):
    tf = tensorflow

    def python(value):
        with stepscope.annotate("inside"):
            return value

    calls = tf.function(lambda x: tf.numpy_function(python, [x], tf.float32) + 1.0)
    x = tf.ones([])
    assert not is_logged(calls), "nothing is known of it before it is traced"
    calls(x)
    assert is_logged(calls)
    metadata = traced(calls, x)
    assert {"PyFunc", "AddV2", "Annotation"} <= set(metadata.ops.op)
    whats = {loss.what for loss in metadata.completeness.losses}
    assert "annotations, ops inside of ops" not in whats


def test_what_xla_compiles_is_profiled(tensorflow, prepared):
    compiled = tensorflow.function(lambda x: tensorflow.tanh(x) * 2.0, jit_compile=True)
    x = tensorflow.ones([])
    compiled(x)
    assert not is_logged(compiled)
    assert not is_logged(compiled.get_concrete_function(x))


def test_a_function_that_reads_from_a_pipeline_is_logged_and_says_what_it_lacks(
    tensorflow, prepared
):
    data = iter(tensorflow.data.Dataset.range(100).map(lambda i: i * 3))
    reads = tensorflow.function(lambda: next(data) + 1)
    reads()
    assert is_logged(reads)
    metadata = traced(reads)
    assert {"IteratorGetNext", "AddV2"} <= set(metadata.ops.op)
    (loss,) = (loss for loss in metadata.completeness.losses if loss.what == "input pipelines")
    assert "only TensorFlow's profiler sees" in loss.reason


def test_what_a_graph_says_is_worked_out_once(tensorflow, prepared, model):
    x = tensorflow.ones([2, 4])
    first, second = traced(model, x), traced(model, x)
    assert first.ops.facts is second.ops.facts
    assert first.sources == second.sources
    labels = dict(zip(first.ops.name, first.ops.label, strict=True))
    assert any(label.startswith("MatMul = MatMul(") for label in labels.values())


def test_a_full_trace_instantiates_nothing_again(tensorflow, prepared, model):
    x = tensorflow.ones([2, 4])
    instantiated: list = []
    model(x)
    with versions.collecting_graphs([]):
        pass  # what others left
    with versions.collecting_graphs(instantiated):
        metadata = traced(model, x)
    assert [len(found.function_graphs) for found in instantiated] == [0]
    (graphs,) = metadata.function_graphs
    executed = {node.name for graph in graphs.partition_graphs for node in graph.node}
    assert set(metadata.ops.name) <= executed | {"_SOURCE"}
    assert {"MatMul"} <= {node.name for node in graphs.pre_optimization_graph.node}
    (product,) = (n for n in graphs.partition_graphs[0].node if n.op in ("MatMul", "_FusedMatMul"))
    assert product.attr["T"].type == tensorflow.float32.as_datatype_enum


def test_the_executor_type_that_a_program_chose_stays(tensorflow, prepared, model):
    assert is_logged(model)
    with tensorflow.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
        assert not is_logged(model)
    assert is_logged(model)


def test_calls_that_another_thread_executes_are_profiled(tensorflow, prepared, model):
    tensorflow.config.experimental.set_synchronous_execution(False)
    try:
        assert not is_logged(model)
    finally:
        tensorflow.config.experimental.set_synchronous_execution(True)
    assert is_logged(model)


def test_a_trace_inside_the_run_is_declared(tensorflow, prepared, model):
    whats = [loss.what for loss in traced(model, tensorflow.ones([2, 4])).completeness.losses]
    assert "eager ops, annotations, input pipelines" not in whats
    metadata = traced(model, tensorflow.ones([3, 4]))
    assert Counter(metadata.ops.op)["MatMul"] == 1
    (loss,) = (found for found in metadata.completeness.losses if found.what.startswith("eager"))
    assert "traced the function anew" in loss.reason


def test_what_is_saved_names_no_executor_of_ours(tensorflow, prepared, tmp_path):
    tf = tensorflow
    inner = tf.function(lambda x: x * 2.0, autograph=False)
    module = tf.Module()
    module.call = tf.function(
        lambda x: inner(x) + 1.0, autograph=False, input_signature=[tf.TensorSpec([2])]
    )
    assert traced(module.call, tf.ones([2])).status.ok
    assert is_logged(module.call)
    tf.saved_model.save(module, str(tmp_path))
    saved = (tmp_path / "saved_model.pb").read_bytes()
    assert b"executor_type" in saved
    assert b"STEPSCOPE" not in saved


def test_gradients_of_an_outer_tape_are_the_same(tensorflow, prepared):
    tf = tensorflow
    weight = tf.Variable([[2.0, 1.0], [0.5, 3.0]])
    function = tf.function(lambda x: tf.reduce_sum(tf.tanh(tf.matmul(x, weight))))
    x = tf.ones([2, 2])
    function(x)

    def gradient(call):
        with tf.GradientTape() as tape:
            loss = call(x)
        return tape.gradient(loss, weight).numpy()

    metadata = stepscope.RunMetadata()
    found = gradient(lambda x: adapter.run(function, x, options=FULL, run_metadata=metadata))
    np.testing.assert_array_equal(found, gradient(function))
    assert Counter(metadata.ops.op)["MatMul"] == 1


def test_threads_keep_their_calls_apart_and_do_not_wait_for_each_other(tensorflow, prepared):
    tf = tensorflow

    def made(number):
        def chain(x):
            for i in range(40):
                step = tf.multiply if i % 2 else tf.add
                x = step(x, 2.0, name=f"of{number}_{i}")
            return x

        function = tf.function(chain, autograph=False)
        function(tf.ones([2]))
        return function

    functions = [made(number) for number in range(8)]
    errors = []

    def work(number):
        try:
            for _ in range(20):
                metadata = traced(functions[number], tf.ones([2]), options=SOFTWARE)
                names = Counter(metadata.ops.name)
                assert names.keys() - {"_SOURCE", "x", "identity_retval_RetVal"} == {
                    f"of{number}_0/y", *(f"of{number}_{i}" for i in range(40))
                }  # fmt: skip
                assert set(names.values()) == {1}
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(60))
    assert not any(thread.is_alive() for thread in threads)
    assert not errors


def test_what_a_failing_op_left_undone(tensorflow, prepared):
    tf = tensorflow

    def chain(x):
        for i in range(100):
            if i == 60:
                x = tf.debugging.check_numerics(x, "bad", name="bad")
            else:
                x = (tf.multiply if i % 2 else tf.add)(x, 1.5, name=f"op{i}")
        return x

    function = tf.function(chain, autograph=False)
    function(tf.ones([2]))
    assert is_logged(function)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        traced(function, tf.constant([np.inf, 1.0]), options=SOFTWARE)
    metadata = caught.value.run_metadata
    ran = {name for name in metadata.ops.name if name.startswith(("op", "bad")) and "/" not in name}
    assert ran == {f"op{i}" for i in range(60)}
    assert list(metadata.status.in_flight) == ["bad"]
    assert metadata.status.code == "INVALID_ARGUMENT"


AUTOMATIC = """
    import tensorflow as tf
    import stepscope
    from stepscope.adapters import tensorflow as adapter
    from stepscope.adapters.tensorflow.node_log.function_log import log_of_call

    function = tf.function(lambda x: x * 2.0 + 1.0)
    options = stepscope.RunOptions(trace_level=3)
    logged = []
    for _ in range(2):
        logged.append(log_of_call(function, outputs=False) is not None)
        metadata = stepscope.RunMetadata()
        stepscope.run(function, tf.ones([2]), options=options, run_metadata=metadata)
        assert {"AddV2", "Mul"} <= set(metadata.ops.op), metadata.ops.op
    with adapter.Session(graph=tf.Graph()) as session:
        logged.append(session._stepscope.logs_nodes)
    print(logged)
"""


@pytest.mark.parametrize("switch", ["", "off"])
def test_what_a_machine_has_is_used_unless_switched_off(compiled, switch, tmp_path):
    done = started_python.run(
        [sys.executable, "-c", textwrap.dedent(AUTOMATIC)],
        cwd=tmp_path,
        env=os.environ | {build.SWITCH: switch},
        timeout=patient(240),
    )
    assert done.returncode == 0, done.stderr
    # The first run of a function is profiled: it may be warm, and is not to be made ready anew.
    assert done.stdout.strip() == str([False, switch != "off", switch != "off"])


BEHIND = """
    import threading
    import tensorflow as tf
    import stepscope
    from stepscope.adapters.tensorflow.node_log import build
    from stepscope.adapters.tensorflow.node_log.function_log import log_of_call

    def traced(function):
        metadata = stepscope.RunMetadata()
        stepscope.run(function, tf.ones([2]), options=options, run_metadata=metadata)
        assert "AddV2" in metadata.ops.op
        return log_of_call(function, outputs=False) is not None

    options = stepscope.RunOptions(trace_level=1)
    old = tf.function(lambda x: x * 2.0 + 1.0)
    found = [traced(old)]
    compiling = [t for t in threading.enumerate() if t.name == "stepscope/compiling"]
    for thread in compiling:
        thread.join()
    assert build.executor_type()
    new = tf.function(lambda x: x * 3.0 + 1.0)
    new(tf.ones([2]))
    print(len(compiling), traced(old), traced(new))
"""


@pytest.mark.timeout(patient(1500))
def test_a_library_that_arrives_later_serves_new_functions(compiled, tmp_path):
    compiler = ReadyCompiler(tmp_path)
    environment = os.environ | {
        "XDG_CACHE_HOME": str(tmp_path), build.SWITCH: "", "CXX": str(compiler.path)
    }  # fmt: skip
    # In the second program it is there from the start. In the first it is made by a process that
    # gives way to all others: it imports TensorFlow twice, for which a busy machine takes minutes.
    for expected in ("1 False True", "0 True True"):
        done = started_python.run(
            [sys.executable, "-c", textwrap.dedent(BEHIND)],
            cwd=tmp_path, env=environment, timeout=patient(700),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == expected
    assert compiler.calls == 1


@pytest.mark.parametrize("options", [SOFTWARE, FULL], ids=["software", "full"])
def test_a_stored_run_is_the_run_that_was_recorded(prepared, tensorflow, tmp_path, options):
    tf = tensorflow

    @tf.function(autograph=False)
    def function(x):
        first, second = tf.split(tf.nn.relu(tf.matmul(x, x)) + 1.0, 2)
        return tf.reduce_sum(first) * tf.reduce_max(second), tf.shape(x)

    x = tf.ones([4, 4])
    function(x)
    live = [traced(function, x, options=options) for _ in range(3)]
    with Store(tmp_path) as store:
        for metadata in live:
            assert metadata.recorded().log is not None, "it is stored as it was logged"
            store.add(metadata, "function")
    for metadata, again in zip(live, stepscope.load(store.path), strict=True):
        assert again.step_stats == metadata.step_stats
        assert again.sources == metadata.sources
        assert again.completeness == metadata.completeness
        for column in ("name", "event", "time_ns", "bytes", "slot", "shape"):
            kept = getattr(again.allocations, column).tolist()
            assert kept == getattr(metadata.allocations, column).tolist()
    assert ("matmul" in " ".join(live[0].allocations.name).lower()) == (options is FULL)


def kept_run(function, x):
    """A run as a script's recorder keeps it until it is stored."""
    capture = LoggedCapture(FULL.trace_level, NodeLog(outputs=True))
    run = Observed(FUNCTION, FULL.resolve(), FULL, None, function, capture=capture)
    capture.log.stay(run.step_id, "function")
    with run:
        function(x)
    run.capture.over()
    return run


def test_runs_that_are_alike_are_stored_as_each_of_them_was(prepared, tensorflow, tmp_path):
    tf = tensorflow

    @tf.function(autograph=False, reduce_retracing=True)
    def function(x):
        first, second = tf.split(tf.nn.relu(x) + 1.0, 2)
        return tf.reduce_sum(first), tf.reduce_max(second)

    for size in (2, 4, 6):
        function(tf.ones([size]))
    runs = [kept_run(function, tf.ones([size])) for size in (4, 8, 4)]
    assert runs[0].numbers().like != runs[1].numbers().like
    runs *= 2  # the second time each of them is like one that was stored before
    with Store(tmp_path) as store:
        for run in runs:
            metadata = stepscope.RunMetadata()
            metadata.record(DeliveredRun(run))
            store.add(metadata, "function", kept=0.1)
    for run, again in zip(runs, stepscope.load(store.path), strict=True):
        live = stepscope.RunMetadata()
        live.record(run.recording())
        assert again.step_id == run.step_id
        assert again.step_stats == live.step_stats
        assert again.completeness == live.completeness
        assert again.sources == live.sources
        assert again.allocations.bytes.tolist() == live.allocations.bytes.tolist()
        assert again.overhead.ns == live.overhead.ns


def test_a_log_is_packed_as_a_store_has_it(prepared, tensorflow):
    tf = tensorflow
    function = tf.function(lambda x: tf.split(tf.nn.relu(x) + 1.0, 2), autograph=False)
    function(tf.ones([4]))
    log = kept_run(function, tf.ones([4])).capture.log
    packed, read = log.packed(), log.read()
    assert packed.rows == pack_log(read.log)
    assert packed.ops == len(read.ended) > 3
    assert packed.started_ns == min(row.start_ns for row in read.ended)
    assert packed.ended_ns == max(row.end_ns for row in read.ended)


def test_the_metadata_say_what_recorded_the_run(tensorflow, prepared):
    function = tensorflow.function(lambda x: x + 1.0)
    function(1.0)
    assert traced(function, 1.0).recorder == "executor"
    assert traced(lambda: tensorflow.constant(1.0) + 1.0).recorder == "calls"
    build.turn_off()
    assert traced(function, 1.0).recorder == "profiler"
    untraced = stepscope.RunMetadata()
    adapter.run(function, 1.0, options=RunOptions(), run_metadata=untraced)
    assert untraced.recorder == ""


def test_runs_are_whole_however_late_they_are_looked_at(prepared, tensorflow):
    """More of them than logs may take of memory before somebody reads them."""
    tf = tensorflow

    @tf.function(autograph=False)
    def function(x):
        y = x
        for i in range(1000):
            y = y * x if i % 2 else y + x
        return y

    x = tf.constant(0.5)
    function(x)
    runs = [traced(function, x, options=SOFTWARE) for _ in range(1100)]
    expected = Counter(runs[0].ops.op)
    assert expected["AddV2"] + expected["Mul"] == 1000
    ended_before = 0
    for run in runs:
        assert Counter(run.ops.op) == expected
        assert run.completeness.complete
        assert run.ops.start_ns.min() > ended_before, "each has its own"
        ended_before = run.ops.end_ns.max()


def test_what_a_logged_run_cost_is_not_what_looking_at_it_later_took(prepared, tensorflow):
    tf = tensorflow
    function = tf.function(lambda x: x * 2.0 + 1.0, autograph=False)
    function(tf.ones([2]))
    began = time.perf_counter_ns()
    metadata = traced(function, tf.ones([2]), options=SOFTWARE)
    waited = time.perf_counter_ns() - began
    assert len(metadata.ops) > 0
    assert metadata.overhead.ns <= waited
