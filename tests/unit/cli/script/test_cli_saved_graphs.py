"""`stepscope run` saves the graph beside the runs, so that `stepscope coverage` works by itself."""

import json

import pytest

from stepscope._messages import GraphDef
from stepscope.cli.script.saved_graphs import SavedGraphs
from stepscope.metadata import iter_runs
from stepscope.metadata.readers import stored_graph

TWO_GRAPHS = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
for name in ("first", "second"):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.multiply(x, 2.0, name=name)
        unused = tf.negative(x, name="unused")
        for value in (1.0, 2.0):
            session.run(y, {x: value})
        if name == "second":
            session.run(tf.add(y, y, name="later"), {x: 1.0})
"""
FUNCTION = """
import tensorflow as tf
@tf.function
def step(x):
    unused = tf.math.negative(x, name="unused")
    return tf.matmul(x, x, name="product")
x = tf.ones([8, 8])
for _ in range(3):
    step(x)
"""


def graphs_in(directory):
    """The graph of each run, as bytes."""
    return [stored_graph(directory, run.name) for run in iter_runs(directory)]


def nodes_of(graph):
    return {node.name for node in GraphDef.FromString(graph).node}


@pytest.mark.parametrize("engine", ["embedded", "tensorflow"])
def test_runs_of_a_session_share_its_graph(engine, stepscope, script, command, tmp_path, request):
    if engine == "tensorflow":
        request.getfixturevalue("tensorflow")
    done = stepscope("run", "--engine", engine, "--out", "out", script(TWO_GRAPHS))
    assert done.returncode == 0, done.stderr
    graphs = graphs_in(tmp_path / "out")
    assert len(graphs) == 5
    assert graphs[0] == graphs[1] != graphs[2] == graphs[3]
    # TensorFlow's runs are handed over later, here when the graph has grown already.
    assert engine == "tensorflow" or graphs[3] != graphs[4]
    assert {"x", "first", "unused"} <= nodes_of(graphs[0])
    assert "later" in nodes_of(graphs[4])

    for number, wanted in ((0, "first"), (2, "second")):
        code, out, err = command("coverage", "out", "--run", number, "--json")
        assert code == 0, err
        fates = {row["name"]: row["state"] for row in json.loads(out)["rows"]}
        assert (fates["x"], fates[wanted], fates["unused"]) == ("fed", "measured", "pruned")

    # A new recording in the same place leaves nothing of the old one.
    stepscope("run", "--engine", engine, "--limit", 1, "--out", "out", script(TWO_GRAPHS))
    assert len(graphs_in(tmp_path / "out")) == 1


def test_the_run_of_a_function_holds_its_graph(stepscope, script, command, tmp_path, tensorflow):
    done = stepscope("run", "--engine", "tensorflow", "--out", "out", script(FUNCTION))
    assert done.returncode == 0, done.stderr
    code, out, err = command("coverage", "out", "--run", 1, "--json")
    assert code == 0, err
    fates = {row["name"]: row["state"] for row in json.loads(out)["rows"]}
    assert (fates["product"], fates["unused"]) == ("measured", "pruned")


class Unwritable:
    version = 1

    def as_graph_def(self):
        raise ValueError("Message too large")


def test_a_graph_that_cannot_be_serialised_is_no_problem():
    assert SavedGraphs().part_of(Unwritable()) is None
