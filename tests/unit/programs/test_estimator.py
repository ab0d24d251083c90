"""`tf.estimator` on the embedded engine, beside TensorFlow 2.15's in the same programs."""

import functools
import json
import threading

import numpy as np
import pytest
from estimator_programs import PROGRAMS, batches, data, layers, linear
from near_values import near
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import stepscope.tf1 as tf1
from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.programs.trace_hook import TraceHook


@pytest.fixture(scope="module")
def facts(data_dir):
    return json.loads((data_dir / "estimator" / "facts.json").read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_on_tensorflow(program, facts, graph, tmp_path):
    ours = program(tf1, str(tmp_path))
    theirs = facts[program.__name__]
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert near(value) == theirs[name], name


# -- run metadata in the Estimator's own event file --------------------------------------------


def test_run_metadata_beside_graph_and_summaries(graph, tmp_path):
    x, y = data()
    config = tf1.estimator.RunConfig(
        model_dir=str(tmp_path), save_run_metadata_steps=3, save_summary_steps=2
    )
    estimator = tf1.estimator.Estimator(layers(tf1), config=config)
    estimator.train(batches(tf1, x, y), steps=7)
    estimator.train(batches(tf1, x, y), steps=4)
    (file,) = tmp_path.glob("events*")
    log = EventAccumulator(str(file), size_guidance={"run_metadata": 0}).Reload()
    tags = log.Tags()
    assert tags["run_metadata"] == ["step_0", "step_3", "step_6", "step_9"]
    assert {"loss", "size", "global_step/sec"} - set(tags["scalars"]) == {"global_step/sec"}
    assert [event.step for event in log.Scalars("loss")] == [1, 3, 5, 7, 8, 10]
    nodes = {node.name for node in log.Graph().node}
    stats = log.RunMetadata("step_6").step_stats
    ran = {node.node_name for device in stats.dev_stats for node in device.node_stats}
    assert {"Tanh", "Adam/update_first/ApplyAdam"} <= ran
    assert ran & nodes >= {"Tanh", "MatMul", "MatMul_1"}
    memory = [n.memory for d in stats.dev_stats for n in d.node_stats if n.node_name == "MatMul"]
    assert memory[0][0].total_bytes > 0  # FULL_TRACE


def test_a_tag_that_is_taken_is_given_a_number(graph, tmp_path):
    """A ProfilerHook counts the step after the run: its step_3 is our step_2."""
    x, y = data()
    config = tf1.estimator.RunConfig(model_dir=str(tmp_path), save_run_metadata_steps=2)
    estimator = tf1.estimator.Estimator(layers(tf1), config=config)
    hook = tf1.train.ProfilerHook(save_steps=2, output_dir=str(tmp_path))
    estimator.train(batches(tf1, x, y), hooks=[hook], steps=5)
    log = EventAccumulator(str(tmp_path)).Reload()
    assert sorted(log.Tags()["run_metadata"]) == [
        "step_0",
        "step_2",
        "step_2_2",
        "step_4",
        "step_4_2",
    ]


@pytest.mark.parametrize("steps", [0, -1, True, "3"])
def test_steps_between_run_metadata_are_a_number(steps):
    with pytest.raises((ValueError, TypeError)):
        tf1.estimator.RunConfig(save_run_metadata_steps=steps)


def test_a_trace_hook_in_all_three_modes(graph, tmp_path):
    x, y = data()
    estimator = tf1.estimator.Estimator(layers(tf1), model_dir=str(tmp_path))
    trained, evaluated, asked = TraceHook("5:7"), TraceHook("0:"), TraceHook("1")
    estimator.train(batches(tf1, x, y), hooks=[trained], steps=8)
    estimator.evaluate(batches(tf1, x, y, 1), hooks=[evaluated])
    list(estimator.predict(batches(tf1, x, epochs=1), hooks=[asked]))
    assert [step for step, _, _ in trained.steps] == [5, 6]
    assert [step for step, _, _ in evaluated.steps] == [0, 1, 2]  # twelve rows, five at a time
    assert [step for step, _, _ in asked.steps] == [1]


# -- what a model and an input may be ----------------------------------------------------------


def test_the_caller_keeps_its_default_graph(graph, tmp_path):
    x, y = data()
    estimator = tf1.estimator.Estimator(layers(tf1), model_dir=str(tmp_path))
    estimator.train(batches(tf1, x, y), steps=1)
    rows = estimator.predict(batches(tf1, x, epochs=1))
    next(rows)
    assert tf1.get_default_graph() is graph
    tf1.constant(1.0)
    rows.close()
    assert [op.type for op in graph.get_operations()] == ["Const"]


def test_arguments_are_passed_by_name(graph, tmp_path):
    seen = {}

    def input_fn(params, mode):
        seen["input"] = (params, mode)
        return tf1.constant([[1.0]])

    def model_fn(features, mode, config, params, extra=None):
        seen["model"] = (mode, params, config.tf_random_seed)
        return tf1.estimator.EstimatorSpec(mode, predictions=features * 2.0)

    config = tf1.estimator.RunConfig(tf_random_seed=7)
    estimator = tf1.estimator.Estimator(
        functools.partial(model_fn, extra=1), str(tmp_path), config, params={"a": 1}
    )
    assert next(estimator.predict(input_fn)).tolist() == [2.0]
    assert seen == {"input": ({"a": 1}, "infer"), "model": ("infer", {"a": 1}, 7)}


def no_features(x, mode):
    return None


def unknown_argument(features, other):
    return None


def no_labels(features, mode):
    return None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda e: e.Estimator(None), "model_fn must be provided"),
        (lambda e: e.Estimator(no_features), "must include features"),
        (lambda e: e.Estimator(unknown_argument), "not expected args: .*other"),
        (lambda e: e.Estimator(no_labels, params={"a": 1}), "does not include params"),
        (lambda e: e.Estimator(no_labels, config=1), "instance of `RunConfig`"),
        (lambda e: e.Estimator(no_labels, "a", e.RunConfig("b")), "different values"),
        (lambda e: e.RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=1), "both set"),
        (lambda e: e.RunConfig().replace(is_chief=False), "Replacing is_chief"),
        (lambda e: e.EstimatorSpec("train"), "Missing loss|Missing train_op"),
        (lambda e: e.EstimatorSpec("infer"), "Missing predictions"),
        (lambda e: e.EstimatorSpec("eval", loss=tf1.zeros([3])), "Loss must be scalar"),
        (lambda e: e.TrainSpec(1), "must be callable"),
        (lambda e: e.EvalSpec(data, steps=0), "steps > 0"),
        (lambda e: e.train_and_evaluate(1, 2, 3), "`estimator` must have type"),
        (lambda e: e.inputs.numpy_input_fn({"x": data()[0]}), "shuffle must be provided"),
        (lambda e: e.inputs.numpy_input_fn({}, shuffle=False)(), "x cannot be empty"),
        (
            lambda e: e.inputs.numpy_input_fn(data()[0], data()[1][1:], shuffle=False)(),
            "mismatched",
        ),
    ],
)
def test_what_is_refused_as_on_tensorflow(graph, make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(tf1.estimator)


@pytest.mark.parametrize(
    "ask",
    [
        lambda e: e.RunConfig(train_distribute=object()),
        lambda e: e.Estimator(no_labels, warm_start_from="there"),
        lambda e: e.Estimator(no_labels, "here").export_saved_model("there", None),
        lambda e: e.EvalSpec(data, exporters=[object()]),
    ],
)
def test_what_is_not_here_names_stepscope_and_what_to_do(ask):
    with pytest.raises(UnimplementedError, match=r"Stepscope's embedded engine.*TensorFlow"):
        ask(tf1.estimator)


def test_a_cluster_is_refused(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"], "ps": ["b:1"]}}))
    with pytest.raises(UnimplementedError, match=r"TF_CONFIG.*this process alone"):
        tf1.estimator.RunConfig()


def test_ready_made_models_say_what_to_use():
    with pytest.raises(AttributeError, match=r"Stepscope.*DNNClassifier.*model_fn"):
        _ = tf1.estimator.DNNClassifier


def test_labels_for_a_model_without_them(graph, tmp_path):
    x, y = data()
    estimator = tf1.estimator.Estimator(no_labels, str(tmp_path))
    with pytest.raises(ValueError, match="does not take labels"):
        estimator.train(batches(tf1, x, y), steps=1)


def test_a_name_that_metrics_may_not_have(graph, tmp_path):
    def model_fn(features, mode):
        loss = tf1.reduce_sum(features)
        return tf1.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"loss": tf1.metrics.mean(loss)}
        )

    estimator = tf1.estimator.Estimator(model_fn, str(tmp_path))
    with pytest.raises(ValueError, match='name "loss" is not allowed'):
        estimator.evaluate(lambda: tf1.zeros([2]), steps=1)


def test_members_are_not_overridden(tmp_path):
    class Other(tf1.estimator.Estimator):
        def train(self, input_fn):
            return self

    with pytest.raises(ValueError, match=r"cannot override members of Estimator.*train"):
        Other(no_labels, str(tmp_path))


def test_an_input_that_fails_is_the_error_of_training(graph, tmp_path):
    """What a thread of the input raises comes out of `train`, and no thread stays behind."""
    before = threading.active_count()

    def input_fn():
        row = tf1.check_numerics(tf1.constant([1.0, np.nan]), "not a number")
        return {"x": tf1.train.batch(row, 2)}, tf1.zeros([2, 1])

    estimator = tf1.estimator.Estimator(linear(tf1), str(tmp_path), params={"rate": 0.1})
    with pytest.raises(InvalidArgumentError, match="not a number"):
        estimator.train(input_fn, steps=1)
    assert threading.active_count() == before


def test_shuffled_rows_all_come(graph, tmp_path):
    def model_fn(features, mode):
        return tf1.estimator.EstimatorSpec(mode, predictions=features["n"])

    rows = np.arange(50)
    estimator = tf1.estimator.Estimator(model_fn, str(tmp_path))
    found = estimator.predict(
        tf1.estimator.inputs.numpy_input_fn({"n": rows}, batch_size=7, num_epochs=2, shuffle=True)
    )
    assert sorted(int(n) for n in found) == sorted([*rows, *rows])
