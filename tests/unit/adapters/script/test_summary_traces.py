"""`tf.summary.trace_export` of a script under `stepscope run`, as a real TensorBoard shows it."""

import os
import sys

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto import config_pb2, graph_pb2

import started_python
import stepscope
from patience import patient
from running_tensorboard import LOADERS, TensorBoard

SCRIPT = """
import sys
import tensorflow as tf

writer = tf.summary.create_file_writer(sys.argv[1])

@tf.function
def early(x):
    return tf.reduce_sum(tf.matmul(x, x, name="early_product"))

early(tf.ones([64, 64]))
tf.summary.trace_on(graph=True)

@tf.function
def late(x):
    return tf.reduce_mean(tf.matmul(x, x, name="late_product"))

for _ in range(3):
    late(tf.ones([64, 64]))
early(tf.ones([64, 64]))
with writer.as_default():
    tf.summary.trace_export("both", step=0)
tf.summary.trace_on(graph=True)
late(tf.ones([64, 64]))
with writer.as_default():
    tf.summary.trace_export("alone", step=1)
tf.summary.trace_on(graph=True)
with writer.as_default():
    tf.summary.trace_export("nothing", step=2)
writer.close()
"""


@pytest.fixture(scope="module")
def logdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "stepscope", "run", "--out", "runs", "script.py", "logs"]
    started_python.run(command, cwd=folder, env=dict(os.environ), timeout=patient(300), check=True)
    assert len(stepscope.load(folder / "runs")) >= 6
    return folder / "logs"


@pytest.mark.parametrize("load_fast", LOADERS)
def test_tensorboard_has_the_graph_and_when_its_nodes_ran(logdir, load_fast):
    with TensorBoard(logdir, load_fast) as board:
        tags = board.until(
            lambda: board.json("data/plugin/graphs/info").get(".", {}).get("tags", {})
        )
        assert tags["both"]["op_graph"]
        assert tags["both"]["profile"]
        assert tags["both/as_written"]["op_graph"]
        for tag, wanted in {
            "both": {"early/early_product", "late/late_product"},
            "alone": {"late_product"},
        }.items():
            graph = text_format.Parse(
                board.get("data/plugin/graphs/graph", run=".", tag=tag, conceptual="false"),
                graph_pb2.GraphDef(),
            )
            run = text_format.Parse(
                board.get("data/plugin/graphs/run_metadata", run=".", tag=tag),
                config_pb2.RunMetadata(),
            )
            took = {
                stats.node_name: stats.all_end_rel_nanos
                for device in run.step_stats.dev_stats
                for stats in device.node_stats
            }
            drawn = {node.name for node in graph.node}
            assert wanted <= {name for name in took if not name.endswith("_SOURCE")} <= drawn
            assert all(took[name] > 0 for name in wanted)
            inputs = {source.partition(":")[0] for node in graph.node for source in node.input}
            assert inputs <= drawn


def test_a_trace_without_runs_is_as_tensorflow_writes_it(logdir):
    with TensorBoard(logdir) as board:
        tags = board.until(
            lambda: board.json("data/plugin/graphs/info").get(".", {}).get("tags", {})
        )
    assert not tags["nothing"]["profile"]
    assert "nothing/as_written" not in tags
