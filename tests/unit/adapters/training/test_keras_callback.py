"""The Keras callback, in Keras's own loops; its event files as TensorBoard reads them."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from event_files import read, run_metadata

import stepscope
from stepscope.errors import InvalidArgumentError
from stepscope.scheduling import every, parse_steps, schedule

FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)

pytestmark = pytest.mark.filterwarnings(
    "ignore:non-integer arguments to randrange:DeprecationWarning"  # in Keras 2, seeding
)


@pytest.fixture(scope="module")
def TraceCallback(tensorflow):
    from stepscope.adapters.tensorflow.training.keras import TraceCallback

    return TraceCallback


@pytest.fixture
def model(tensorflow):
    """A small dense model, compiled and not yet traced."""
    keras = tensorflow.keras
    keras.utils.set_random_seed(7)
    network = keras.Sequential(
        [
            keras.layers.Input((4,), name="features"),
            keras.layers.Dense(8, activation="relu", name="hidden"),
            keras.layers.Dense(1, name="out"),
        ]
    )
    network.compile(optimizer="sgd", loss="mse")
    return network


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    return rng.random((24, 4), np.float32), rng.random((24, 1), np.float32)


def fit(model, data, callback, **arguments):
    x, y = data
    arguments = {"epochs": 1, "batch_size": 4, "verbose": 0, "shuffle": False} | arguments
    return model.fit(x, y, callbacks=[callback], **arguments)


def op_counts(metadata):
    names, counts = np.unique(list(metadata.ops.op), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def is_matmul(op):
    return op in ("MatMul", "_FusedMatMul")


def matmuls(metadata):
    """Forward and backward products of both layers, fused ones included."""
    return sum(count for op, count in op_counts(metadata).items() if is_matmul(op))


def test_scheduled_steps_of_a_fit_are_recorded(TraceCallback, model, data):
    callback = TraceCallback(schedule(wait=2, active=1))
    fit(model, data, callback)
    assert [(step, tag) for step, tag, _ in callback.steps] == [
        (2, "train_step_2"),
        (5, "train_step_5"),
    ]
    for _, _, metadata in callback.steps:
        assert metadata.status.code == "OK"
        assert metadata.engine == "tensorflow function"
        assert matmuls(metadata) == 5  # two forward, two for the weights, one for the inputs
        assert len(metadata.ops) > 20
        assert (metadata.ops.end_ns >= metadata.ops.start_ns).all()


def test_steps_are_counted_over_epochs_and_fits(TraceCallback, model, data):
    callback = TraceCallback("5:8,13")
    fit(model, data, callback, epochs=2)
    fit(model, data, callback)
    assert [step for step, _, _ in callback.steps] == [5, 6, 7, 13]


def test_recording_changes_nothing_that_is_learnt(TraceCallback, tensorflow, data):
    def weights(*callbacks):
        keras = tensorflow.keras
        keras.utils.set_random_seed(11)
        network = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        network.compile(optimizer="adam", loss="mse")
        x, y = data
        history = network.fit(
            x, y, batch_size=4, epochs=2, verbose=0, shuffle=False, callbacks=list(callbacks)
        )
        return [*network.get_weights(), np.array(history.history["loss"])]

    plain = weights()
    recorded = weights(TraceCallback(every(1)))
    for mine, theirs in zip(recorded, plain, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_event_file_holds_graph_and_tagged_steps(TraceCallback, model, data, tmp_path):
    callback = TraceCallback(parse_steps("1:3"), logdir=tmp_path / "logs")
    fit(model, data, callback)
    assert callback.event_file.name.endswith(".stepscope")
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [callback.event_file.name]
    found = read(tmp_path / "logs")
    assert sorted(found.Tags()["run_metadata"]) == ["train_step_1", "train_step_2"]
    stats = found.RunMetadata("train_step_1").step_stats
    assert any(device.node_stats for device in stats.dev_stats)
    assert matmuls(run_metadata(found, "train_step_1")) == 5
    graph = found.Graph()
    nodes = {node.op for node in graph.node}
    nodes |= {node.op for function in graph.library.function for node in function.node_def}
    assert {"IteratorGetNext", "MatMul"} <= nodes
    assert callback.steps == []
    assert callback.last.tag == "train_step_2"


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's own
def test_files_lie_beside_those_of_keras_itself(TraceCallback, tensorflow, model, data, tmp_path):
    board = tensorflow.keras.callbacks.TensorBoard(tmp_path, write_graph=False, profile_batch=0)
    callback = TraceCallback("2", logdir=tmp_path / "train")
    x, y = data
    model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[board, callback])
    files = list((tmp_path / "train").iterdir())
    assert len(files) == 2
    found = read(tmp_path / "train")
    assert found.Tags()["run_metadata"] == ["train_step_2"]
    assert "epoch_loss" in found.Tags()["tensors"]


def test_evaluate_and_predict_have_steps_of_their_own(TraceCallback, model, data, tmp_path):
    x, y = data
    callback = TraceCallback("1", logdir=tmp_path)
    fit(model, data, callback, validation_data=(x[:8], y[:8]), validation_batch_size=4)
    callback.last.metadata.ops  # noqa: B018 - decoded before the next run
    assert callback.last.tag == "test_step_1"
    assert matmuls(callback.last.metadata) == 2  # no gradients
    model.evaluate(x, y, batch_size=4, verbose=0, callbacks=[callback])
    model.predict(x, batch_size=4, verbose=0, callbacks=[callback])
    assert matmuls(callback.last.metadata) == 2
    assert sorted(read(tmp_path).Tags()["run_metadata"]) == [
        "predict_step_1",
        "test_step_1",
        "train_step_1",
    ]


def test_several_steps_in_one_execution_are_one_run(TraceCallback, model, data):
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=3)
    callback = TraceCallback("4")
    fit(model, data, callback)
    ((step, tag, metadata),) = callback.steps
    assert (step, tag) == (3, "train_step_3")
    assert matmuls(metadata) == 15


@pytest.mark.usefixtures("prepared")
def test_steps_are_recorded_by_our_executor_where_there_is_one(TraceCallback, model, data):
    callback = TraceCallback(schedule(wait=1, active=2), options=FULL)
    fit(model, data, callback)
    x, y = data
    model.evaluate(x, y, batch_size=4, verbose=0, callbacks=[callback])
    model.predict(x, batch_size=4, verbose=0, callbacks=[callback])
    assert len(callback.steps) == 12
    assert {metadata.recorder for _, _, metadata in callback.steps} == {"executor"}
    assert [matmuls(metadata) for _, _, metadata in callback.steps] == 4 * [5] + 8 * [2]


@pytest.mark.usefixtures("prepared")
@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
def test_an_execution_that_finds_no_data_is_no_step(TraceCallback, tensorflow, model, data):
    """Of a dataset of unknown length Keras asks for more once, for several steps at a time."""
    x, y = data
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=3)
    dataset = tensorflow.data.Dataset.from_tensor_slices((x, y)).filter(lambda *_: True).batch(4)
    callback = TraceCallback(every(1))
    model.fit(dataset, verbose=0, shuffle=False, callbacks=[callback])
    assert [step for step, _, _ in callback.steps] == [0, 3]
    assert [matmuls(metadata) for _, _, metadata in callback.steps] == [15, 15]


def test_an_eager_model_is_recorded_too(TraceCallback, model, data, tmp_path):
    model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
    callback = TraceCallback("1", logdir=tmp_path)
    fit(model, data, callback)
    assert callback.last.tag == "train_step_1"
    assert callback.last.metadata.engine == "tensorflow eager"
    assert matmuls(callback.last.metadata) == 5
    assert read(tmp_path).Tags()["run_metadata"] == ["train_step_1"]


def test_an_eager_evaluation_is_recorded_or_said_not_to_be(TraceCallback, tensorflow, model, data):
    model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
    x, y = data
    callback = TraceCallback("1")

    def evaluate():
        model.evaluate(x, y, batch_size=4, verbose=0, callbacks=[callback])

    if getattr(tensorflow.keras, "__version__", "2").startswith("3"):
        evaluate()
        assert [tag for _, tag, _ in callback.steps] == ["test_step_1"]
    else:
        with pytest.warns(RuntimeWarning, match="but for an eager evaluation in Keras 2"):
            evaluate()
        assert callback.steps == []


def test_a_warm_up_is_thrown_away(TraceCallback, model, data):
    callback = TraceCallback(schedule(wait=1, warmup=2, active=1, repeat=1))
    fit(model, data, callback)
    assert [step for step, _, _ in callback.steps] == [3]


def test_the_function_gets_each_recorded_step(TraceCallback, model, data):
    seen = []
    callback = TraceCallback(
        every(3), callback=lambda step, metadata: seen.append((step, metadata))
    )
    fit(model, data, callback)
    assert [step for step, _ in seen] == [0, 3]
    assert all(isinstance(metadata, stepscope.RunMetadata) for _, metadata in seen)
    assert callback.steps == []


def test_a_function_that_raises_is_dropped_and_the_fit_goes_on(TraceCallback, model, data):
    calls = []

    def fussy(step, metadata):
        calls.append(step)
        raise KeyError("no")

    callback = TraceCallback(every(2), callback=fussy)
    with pytest.warns(RuntimeWarning, match=r"raised KeyError: 'no' \(at train_step_0\)"):
        history = fit(model, data, callback)
    assert calls == [0]
    assert len(history.history["loss"]) == 1


@pytest.fixture
def failing(tensorflow):
    """A model that fails on a negative input, and data whose third batch has one."""
    keras = tensorflow.keras

    class Checked(keras.layers.Layer):
        def call(self, inputs):
            tensorflow.debugging.assert_non_negative(inputs, message="negative")
            return inputs * 2.0

    network = keras.Sequential([keras.layers.Input((4,)), Checked(), keras.layers.Dense(1)])
    network.compile(optimizer="sgd", loss="mse")
    x = np.ones((16, 4), np.float32)
    x[9, 2] = -1.0
    return network, (x, np.ones((16, 1), np.float32))


def test_a_step_that_fails_is_written_with_all_before_it(
    TraceCallback, tensorflow, failing, tmp_path
):
    model, data = failing
    callback = TraceCallback(every(1), logdir=tmp_path)
    with pytest.raises(tensorflow.errors.InvalidArgumentError) as caught:
        fit(model, data, callback)
    assert isinstance(caught.value, InvalidArgumentError)
    found = read(tmp_path)
    assert found.Tags()["run_metadata"] == ["train_step_0", "train_step_1", "train_step_2"]
    assert run_metadata(found, "train_step_1").status.code == "OK"
    last = run_metadata(found, "train_step_2")
    assert last.status.code == "INVALID_ARGUMENT"
    assert "negative" in last.status.message
    assert len(last.ops) > 0


def test_after_a_failure_the_profiler_is_free_and_the_model_its_own(
    TraceCallback, tensorflow, failing, tmp_path
):
    model, (x, y) = failing
    callback = TraceCallback(every(1))
    with pytest.raises(tensorflow.errors.InvalidArgumentError):
        fit(model, (x, y), callback)
    tensorflow.profiler.experimental.start(str(tmp_path))
    tensorflow.profiler.experimental.stop(save=False)
    before = len(callback.steps)
    model.train_on_batch(x[:4], y[:4])
    assert len(callback.steps) == before


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")  # Keras's own
def test_the_end_of_the_data_is_no_step(TraceCallback, tensorflow, model, data):
    """Of a generator Keras does not know the length: it runs once more than there are batches."""
    x, y = data

    def batches():
        for start in range(0, 12, 4):
            yield x[start : start + 4], y[start : start + 4]

    callback = TraceCallback(every(1))
    dataset = tensorflow.data.Dataset.from_generator(
        batches,
        output_signature=(
            tensorflow.TensorSpec((4, 4), tensorflow.float32),
            tensorflow.TensorSpec((4, 1), tensorflow.float32),
        ),
    )
    model.fit(dataset, verbose=0, shuffle=False, callbacks=[callback])
    assert [step for step, _, _ in callback.steps] == [0, 1, 2]
    fit(model, data, callback)
    assert [step for step, _, _ in callback.steps] == list(range(9))


def test_a_loop_that_calls_no_function_of_the_model_is_told_so(TraceCallback, model):
    callback = TraceCallback(every(1))
    callback.set_model(model)
    with pytest.warns(RuntimeWarning, match=r"Wrap its step in stepscope\.observe\(\)"):
        callback.on_train_batch_begin(0)
    callback.on_train_batch_end(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        callback.on_train_batch_begin(1)
        callback.on_train_batch_end(1)
    assert callback.steps == []


def test_between_recorded_steps_the_model_is_as_keras_made_it(
    TraceCallback, tensorflow, model, data
):
    seen = []

    class Looks(tensorflow.keras.callbacks.Callback):
        def look(self):
            function = self.model.train_function
            seen.append((id(function), type(function), function.__name__))

        def on_train_begin(self, logs=None):
            self.look()

        def on_train_batch_end(self, batch, logs=None):
            self.look()

    x, y = data
    callback = TraceCallback("2:4")
    model.fit(x, y, batch_size=4, verbose=0, callbacks=[callback, Looks()], shuffle=False)
    assert [step for step, _, _ in callback.steps] == [2, 3]
    assert len(seen) == 7
    assert len(set(seen)) == 1


def test_a_full_directory_does_not_end_the_fit(TraceCallback, model, data, tmp_path):
    logdir = tmp_path / "logs"
    callback = TraceCallback(every(2), logdir=logdir)
    os.rmdir(logdir)
    logdir.write_text("in the way")
    with pytest.warns(RuntimeWarning, match="train_step_0 cannot be written to .*logs"):
        history = fit(model, data, callback)
    assert len(history.history["loss"]) == 1


def test_full_trace_has_shapes(TraceCallback, model, data):
    callback = TraceCallback(
        "1", options=stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
    )
    fit(model, data, callback)
    ops = callback.last.metadata.ops
    forward = [
        i for i, op in enumerate(ops.op) if is_matmul(op) and ops.output_bytes[i] == 4 * 8 * 4
    ]
    assert forward, list(zip(ops.op, ops.output_bytes, strict=True))
