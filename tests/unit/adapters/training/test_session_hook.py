"""The session hook, in real monitored sessions; its event files as TensorBoard reads them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from event_files import read, run_metadata

import stepscope
from stepscope.errors import InvalidArgumentError
from stepscope.scheduling import Action, every, parse_steps, schedule


@pytest.fixture(scope="module")
def TraceHook(tensorflow):
    from stepscope.adapters.tensorflow.training.session_hook import TraceHook

    return TraceHook


@pytest.fixture
def loop(tf):
    """A training graph whose train op moves the global step: (graph, train, loss, step)."""
    with tf.Graph().as_default() as graph:
        step = tf.train.get_or_create_global_step()
        x = tf.constant(np.ones((4, 3), np.float32), name="x")
        w = tf.get_variable("w", [3, 2], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w, name="product")), name="loss")
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
        yield graph, train, loss, step


def run_steps(tf, hooks, train, count, **arguments):
    arguments = {"save_summaries_steps": None, "log_step_count_steps": None} | arguments
    with tf.train.MonitoredTrainingSession(hooks=hooks, **arguments) as session:
        return [session.run(train) for _ in range(count)]


def numbers(hook):
    return [step for step, _, _ in hook.steps]


def test_scheduled_steps_are_recorded(TraceHook, tf, loop):
    _, train, _, _ = loop
    hook = TraceHook(schedule(wait=2, active=2, repeat=1))
    run_steps(tf, [hook], train, 6)
    assert [(step, tag) for step, tag, _ in hook.steps] == [(2, "step_2"), (3, "step_3")]
    for _, _, metadata in hook.steps:
        assert metadata.engine == "tensorflow session"
        assert metadata.status.code == "OK"
        names = list(metadata.ops.name)
        assert names.count("product") == 1
        assert any("GradientDescent" in name for name in names)
        assert (metadata.ops.end_ns >= metadata.ops.start_ns).all()
        assert metadata.ops.thread.min() > 0  # through the profiler, which knows threads


def test_steps_begin_at_the_global_step_of_the_checkpoint(TraceHook, tf, loop, tmp_path):
    _, train, _, _ = loop
    run_steps(tf, [], train, 5, checkpoint_dir=str(tmp_path))
    hook = TraceHook("1,6:8")
    run_steps(tf, [hook], train, 5, checkpoint_dir=str(tmp_path))
    assert numbers(hook) == [6, 7]


def test_two_runs_at_one_step_are_told_apart(TraceHook, tf, loop, tmp_path):
    _, train, loss, _ = loop
    hook = TraceHook("1", logdir=tmp_path)
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for _ in range(3):
            session.run(loss)
            session.run(train)
    found = read(tmp_path)
    assert found.Tags()["run_metadata"] == ["step_1", "step_1_2"]
    train_names = set(run_metadata(found, "step_1_2").ops.name)
    loss_names = set(run_metadata(found, "step_1").ops.name)
    assert any("GradientDescent" in name for name in train_names)
    assert not any("GradientDescent" in name for name in loss_names)


def test_a_graph_without_global_step_has_its_runs_counted(TraceHook, tf):
    with tf.Graph().as_default():
        y = tf.square(tf.constant([1.0, 2.0]), name="y")
        hook = TraceHook("1:3")
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            values = [session.run(y).tolist() for _ in range(5)]
    assert numbers(hook) == [1, 2]
    assert values == [[1.0, 4.0]] * 5


@pytest.mark.parametrize("resource", [True, False])
def test_a_global_step_that_nothing_moves_is_not_counted_by(TraceHook, tf, tmp_path, resource):
    """As in evaluation: the step is restored and stays what it is."""
    previous = tf.resource_variables_enabled()
    (tf.enable_resource_variables if resource else tf.disable_resource_variables)()
    try:
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            run_steps(tf, [], tf.assign_add(step, 1), 7, checkpoint_dir=str(tmp_path))
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            hook = TraceHook("1:3")
            creator = tf.train.ChiefSessionCreator(checkpoint_dir=str(tmp_path))
            with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
                values = [int(session.run(step)) for _ in range(4)]
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            moved = TraceHook("8")
            run_steps(tf, [moved], tf.assign(step, step + 1), 3, checkpoint_dir=str(tmp_path))
    finally:
        (tf.enable_resource_variables if previous else tf.disable_resource_variables)()
    assert values == [7] * 4
    assert numbers(hook) == [1, 2]
    assert numbers(moved) == [8]


def test_steps_that_others_made_are_not_missed(TraceHook, tf):
    with tf.Graph().as_default():
        jump = tf.assign_add(tf.train.get_or_create_global_step(), 7)
        hook = TraceHook(every(10))
        run_steps(tf, [hook], jump, 6)
    assert numbers(hook) == [0, 14, 21, 35]  # the first runs from 10, 20 and 30 on


def test_event_file_holds_graph_and_tagged_steps(TraceHook, tf, loop, tmp_path):
    graph, train, _, _ = loop
    hook = TraceHook("1:3", logdir=tmp_path)
    run_steps(tf, [hook], train, 4)
    assert hook.event_file.name.endswith(".stepscope")
    found = read(tmp_path)
    assert found.Tags()["run_metadata"] == ["step_1", "step_2"]
    stats = found.RunMetadata("step_2").step_stats
    assert "product" in [node.node_name for device in stats.dev_stats for node in device.node_stats]
    assert {n.name for n in found.Graph().node} == {n.name for n in graph.as_graph_def().node}
    assert hook.steps == []
    assert hook.last.tag == "step_2"


def test_files_lie_beside_those_of_the_session_itself(TraceHook, tf, loop, tmp_path):
    _, train, loss, _ = loop
    tf.summary.scalar("loss_curve", loss)
    hook = TraceHook("2", logdir=tmp_path)
    run_steps(tf, [hook], train, 4, checkpoint_dir=str(tmp_path), save_summaries_steps=1)
    files = [path for path in tmp_path.iterdir() if "tfevents" in path.name]
    assert len(files) == 2
    found = read(tmp_path)
    assert found.Tags()["run_metadata"] == ["step_2"]
    assert len(found.Scalars("loss_curve")) == 4


def test_only_the_run_itself_is_recorded(TraceHook, tf, loop):
    """Other hooks run things of their own before and after, inside the same call."""
    _, train, _, _ = loop
    other = tf.constant(3.0, name="of_another_hook") * 2.0

    class Busy(tf.train.SessionRunHook):
        def before_run(self, run_context):
            run_context.session.run(other)

        def after_run(self, run_context, run_values):
            run_context.session.run(other)

    hook = TraceHook("1")
    run_steps(tf, [Busy(), hook, Busy()], train, 3)
    ((_, _, metadata),) = hook.steps
    assert not [name for name in metadata.ops.name if name.startswith(("of_another", "mul"))]
    assert list(metadata.ops.name).count("product") == 1


def test_other_hooks_and_the_caller_get_what_they_asked_for(TraceHook, tf, loop):
    _, train, loss, _ = loop
    x2 = tf.placeholder_with_default(1.0, [], name="fed")
    shown = tf.identity(x2 * 2.0, name="shown")
    seen = []

    class Other(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(
                fetches={"shown": shown, "loss": loss},
                feed_dict={x2: 5.0},
                options=tf.RunOptions(output_partition_graphs=True),
            )

        def after_run(self, run_context, run_values):
            seen.append((run_values.results, run_values.run_metadata))

    hook = TraceHook("1")
    mine = tf.RunMetadata()
    with tf.train.MonitoredTrainingSession(hooks=[hook, Other()]) as session:
        for _ in range(3):
            result = session.run({"nested": [train, (loss,)]}, run_metadata=mine)
            assert result["nested"][0] is None
            assert isinstance(result["nested"][1], tuple)
    assert numbers(hook) == [1]
    assert [float(results["shown"]) for results, _ in seen] == [10.0] * 3
    assert [len(metadata.partition_graphs) for _, metadata in seen] == [1, 1, 1]
    assert not any(metadata.HasField("step_stats") for _, metadata in seen)
    assert len(mine.partition_graphs) == 1


@pytest.mark.parametrize("level", ["SOFTWARE_TRACE", "FULL_TRACE"])
def test_who_asks_for_step_stats_gets_them_and_so_do_we(TraceHook, tf, loop, level):
    _, train, _, _ = loop
    theirs = tf.RunMetadata()
    hook = TraceHook("1")
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        session.run(train)
        options = tf.RunOptions(trace_level=getattr(tf.RunOptions, level))
        session.run(train, options=options, run_metadata=theirs)
    native = [n.node_name for d in theirs.step_stats.dev_stats for n in d.node_stats]
    assert "product" in native
    ((_, _, metadata),) = hook.steps
    assert sorted(metadata.ops.name) == sorted(native)
    assert metadata.engine == "tensorflow session"
    assert [loss.what for loss in metadata.completeness.losses] == ["threads"]


def test_tensorflows_own_profiler_hook_works_beside_it(TraceHook, tf, loop, tmp_path):
    _, train, _, _ = loop
    theirs = tf.train.ProfilerHook(save_steps=1, output_dir=str(tmp_path))
    hook = TraceHook(every(1))
    run_steps(tf, [hook, theirs], train, 3)
    assert numbers(hook) == [0, 1, 2]
    assert all("product" in metadata.ops.name for _, _, metadata in hook.steps)
    assert len(list(tmp_path.glob("timeline-*.json"))) >= 2


def test_where_the_program_profiles_itself_step_stats_are_taken(
    TraceHook, tensorflow, tf, loop, tmp_path
):
    _, train, _, _ = loop
    hook = TraceHook("1")
    tensorflow.profiler.experimental.start(str(tmp_path))
    try:
        run_steps(tf, [hook], train, 2)
    finally:
        tensorflow.profiler.experimental.stop(save=False)
    ((_, _, metadata),) = hook.steps
    assert "product" in metadata.ops.name


def test_the_session_of_a_cluster_sends_its_step_stats(TraceHook, tf, loop, tmp_path):
    _, train, _, _ = loop
    server = tf.train.Server.create_local_server()
    hook = TraceHook("1:3", logdir=tmp_path)
    run_steps(tf, [hook], train, 4, master=server.target)
    found = read(tmp_path)
    assert found.Tags()["run_metadata"] == ["step_1", "step_2"]
    metadata = run_metadata(found, "step_2")
    assert "product" in metadata.ops.name
    assert metadata.engine == "tensorflow cluster"
    found = {loss.what for loss in metadata.completeness.losses}
    assert found == {"threads", "sends", "trace_level"}  # the hook asks for SOFTWARE_TRACE
    assert len(metadata.partition_graphs) == 0


def test_two_hooks_share_a_step(TraceHook, tf, loop):
    _, train, _, _ = loop
    coarse = TraceHook(every(2))
    full = TraceHook("2", options=stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE))
    run_steps(tf, [coarse, full], train, 5)
    assert numbers(coarse) == [0, 2, 4]
    assert numbers(full) == [2]
    assert full.last.metadata is coarse.steps[1].metadata
    ops = full.last.metadata.ops
    assert ops.output_bytes[list(ops.name).index("product")] == 4 * 2 * 4


def test_a_warm_up_is_thrown_away(TraceHook, tf, loop):
    _, train, _, _ = loop
    hook = TraceHook(schedule(warmup=2, active=1, repeat=1))
    run_steps(tf, [hook], train, 5)
    assert numbers(hook) == [2]


def test_unscheduled_runs_get_no_options_and_the_session_its_own_run(TraceHook, tf, loop):
    _, train, _, _ = loop
    seen = []

    class Looks(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append((run_values.options.ByteSize(), "run" in vars(run_context.session)))

    run_steps(tf, [TraceHook(every(2)), Looks()], train, 4)
    assert seen[1] == seen[3] == (0, False)
    assert [stood_in for _, stood_in in seen] == [False] * 4


@pytest.fixture
def failing(tf):
    """A loop that fails when the step before the run is 2, at a node with others before it."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        before = tf.sqrt(tf.cast(step, tf.float32) + 4.0, name="before")
        check = tf.debugging.Assert(before < 2.4, [before], name="check")
        with tf.control_dependencies([check]):
            move = tf.assign_add(step, 1)
        yield move


def test_a_step_that_fails_is_written_with_all_before_it(
    TraceHook, tensorflow, tf, failing, tmp_path
):
    hook = TraceHook(every(1), logdir=tmp_path)
    with pytest.raises(tensorflow.errors.InvalidArgumentError) as caught:
        run_steps(tf, [hook], failing, 5)
    assert isinstance(caught.value, InvalidArgumentError)
    assert caught.value.run_metadata.status.code == "INVALID_ARGUMENT"
    found = read(tmp_path)
    assert found.Tags()["run_metadata"] == ["step_0", "step_1", "step_2"]
    last = run_metadata(found, "step_2")
    assert last.status.code == "INVALID_ARGUMENT"
    assert last.status.in_flight == ["Assert"]  # inside the branch of a condition of its own
    assert "before" in last.ops.name
    assert run_metadata(found, "step_1").status.code == "OK"


@pytest.mark.parametrize("cluster", [True, False])
def test_a_failure_under_tensorflows_own_tracing_is_kept_too(
    TraceHook, tensorflow, tf, failing, cluster
):
    hook = TraceHook("2")
    arguments = {"master": tf.train.Server.create_local_server().target} if cluster else {}
    options = None if cluster else tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)

    def train():
        with tf.train.MonitoredTrainingSession(hooks=[hook], **arguments) as session:
            for _ in range(4):
                session.run(failing, options=options)

    with pytest.raises(tensorflow.errors.InvalidArgumentError) as caught:
        train()
    ((step, _, metadata),) = hook.steps
    assert step == 2
    assert metadata.status.code == "INVALID_ARGUMENT"
    assert caught.value.run_metadata is metadata
    losses = [loss.what for loss in metadata.completeness.losses]
    assert losses == ["op executions", *(["trace_level"] if cluster else [])]


def test_after_a_failure_the_profiler_is_free(TraceHook, tensorflow, tf, failing, tmp_path):
    with pytest.raises(tensorflow.errors.InvalidArgumentError):
        run_steps(tf, [TraceHook(every(1))], failing, 5)
    tensorflow.profiler.experimental.start(str(tmp_path))
    tensorflow.profiler.experimental.stop(save=False)


def test_the_end_of_the_data_is_no_step(TraceHook, tf):
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(3)
        value = tf.data.make_one_shot_iterator(dataset).get_next() * 2
        hook = TraceHook(every(1))
        got = []
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                got.append(int(session.run(value)))
    assert got == [0, 2, 4]
    assert numbers(hook) == [0, 1, 2]


def test_a_hook_serves_one_session_after_another(TraceHook, tf):
    hook = TraceHook("1")
    for _ in range(2):
        with tf.Graph().as_default():
            y = tf.square(tf.constant(3.0), name="y")
            with tf.train.MonitoredSession(hooks=[hook]) as session:
                for _ in range(3):
                    session.run(y)
    assert [tag for _, tag, _ in hook.steps] == ["step_1", "step_1_2"]


def test_queue_runners_run_on_beside_it(TraceHook, tf):
    with tf.Graph().as_default():
        queue = tf.queue.FIFOQueue(4, tf.float32, shapes=[[]])
        enqueue = queue.enqueue(tf.constant(1.5))
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue] * 2))
        value = tf.multiply(queue.dequeue(), 2.0, name="value")
        hook = TraceHook(every(1))
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            values = {float(session.run(value)) for _ in range(20)}
    assert values == {3.0}
    assert len(hook.steps) == 20
    assert all(list(m.ops.name).count("value") == 1 for _, _, m in hook.steps)


def test_options_of_ours_and_of_tensorflow(TraceHook, tf, loop):
    _, train, _, _ = loop
    theirs = TraceHook(
        "1",
        options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True),
    )
    run_steps(tf, [theirs], train, 2)
    metadata = theirs.last.metadata
    assert len(metadata.partition_graphs) == 1
    assert "product" in {node.name for node in metadata.partition_graphs[0].node}
    ops = metadata.ops
    assert ops.output_bytes[list(ops.name).index("product")] == 4 * 2 * 4


def test_the_function_gets_each_recorded_step_on_the_thread_of_the_run(TraceHook, tf, loop):
    _, train, _, _ = loop
    seen = []

    def note(step, metadata):
        seen.append((step, len(metadata.ops) > 0, threading.get_ident()))

    run_steps(tf, [TraceHook(lambda step: step in (0, 3), callback=note)], train, 5)
    assert seen == [(0, True, threading.get_ident()), (3, True, threading.get_ident())]


def test_an_ended_schedule_is_asked_no_more(TraceHook, tf, loop):
    _, train, _, _ = loop
    asked = []

    class Counted(type(schedule())):
        __slots__ = ()

        def __call__(self, step):
            asked.append(step)
            return super().__call__(step)

    hook = TraceHook(Counted(wait=1, warmup=0, active=1, repeat=1, skip_first=0))
    run_steps(tf, [hook], train, 2)
    assert numbers(hook) == [1]
    asked.clear()
    run_steps(tf, [hook], train, 60)
    assert numbers(hook) == [1, 1]
    assert max(asked) < 20


@pytest.mark.parametrize("text", ["0,17,40:43,99", "::7", "64"])
def test_the_steps_named_are_met_exactly_in_long_loops(TraceHook, tf, text):
    """The global step is not read before every run; that does not show."""
    recorded = []
    with tf.Graph().as_default():
        move = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        hook = TraceHook(text, callback=lambda step, metadata: recorded.append(step))
        values = run_steps(tf, [hook], move, 105)
    plan = parse_steps(text)
    assert values == list(range(1, 106))
    assert recorded == [step for step in range(105) if plan(step) is Action.RECORD]


ESTIMATOR = """
import json, sys
import numpy as np
import tensorflow as tf
from stepscope.adapters.tensorflow.training.session_hook import TraceHook
from stepscope.scheduling import every

v1, folder = tf.compat.v1, sys.argv[1]

def model(features, labels, mode):
    w = v1.get_variable("w", [3, 1])
    product = tf.matmul(features, w, name="product")
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions=product)
    loss = tf.reduce_mean(tf.square(product - labels))
    v1.summary.scalar("loss_curve", loss)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train if mode == "train" else None)

def data():
    x, y = np.ones((40, 3), np.float32), np.ones((40, 1), np.float32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)

estimator = tf.estimator.Estimator(model, model_dir=folder)
training = TraceHook("3:5,12", logdir=folder)
estimator.train(data, hooks=[training])
estimator.train(data, hooks=[training])
evaluation = TraceHook("1:3", logdir=folder + "/eval")
estimator.evaluate(data, hooks=[evaluation])
prediction = TraceHook(every(4))
list(estimator.predict(data, hooks=[prediction], yield_single_examples=False))
print(json.dumps({
    "predicted": [step for step, _, _ in prediction.steps],
    "product": ["product" in list(m.ops.name) for _, _, m in prediction.steps],
}))
"""


def test_estimator_trains_evaluates_and_predicts_with_it(tmp_path):
    """Runs with the Python named by STEPSCOPE_ESTIMATOR_PYTHON, or this one if it has Estimator."""
    python = os.environ.get("STEPSCOPE_ESTIMATOR_PYTHON")
    if python is None:
        if importlib.util.find_spec("tensorflow_estimator") is None:
            pytest.skip("needs a TensorFlow with Estimator (2.15 is the last)")
        python = sys.executable
    environment = os.environ | {"PYTHONPATH": str(Path(stepscope.__file__).parents[1])}
    found = subprocess.run(
        [python, "-c", ESTIMATOR, str(tmp_path)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-3000:]
    report = json.loads(found.stdout.splitlines()[-1])
    assert report == {"predicted": [0, 4, 8], "product": [True, True, True]}
    training = read(tmp_path)
    assert training.Tags()["run_metadata"] == ["step_3", "step_4", "step_12"]
    assert "product" in run_metadata(training, "step_12").ops.name
    assert "product" in {node.name for node in training.Graph().node}
    assert len(training.Scalars("loss_curve")) >= 2
    assert read(tmp_path / "eval").Tags()["run_metadata"] == ["step_1", "step_2"]


def test_a_monitored_session_over_ours_ends_with_its_data(tf, TraceHook):
    """It knows the end of the data by the class of an error, which is TensorFlow's and ours."""
    from stepscope.adapters.tensorflow import Session

    with tf.Graph().as_default() as graph:
        data = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()

        class Ours(tf.train.SessionCreator):
            def create_session(self):
                return Session(graph=graph)

        hook, found = TraceHook("1:2"), []
        with tf.train.MonitoredSession(Ours(), hooks=[hook]) as session:
            while True:
                found.append(int(session.run(data)))
    assert found == [0, 1, 2]
    assert session.should_stop()
    assert [step.step for step in hook.steps] == [1]
    assert "IteratorGetNext" in list(hook.last.metadata.ops.op)


def test_the_class_of_both_is_taken_for_tensorflow_s(tensorflow):
    from stepscope.adapters.tensorflow.failures import new_error

    kind = type(new_error("OutOfRangeError", "no more"))
    assert kind in [tensorflow.errors.OutOfRangeError, StopIteration]
    assert kind not in [tensorflow.errors.InvalidArgumentError]
    assert {kind: 1}[tensorflow.errors.OutOfRangeError] == 1
    assert issubclass(kind, stepscope.errors.OutOfRangeError)
