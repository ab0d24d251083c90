"""`tf.contrib.learn` on the embedded engine; TensorFlow 2 has none to compare with."""

import numpy as np
import pytest
from estimator_programs import batches, data
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import stepscope.tf1 as tf1
from stepscope.errors import UnimplementedError

learn = tf1.contrib.learn


def model_fn(features, labels, mode, params):
    w = tf1.get_variable("w", [2, 1], initializer=tf1.zeros_initializer())
    out = tf1.matmul(features, w, name="out")
    loss = train = None
    if mode != learn.ModeKeys.INFER:
        loss = tf1.reduce_mean(tf1.square(out - labels), name="mse")
        optimizer = tf1.train.GradientDescentOptimizer(params["rate"])
        train = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
    return learn.ModelFnOps(mode, {"y": out}, loss, train)


@pytest.fixture
def estimator(graph, tmp_path):
    config = learn.RunConfig(save_checkpoints_steps=5, save_summary_steps=4)
    return learn.Estimator(model_fn, str(tmp_path / "model"), config, {"rate": 0.1})


def absolute(labels, predictions):
    return tf1.metrics.mean_absolute_error(labels, predictions["y"])


def test_fit_evaluate_predict(estimator):
    x, y = data()
    estimator.fit(x, y, steps=20, batch_size=12)
    # Twelve rows at a time: whatever the order, the gradient is that of all of them on average.
    found = estimator.evaluate(x, y, metrics={"absolute": absolute})
    assert found.keys() == {"absolute", "loss", "global_step"}
    assert found["global_step"] == 20
    w = estimator.get_variable_value("w")
    assert found["absolute"] == pytest.approx(np.abs(x @ w - y).mean(), abs=1e-5)
    rows = [row["y"] for row in estimator.predict(x)]
    np.testing.assert_allclose(rows, x @ w, atol=1e-5)
    whole = estimator.predict(x, batch_size=5, as_iterable=False, outputs=["y"])
    np.testing.assert_allclose(whole["y"], x @ w, atol=1e-5)
    assert estimator.get_variable_names() == ["global_step", "w"]


def test_a_model_of_the_first_kind(graph, tmp_path):
    def first(features, targets):
        w = tf1.get_variable("w", initializer=tf1.constant(0.0))
        loss = tf1.reduce_mean(tf1.square(features * w - targets))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
        return features * w, loss, train

    x = np.array([1.0, 2.0], np.float32)
    estimator = learn.Estimator(first, str(tmp_path))
    estimator.fit(x, 3 * x, steps=50, batch_size=2)
    assert estimator.get_variable_value("w") == pytest.approx(3.0, abs=1e-3)


def test_monitors_are_told_of_each_step(estimator):
    class Watch(learn.monitors.BaseMonitor):
        def __init__(self):
            super().__init__()
            self.told = []

        def begin(self, max_steps=None):
            super().begin(max_steps)
            self.told.append("begin")

        def step_begin(self, step):
            super().step_begin(step)
            return ["mse:0"]

        def step_end(self, step, output):
            super().step_end(step, output)
            self.told.append((step, round(float(output["mse:0"]), 4)))
            return step == 3

        def end(self, session=None):
            super().end(session)
            self.told.append("end")

    x, y = data()
    watch = Watch()
    captured = learn.monitors.CaptureVariable("mse:0", every_n=2)
    estimator.fit(input_fn=batches(tf1, x, y), steps=10, monitors=[watch, captured])
    assert watch.told[0] == "begin"
    assert watch.told[-1] == "end"
    assert [step for step, _ in watch.told[1:-1]] == [1, 2, 3]
    assert list(captured.values) == [1, 3]
    estimator.fit(input_fn=batches(tf1, x, y), steps=2, monitors=learn.monitors.StopAtStep(1))
    assert estimator.get_variable_value("global_step") == 4


def test_validation_ends_a_training_that_learns_no_more(graph, tmp_path):
    x, y = data()
    config = learn.RunConfig(save_checkpoints_steps=2)
    estimator = learn.Estimator(model_fn, str(tmp_path), config, {"rate": 0.0})
    monitor = learn.monitors.ValidationMonitor(
        x, y, every_n_steps=2, early_stopping_rounds=4, name="check"
    )
    estimator.fit(x, y, steps=100, batch_size=4, monitors=[monitor])
    assert monitor.early_stopped
    assert monitor.best_step is not None
    assert estimator.get_variable_value("global_step") == monitor.best_step + 4
    assert monitor.best_value == pytest.approx(np.square(y).mean(), abs=1e-4)
    log = EventAccumulator(str(tmp_path / "eval_check")).Reload()
    assert "loss" in log.Tags()["scalars"]


def test_values_are_logged_and_summaries_saved(estimator, said):
    x, y = data()
    tf1.logging.set_verbosity(tf1.logging.INFO)

    def input_fn():
        features, labels = batches(tf1, x, y)()
        tf1.summary.scalar("average", tf1.reduce_mean(features))
        return features, labels

    monitors = [
        learn.monitors.PrintTensor({"loss": "mse:0"}, every_n=2),
        learn.monitors.SummarySaver("average:0", save_steps=3),
        learn.monitors.NanLoss("mse:0"),
    ]
    estimator.fit(input_fn=input_fn, steps=5, monitors=monitors)
    lines = [text for _, text in said if text.startswith("Step ")]
    assert [line.partition(":")[0] for line in lines] == ["Step 1", "Step 3", "Step 5"]
    writer = learn.SummaryWriterCache.get(estimator.model_dir)
    assert writer is tf1.summary.FileWriterCache.get(estimator.model_dir)
    log = EventAccumulator(estimator.model_dir).Reload()
    steps = [event.step for event in log.Scalars("average")]
    assert sorted(steps) == [1, 1, 4, 5]  # the monitor's, and the Estimator's own every four steps


def test_run_metadata_in_its_own_event_file(graph, tmp_path):
    x, y = data()
    config = learn.RunConfig(save_run_metadata_steps=2, model_dir=str(tmp_path))
    learn.Estimator(model_fn, config=config, params={"rate": 0.1}).fit(x, y, steps=5)
    (file,) = tmp_path.glob("events*")
    log = EventAccumulator(str(file)).Reload()
    assert log.Tags()["run_metadata"] == ["step_0", "step_2", "step_4"]
    assert log.Tags()["graph"]
    assert "loss" in log.Tags()["scalars"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Either x or input_fn"),
        ({"x": data()[0], "input_fn": data}, "both input_fn and x"),
        ({"x": data()[0], "y": data()[1], "steps": 1, "monitors": [1]}, "must be BaseMonitor"),
    ],
)
def test_what_is_refused(estimator, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit(**arguments)


def test_what_is_not_here_says_what_to_do(estimator):
    with pytest.raises(UnimplementedError, match=r"Stepscope.*checkpoints"):
        estimator.export("there")
    with pytest.raises(UnimplementedError, match=r"Stepscope.*in this process alone"):
        learn.RunConfig(master="grpc://there")
    with pytest.raises(AttributeError, match=r"Stepscope.*train_and_evaluate"):
        _ = learn.Experiment
