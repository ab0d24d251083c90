"""`stepscope.Recorder` on TensorFlow: functions, sessions, Keras, gradient tapes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import stepscope
from stepscope.adapters.tensorflow.script.budgeted import Budgeted
from stepscope.analysis.program.run_kinds import RunKinds
from stepscope.analysis.runs import NamedRun
from stepscope.metadata import iter_runs
from stepscope.metadata.stored.step_summaries import Level

v1 = tf.compat.v1


def kinds(recorder: stepscope.Recorder) -> dict[str, int]:
    return {summary.kind: summary.runs for summary in recorder.summary().summaries}


@pytest.fixture
def square():
    @tf.function
    def square(x):
        return tf.debugging.check_numerics(tf.math.reciprocal(x) * x, "not a number")

    return square


def test_calls_of_functions_are_counted_and_some_are_kept_with_their_ops(tmp_path, square):
    with stepscope.Recorder(tmp_path, budget="off") as recorder:
        for _ in range(60):
            square(tf.ones([3]))
    assert kinds(recorder) == {"square": 60}
    runs = stepscope.load(recorder.file)
    assert len(runs) == len(recorder.summary().kept) < 60
    assert all("Reciprocal" in run.ops.op for run in runs)
    assert recorder.problem is None
    assert list(tmp_path.iterdir()) == [recorder.file]


def test_a_second_recorder_sees_what_comes_then(tmp_path, square):
    for folder in ("first", "second"):
        with stepscope.Recorder(tmp_path / folder) as recorder:
            square(tf.ones([3]))
        square(tf.ones([3]))
        assert kinds(recorder) == {"square": 1}


def test_a_call_that_fails_is_kept_and_one_inside_a_lull_is_counted(tmp_path, square):
    with stepscope.Recorder(tmp_path, budget="0.001%") as recorder:
        for _ in range(200):
            square(tf.ones([3]))
        with pytest.raises(tf.errors.InvalidArgumentError):
            square(tf.zeros([3]))
    assert kinds(recorder) == {"square": 201}
    (failed,) = [kept for kept in recorder.summary().kept if "failed" in kept.reasons]
    assert (failed.number, failed.level) == (201, Level.LENGTH)
    assert "ended with INVALID_ARGUMENT" in failed.why


def test_runs_of_a_session_are_judged_by_what_they_fetch(tmp_path):
    with stepscope.Recorder(tmp_path, budget="off") as recorder, tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2], name="x")
        doubled = tf.multiply(x, 2.0, name="doubled")
        total = tf.reduce_sum(doubled, name="total")
        with v1.Session() as session:
            for _ in range(5):
                session.run(total, {x: [1, 2]})
            session.run([doubled, total], {x: [1, 2]})
            session.make_callable(total, [x])([1, 2])
    assert kinds(recorder) == {
        "Session.run(total)": 5, "Session.run(doubled, total)": 1, "Session callable": 1,
    }  # fmt: skip
    assert all("Sum" in run.ops.op for run in stepscope.load(recorder.file))


def test_a_lull_holds_for_a_session_whose_options_ask_for_nothing(tmp_path, monkeypatch):
    # As a MonitoredSession gives them in every step.
    decided = []
    begins = Budgeted.begins
    monkeypatch.setattr(
        Budgeted, "begins", lambda self, kind: (decided.append(kind), begins(self, kind))[1]
    )
    with stepscope.Recorder(tmp_path, budget="0.001%") as recorder, tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2], name="x")
        total = tf.reduce_sum(x, name="total")
        with v1.Session() as session:
            for _ in range(400):
                assert session.run(total, {x: [1, 2]}, options=v1.RunOptions()) == 3
    assert kinds(recorder) == {"Session.run(total)": 400}, "each of them was counted"
    assert 0 < len(decided) < 200, "most of them without a decision"


def test_runs_of_one_set_of_fetches_have_one_name_also_when_read_back(tmp_path):
    with stepscope.Recorder(tmp_path, budget="off") as recorder, tf.Graph().as_default():
        variable = v1.get_variable("v", initializer=1.0)
        up = tf.raw_ops.AssignAddVariableOp(resource=variable.handle, value=1.0, name="up")
        mean = tf.multiply(variable, 2.0, name="a/mean")
        with v1.Session() as session:
            session.run(variable.initializer)
            session.run([mean, up, variable])
            session.run({"x": variable, "y": [up, mean]})
            session.run(["a/mean:0", variable, "up"])
    name = "Session.run(up, a/mean, v/Read/ReadVariableOp)"
    assert kinds(recorder) == {"Session.run(v/Assign)": 1, name: 3}
    naming = RunKinds()
    read = [naming.of(NamedRun(*named)) for named in iter_runs(recorder.file)]
    assert read == ["Session.run(v/Assign)", name, name, name]


def test_steps_of_keras_are_seen_and_the_end_of_the_data_is_no_failure(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Input([4]), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    x, y = np.ones([32, 4], np.float32), np.ones([32, 2], np.float32)
    with stepscope.Recorder(tmp_path) as recorder:
        model.fit(x, y, batch_size=8, epochs=3, verbose=0)
    found = recorder.summary()
    steps = {summary.kind: summary for summary in found.summaries}
    assert steps["train_step"].runs >= 12
    assert not any("failed" in kept.reasons for kept in found.kept)


def test_a_gradient_tape_and_what_follows_it_is_a_step(tmp_path):
    weight = tf.Variable(tf.ones([4, 4]))
    with stepscope.Recorder(tmp_path, budget="0.1%") as recorder:
        for _ in range(30):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(weight, weight))
            weight.assign_sub(0.01 * tape.gradient(loss, weight))
    assert kinds(recorder) == {"gradient tape": 30}
    first = next(run for run in stepscope.load(recorder.file) if len(run.ops))
    assert "MatMul" in first.ops.op


def test_a_function_that_is_traced_again_keeps_what_was_before(tmp_path, square):
    with stepscope.Recorder(tmp_path, budget="off") as recorder:
        square(tf.ones([3]))
        square(tf.ones([4]))
    (why, _) = recorder.summary().triggered[0]
    assert why.startswith("square was traced again, called at ")
    assert __file__ in why


def test_memory_over_a_bound_triggers(tmp_path, square):
    with stepscope.Recorder(tmp_path, budget="off", triggers=["memory 1 MB"]) as recorder:
        square(tf.ones([3]))
        square(tf.ones([1 << 20]))
    found = [kept for kept in recorder.summary().kept if "trigger" in kept.reasons]
    assert [kept.number for kept in found] == [2]
    assert found[0].why.startswith("held ")


def test_a_run_that_the_program_has_traced_itself_is_kept(tmp_path):
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    with stepscope.Recorder(tmp_path) as recorder, tf.Graph().as_default():
        total = tf.reduce_sum(tf.ones([3]), name="total")
        with v1.Session() as session:
            metadata = v1.RunMetadata()
            session.run(total, options=options, run_metadata=metadata)
    assert metadata.step_stats.dev_stats
    (kept,) = recorder.summary().kept
    assert "asked" in kept.reasons


def test_a_keras_callback_records_the_loop_within_the_budget(tmp_path):
    from stepscope.adapters.tensorflow.keras import TraceCallback

    model = tf.keras.Sequential([tf.keras.layers.Input([4]), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    recorder = stepscope.Recorder(tmp_path)
    model.fit(
        np.ones([32, 4], np.float32), np.ones([32, 2], np.float32), batch_size=8, verbose=0,
        callbacks=[TraceCallback(recorder=recorder)],
    )  # fmt: skip
    assert not recorder.is_open
    assert kinds(recorder)["train_step"] >= 4


def test_a_hook_records_a_monitored_session_within_the_budget(tmp_path):
    recorder = stepscope.Recorder(tmp_path)
    with tf.Graph().as_default():
        total = tf.reduce_sum(tf.ones([3]), name="total")
        hook = stepscope.TraceHook(recorder=recorder)
        with v1.train.MonitoredSession(hooks=[hook]) as session:
            assert recorder.is_open
            for _ in range(7):
                session.run(total)
    assert not recorder.is_open
    assert kinds(recorder)["Session.run(total)"] == 7


def test_the_program_can_profile_itself_meanwhile_and_afterwards(tmp_path, square):
    def profiled(folder):
        with tf.profiler.experimental.Profile(str(tmp_path / folder)):
            square(tf.ones([3]))
        return list((tmp_path / folder).rglob("*.xplane.pb"))

    with stepscope.Recorder(tmp_path / "recorded") as recorder:
        assert len(profiled("meanwhile")) == 1
        square(tf.ones([3]))
    assert len(profiled("afterwards")) == 1
    assert kinds(recorder)["square"] >= 1


def test_what_is_done_around_runs_in_lulls_is_timed_and_charged(tmp_path, square):
    with stepscope.Recorder(tmp_path, budget="0.001%") as recorder:
        with tf.Graph().as_default():
            total = tf.reduce_sum(tf.ones([3]))
            with v1.Session() as session:
                for _ in range(50):
                    session.run(total)
        for _ in range(50):
            square(tf.ones([3]))
        weight = tf.Variable(1.0)
        for _ in range(50):
            with tf.GradientTape() as tape:
                loss = weight * weight
            tape.gradient(loss, weight)
        lanes = recorder._runs._lanes
        for kind in ("Session.run(Sum)", "square", "gradient tape"):
            least = min(lanes[kind].cost_ns(level, 1e12) for level in (Level.COUNT, Level.LENGTH))
            assert 0 < least < 1e12


def test_a_list_of_fetches_that_changes_is_judged_by_what_is_in_it(tmp_path):
    with stepscope.Recorder(tmp_path, budget="0.001%") as recorder, tf.Graph().as_default():
        total = tf.reduce_sum(tf.ones([3]), name="total")
        mean = tf.reduce_mean(tf.ones([3]), name="mean")
        fetches = [total]
        with v1.Session() as session:
            session.run(fetches)
            fetches[0] = mean
            session.run(fetches)
            for _ in range(3):
                session.run(mean)
    assert kinds(recorder) == {"Session.run(total)": 1, "Session.run(mean)": 4}
