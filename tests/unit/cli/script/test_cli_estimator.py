"""Programs around an Estimator through `stepscope run`, and what TensorBoard serves of them.

The same on the embedded engine and on TensorFlow 2.15, the last that has Estimator. Among them are
the three programs of a published text on run metadata and `tf.contrib.learn`'s writers, where that
text is there: fragments, made whole by a model, an Estimator and an input.
"""

import json
import re
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import config_pb2, graph_pb2

from running_tensorboard import TensorBoard
from shared_data import SEEDS, fenced_programs
from stepscope.metadata import RunMetadata

ENGINES = [
    "embedded",
    pytest.param(
        "tensorflow",
        marks=[
            pytest.mark.tensorflow,
            pytest.mark.skipif(
                not find_spec("tensorflow_estimator"),
                reason="2.15 is the last TensorFlow with Estimator",
            ),
        ],
    ),
]

MODEL = """
import numpy as np
tf.compat.v1.disable_eager_execution()

def input_fn():
    x = np.arange(12, dtype=np.float32).reshape(6, 2) / 10
    return {"x": tf.constant(x)}, tf.constant(x.sum(axis=1, keepdims=True))

def model_fn(features, labels, mode):
    w = tf.compat.v1.get_variable("w", initializer=tf.constant([[0.5], [-0.5]]))
    loss = tf.reduce_mean(tf.square(tf.matmul(features["x"], w, name="product") - labels))
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    step = tf.compat.v1.train.get_global_step()
    train = optimizer.minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
"""

# An Estimator keeps its ops to itself; its `model_fn` gives them once more, in the default graph.
ESTIMATOR = (
    MODEL
    + """
estimator = tf.estimator.Estimator(model_fn, model_dir="model")
estimator.train(input_fn, steps=3)
global_step = tf.compat.v1.train.create_global_step()
features, labels = input_fn()
mode = tf.estimator.ModeKeys.TRAIN
spec = estimator.model_fn(features, labels, mode, estimator.config)
tf.compat.v1.summary.scalar("loss_here", spec.loss)
summary_op = tf.compat.v1.summary.merge_all()
"""
)

WRITING = """
    writer = tf.compat.v1.summary.FileWriterCache.get(estimator.model_dir)
    writer.add_summary(summary, sess.run(global_step))
    writer.add_run_metadata(run_metadata, "by hand", sess.run(global_step))
    writer.close()
"""


def whole(program):
    for fragment, made in (
        ("# ... estimator definition ...", ESTIMATOR),
        ("estimator.train_op", "spec.train_op"),
        ("estimator.summary_op", "summary_op"),
        # TensorFlow's summaries are of tensors; a step is a number, not the variable.
        ("('run_metadata', metadata_str)", "('run_metadata', tf.constant(metadata_str))"),
        (
            "sess.run(merged_summary), global_step)",
            "sess.run(merged_summary), sess.run(global_step))",
        ),
    ):
        program = program.replace(fragment, made)
    return program


def seed_programs():
    """The three published programs, made whole."""
    first, second, third = fenced_programs(1)
    comment = "    #... standard summary writing using estimator.summary_op ..."
    assert comment in first
    first = first.replace(comment, WRITING)
    assert "sess.run(merged_summary), global_step)" in second
    assert "# ... metadata capture as in Example 1 ..." in third
    third = third.replace("import tensorflow as tf", "")
    third = third.replace("# ... metadata capture as in Example 1 ...", first)
    return [whole(program) for program in (first, second, third)]


@pytest.fixture
def run(stepscope, script):
    """`run(engine, program)`: what `stepscope run` printed; it has to go well."""

    def run(engine, program):
        done = stepscope("run", "--engine", engine, "--out", "out", script(program))
        assert done.returncode == 0, done.stderr
        assert f"engine: {engine}" in done.stderr
        return done.stdout

    return run


@contextmanager
def board(logdir, runs):
    """A running TensorBoard: a function that gets a path of a plugin from it."""
    with TensorBoard(logdir, "false", "--reload_multifile", "true") as shown:
        shown.until(lambda: runs <= shown.json("data/plugin/graphs/info").keys())
        yield lambda plugin, path, **query: shown.get(
            f"data/plugin/{plugin}/{path}", **query
        ).decode()


def served_nodes(get, run, tag):
    """The names of the nodes of a graph that TensorBoard can colour by a tagged run."""
    text = get("graphs", "graph", run=run, conceptual="false")
    graph = text_format.Parse(text, graph_pb2.GraphDef())
    found = text_format.Parse(
        get("graphs", "run_metadata", run=run, tag=tag), config_pb2.RunMetadata()
    )
    ran = {node.node_name for device in found.step_stats.dev_stats for node in device.node_stats}
    return {node.name for node in graph.node} & ran


# -- the published programs --------------------------------------------------------------------


@pytest.mark.timeout(900)  # three programs and a TensorBoard, one after the other
@pytest.mark.skipif(not SEEDS.is_dir(), reason="the text is not there")
@pytest.mark.parametrize("engine", ENGINES)
def test_the_published_programs(run, tmp_path, engine):
    capturing, embedding, extracting = seed_programs()

    run(engine, capturing)
    metadata = config_pb2.RunMetadata.FromString((tmp_path / "run_metadata.pb").read_bytes())
    assert metadata.step_stats.dev_stats
    (tmp_path / "model").rename(tmp_path / "captured")

    run(engine, embedding)
    log = EventAccumulator(str(tmp_path / "path/to/logs"))
    log.Reload()
    (event,) = log.Tensors("run_metadata")
    again = RunMetadata.FromString(event.tensor_proto.string_val[0])
    assert "product" in list(again.ops.name)

    printed = run(engine, extracting).splitlines()
    assert printed[0].startswith("Device: /job:localhost/replica:0/task:0/device:CPU:0")
    assert any(re.match(r"  Node: product\b.*, Exec time: \d+$", line) for line in printed)

    with board(tmp_path, {"captured", "path/to/logs"}) as get:
        info = json.loads(get("graphs", "info"))
        assert info["captured"]["run_graph"] is True
        assert list(info["captured"]["tags"]) == ["by hand"]
        assert "product" in served_nodes(get, "captured", "by hand")
        scalars = json.loads(get("scalars", "tags"))
        assert {"loss", "loss_here"} <= scalars["captured"].keys()
        assert "loss_here" in scalars["path/to/logs"]
        assert info["path/to/logs"]["run_graph"] is True
        assert json.loads(get("text", "tags"))["path/to/logs"] == ["run_metadata"]


# -- what the text asks for, done by the Estimator ---------------------------------------------

HOOKED = (
    "import tensorflow as tf\nimport stepscope\n"
    + MODEL
    + """
estimator = tf.estimator.Estimator(model_fn, model_dir="model")
with tf.Graph().as_default():
    profiler = tf.compat.v1.train.ProfilerHook(save_steps=3, output_dir="model")
trace = stepscope.TraceHook("2:4", logdir="model")
estimator.train(input_fn, hooks=[profiler, trace], steps=6)
found = estimator.evaluate(input_fn, steps=1)
print("loss %.4f at step %d" % (found["loss"], found["global_step"]))
"""
)


def losses(steps):
    """The losses of the model of these programs, before each of so many steps and after them."""
    x = np.arange(12, dtype=np.float32).reshape(6, 2) / 10
    w = np.array([[0.5], [-0.5]])
    for _ in range(steps + 1):
        off = x @ w - x.sum(axis=1, keepdims=True)
        yield np.square(off).mean()
        w -= 0.1 * 2 * x.T @ off / len(x)


@pytest.mark.parametrize("engine", ENGINES)
def test_hooks_write_beside_the_estimator(run, tmp_path, engine):
    *before, after = losses(6)
    assert run(engine, HOOKED) == f"loss {after:.4f} at step 6\n"
    with board(tmp_path, {"model"}) as get:
        tags = json.loads(get("graphs", "info"))["model"]["tags"]
        # TensorFlow's ProfilerHook may read the step before or after it is counted.
        assert {"step_2", "step_3"} <= tags.keys()
        assert len(tags) in (3, 4)
        for tag in ("step_2", "step_3"):
            assert "product" in served_nodes(get, "model", tag)
        scalars = json.loads(get("scalars", "tags"))
        assert "loss" in scalars["model"]
        assert "loss" in scalars["model/eval"]
        (first,) = json.loads(get("scalars", "scalars", run="model", tag="loss"))
        assert first[1:] == [1, pytest.approx(before[0], abs=1e-4)]


CONFIGURED = (
    "import tensorflow as tf\n"
    + MODEL
    + """
config = tf.estimator.RunConfig("model", save_run_metadata_steps=2)
tf.estimator.Estimator(model_fn, config=config).train(input_fn, steps=5)
"""
)


def test_the_configuration_is_enough_on_the_embedded_engine(run, tmp_path):
    run("embedded", CONFIGURED)
    assert len(list((tmp_path / "model").glob("events*"))) == 1
    with board(tmp_path, {"model"}) as get:
        info = json.loads(get("graphs", "info"))["model"]
        assert list(info["tags"]) == ["step_0", "step_2", "step_4"]
        for tag in info["tags"]:
            assert {"product", "GradientDescent"} <= served_nodes(get, "model", tag)
        assert "loss" in json.loads(get("scalars", "tags"))["model"]


# -- the example -------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_example(stepscope, tmp_path, examples, engine):
    program = examples / "tf1" / "estimator.py"
    options = ["run", "--engine", engine, "--tf1", "--out", "out", program]
    done = stepscope(*options, "--model_dir=model", "--trace_every=8")
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    assert found[0] == "step 0: loss 1.519749"
    assert found[-3:] == [
        "step 19: loss 0.689596", "step 20: off by 0.6423 on average", "64 rows predicted"
    ]  # fmt: skip
    (file,) = (tmp_path / "model").glob("events*")
    log = EventAccumulator(str(file)).Reload()
    assert log.Tags()["run_metadata"] == ["step_0", "step_8", "step_16"]
    assert log.Tags()["graph"]
    steps = [event.step for event in log.Scalars("loss")]
    if engine == "embedded":
        assert steps == [1, 6, 11, 16]
    else:
        # TensorFlow's hook reads the step while the same run counts it up: one more or less.
        assert steps[0] == 1
        assert {after - before for before, after in pairwise(steps)} <= {4, 5, 6}
