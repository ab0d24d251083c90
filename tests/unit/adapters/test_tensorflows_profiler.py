"""TensorFlow's own `tf.profiler`, as its documentation uses it, on runs that Stepscope recorded."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope
from stepscope.adapters import tensorflow as adapter
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)
PARAMETERS = 784 * 64 + 64 * 10
CHECKERS = ["AcceleratorUtilizationChecker", "ExpensiveOperationChecker", "OperationChecker"]


@pytest.fixture
def classifier(tf, prepared):
    """A graph that trains two layers, and a run of it with its metadata."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 784], name="x")
        with tf.variable_scope("net"):
            first = tf.get_variable("first", [784, 64])
            second = tf.get_variable("second", [64, 10])
        logits = tf.nn.relu(x @ first) @ second
        train = tf.train.AdamOptimizer().minimize(tf.reduce_mean(logits**2), name="train")
        tf.global_variables_initializer()
    session = adapter.Session(graph=graph)
    session.run("init")
    feed = {x: np.ones((32, 784), np.float32)}
    session.run(train, feed)

    def step():
        metadata = RunMetadata()
        session.run(train, feed, options=FULL, run_metadata=metadata)
        return metadata

    yield graph, step
    session.close()


def quietly(tf, options):
    return tf.profiler.ProfileOptionBuilder(options).with_empty_output().build()


@pytest.fixture
def theirs(tf, classifier):
    """What TensorFlow itself records of such a run."""
    graph, _ = classifier
    metadata = tf.RunMetadata()
    with tf.Session(graph=graph) as session:
        session.run("init")
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        feed = {"x:0": np.ones((32, 784), np.float32)}
        session.run("train", feed, options=options, run_metadata=metadata)
    return metadata


def test_parameters_of_a_graph(tf, classifier):
    graph, _ = classifier
    options = quietly(tf, tf.profiler.ProfileOptionBuilder.trainable_variables_parameter())
    assert tf.profiler.profile(graph, options=options).total_parameters == PARAMETERS


def test_operations_of_a_run_are_those_of_tensorflows_own_record(tf, classifier, theirs):
    graph, step = classifier
    options = quietly(tf, tf.profiler.ProfileOptionBuilder.float_operation())
    of_ours, of_theirs = (
        tf.profiler.profile(graph, run_meta=run, cmd="op", options=options)
        for run in (step(), theirs)
    )
    assert of_ours.total_float_ops == of_theirs.total_float_ops > 0


@pytest.mark.parametrize("view", ["scope", "graph", "op", "code"])
def test_time_and_memory_in_every_view(tf, classifier, theirs, view):
    graph, step = classifier
    # Else what took no microsecond, or wrote into a buffer that it was given, is left out.
    builder = tf.profiler.ProfileOptionBuilder
    options = quietly(tf, builder.time_and_memory(min_micros=0, min_bytes=0))
    of_ours, of_theirs = (
        tf.profiler.profile(graph, run_meta=run, cmd=view, options=options)
        for run in (step(), theirs)
    )
    assert of_ours.total_exec_micros > 0
    assert of_ours.total_requested_bytes > 0
    assert of_ours.total_parameters == of_theirs.total_parameters
    assert of_ours.total_float_ops == of_theirs.total_float_ops


def test_lines_of_the_program(tf, classifier):
    graph, step = classifier
    builder = tf.profiler.ProfileOptionBuilder
    here = builder(builder.time_and_memory()).with_node_names(show_name_regexes=[f".*{__name__}.*"])
    options = here.with_empty_output().build()
    found = tf.profiler.profile(graph, run_meta=step(), cmd="code", options=options)
    assert __name__ in str(found)


def test_several_steps_with_advice_a_timeline_and_an_op_log(tf, classifier, tmp_path):
    graph, step = classifier
    builder = tf.profiler.ProfileOptionBuilder
    profiler = tf.profiler.Profiler(graph)
    profiler.add_step(0, step())
    profiler.add_step(100, step())
    options = quietly(tf, builder.time_and_memory())
    for view in ("name_scope", "graph", "operations", "python"):
        found = getattr(profiler, f"profile_{view}")(options=options)
        assert found.total_exec_micros > 0, view
    timeline = builder(builder.time_and_memory()).with_step(100)
    timeline = timeline.with_timeline_output(str(tmp_path / "timeline")).build()
    profiler.profile_graph(options=timeline)
    assert "MatMul" in (tmp_path / "timeline_100").read_text()
    advice = profiler.advise({name: {} for name in CHECKERS})
    assert sorted(advice.checkers) == CHECKERS
    assert "MatMul" in str(advice.checkers["ExpensiveOperationChecker"])
    assert sorted(tf.profiler.advise(graph, run_meta=step()).checkers) == CHECKERS
    tf.profiler.write_op_log(graph, str(tmp_path), run_meta=step())
    log = tf.profiler.OpLogProto.FromString((tmp_path / "tfprof_log").read_bytes())
    assert any(entry.float_ops for entry in log.log_entries)
    trained = [e.name for e in log.log_entries if "_trainable_variables" in e.types]
    assert trained == ["net/first", "net/second"]


def test_a_function_of_tensorflow_2(tensorflow, prepared):
    profiler = tensorflow.compat.v1.profiler
    weights = tensorflow.Variable(tensorflow.ones([64, 8]))

    @tensorflow.function
    def step(x):
        return tensorflow.reduce_sum(tensorflow.matmul(x, weights))

    x = tensorflow.ones([16, 64])
    metadata = RunMetadata()
    stepscope.run(step, x, options=FULL, run_metadata=metadata)
    graph = step.get_concrete_function(x).graph
    builder = profiler.ProfileOptionBuilder
    quiet = builder(builder.time_and_memory()).with_empty_output().build()
    with graph.as_default():
        found = profiler.profile(graph, run_meta=metadata, cmd="op", options=quiet)
    assert found.total_float_ops >= 2 * 16 * 64 * 8
    assert found.total_exec_micros > 0
