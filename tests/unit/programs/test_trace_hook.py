"""`TraceHook` in monitored sessions of the embedded engine, and what TensorBoard reads of it."""

import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import stepscope
import stepscope.tf1 as tf1
from stepscope.programs.trace_hook import TraceHook
from stepscope.scheduling import every, schedule


@pytest.fixture
def train(graph):
    """A train op that moves the global step."""
    step = tf1.train.get_or_create_global_step()
    x = tf1.constant(np.ones((4, 3), np.float32), name="x")
    w = tf1.get_variable("w", [3, 2], initializer=tf1.ones_initializer())
    loss = tf1.reduce_mean(tf1.square(tf1.matmul(x, w, name="product")), name="loss")
    return tf1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)


def run_steps(hooks, op, count, **arguments):
    arguments = {"save_summaries_steps": None, "log_step_count_steps": None} | arguments
    with tf1.train.MonitoredTrainingSession(hooks=hooks, **arguments) as session:
        return [session.run(op) for _ in range(count)]


def test_scheduled_steps_are_recorded(train):
    hook = TraceHook(schedule(wait=2, active=2, repeat=1))
    run_steps([hook], train, 6)
    assert [(step, tag) for step, tag, _ in hook.steps] == [(2, "step_2"), (3, "step_3")]
    for _, _, metadata in hook.steps:
        assert metadata.engine == "embedded"
        assert list(metadata.ops.name).count("product") == 1


def test_the_first_and_warmup(train):
    hook = TraceHook(schedule(warmup=1, active=1, repeat=1))
    run_steps([hook], train, 3)
    assert [step for step, _, _ in hook.steps] == [1]


def test_steps_go_on_from_the_checkpoint(train, tmp_path):
    run_steps([], train, 5, checkpoint_dir=str(tmp_path))
    hook = TraceHook("1,6:8")
    run_steps([hook], train, 5, checkpoint_dir=str(tmp_path))
    assert [step for step, _, _ in hook.steps] == [6, 7]


def test_a_graph_that_counts_no_steps_has_its_runs_counted(graph):
    y = tf1.square(tf1.constant([1.0, 2.0]), name="y")
    hook = TraceHook("1:3")
    with tf1.train.MonitoredSession(hooks=[hook]) as session:
        values = [session.run(y).tolist() for _ in range(5)]
    assert [step for step, _, _ in hook.steps] == [1, 2]
    assert values == [[1.0, 4.0]] * 5


def test_a_global_step_that_nothing_moves_is_not_counted_by(train, tmp_path):
    run_steps([], train, 4, checkpoint_dir=str(tmp_path))
    with tf1.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        hook = TraceHook("1:3")
        creator = tf1.train.ChiefSessionCreator(checkpoint_dir=str(tmp_path))
        with tf1.train.MonitoredSession(creator, hooks=[hook]) as session:
            assert [int(session.run(step)) for _ in range(4)] == [4] * 4
    assert [step for step, _, _ in hook.steps] == [1, 2]


def test_the_event_file_has_graph_and_steps(train, tmp_path):
    hook = TraceHook(every(2), logdir=tmp_path)
    run_steps([hook], train, 4)
    log = EventAccumulator(str(tmp_path)).Reload()
    assert log.Tags()["run_metadata"] == ["step_0", "step_2"]
    assert "product" in {node.name for node in log.Graph().node}
    assert hook.event_file.name.endswith(".stepscope")
    assert hook.steps == []


def test_other_hooks_keep_what_they_asked_for(train):
    class Asks(tf1.train.SessionRunHook):
        seen = []

        def before_run(self, run_context):
            return tf1.train.SessionRunArgs("loss:0", {"x:0": np.zeros((4, 3))})

        def after_run(self, run_context, run_values):
            self.seen.append(float(run_values.results))

    hook, asks = TraceHook("0"), Asks()
    run_steps([asks, hook], train, 2)
    assert asks.seen == [0.0, 0.0]
    assert len(hook.steps) == 1


def test_a_run_that_fails_carries_its_metadata(graph):
    x = tf1.placeholder(tf1.float32, [2])
    y = tf1.check_numerics(x, "bad", name="y")
    hook = TraceHook("0:")
    with (
        pytest.raises(stepscope.errors.InvalidArgumentError) as failed,
        tf1.train.MonitoredSession(hooks=[hook]) as session,
    ):
        session.run(y, {x: [1.0, np.nan]})
    assert failed.value.run_metadata.status.code == "INVALID_ARGUMENT"
    assert hook.steps == []


def test_one_name_for_every_engine():
    """`stepscope.TraceHook` is the embedded engine's where TensorFlow is not what was imported."""
    program = (
        "from stepscope.tf1 import shim\n"
        "shim.install()\n"
        "import tensorflow as tf, stepscope\n"
        "print(isinstance(stepscope.TraceHook('0'), tf.train.SessionRunHook))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.tensorflow
def test_it_is_tensorflows_where_that_was_imported(tf):
    assert isinstance(stepscope.TraceHook("0"), tf.train.SessionRunHook)
