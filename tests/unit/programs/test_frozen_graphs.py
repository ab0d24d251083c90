"""`tf.graph_util`: what an export makes runs on either engine, and says what TensorFlow's says."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope.tf1 as tf1
from stepscope.tf1.python.framework import graph_util

IMAGE = np.linspace(-1, 1, 32, dtype="float32").reshape(2, 16)


def network(tf, use_resource):
    """A perceptron of two layers with a lookup of rows, and training nodes around it."""
    x = tf.placeholder(tf.float32, [None, 16], name="x")
    with tf.variable_scope("one", use_resource=use_resource):
        w = tf.get_variable("w", initializer=np.linspace(-1, 1, 64, dtype="float32").reshape(16, 4))
        b = tf.get_variable("b", initializer=[0.5, -0.5, 0.25, 0.0])
        table = tf.get_variable("table", initializer=np.eye(4, dtype="float32") * 3)
    hidden = tf.nn.relu(tf.matmul(x, w) + b, name="hidden")
    checked = tf.check_numerics(hidden, "bad", name="checked")
    rows = tf.nn.embedding_lookup(table, tf.argmax(hidden, 1), name="rows")
    output = tf.identity(tf.stop_gradient(checked * 2.0) + rows, name="output")
    loss = tf.reduce_sum(tf.square(output))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return output


def frozen(tf, use_resource, **lists):
    output = network(tf, use_resource)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        graph_def = tf.graph_util.convert_variables_to_constants(
            session, tf.get_default_graph().as_graph_def(), ["output"], **lists
        )
        return graph_def.SerializeToString(), session.run(output, {"x:0": IMAGE})


def run(tf, message):
    with tf.Graph().as_default(), tf.Session() as session:
        graph_def = tf.GraphDef.FromString(message)
        y = tf.import_graph_def(graph_def, return_elements=["output:0"], name="in")[0]
        return session.run(y, {"in/x:0": IMAGE})


@pytest.mark.tensorflow
@pytest.mark.parametrize("use_resource", [False, True])
def test_a_frozen_graph_runs_on_either_engine(both, tf, use_resource):
    (ours, expected), (theirs, _) = both(lambda engine: frozen(engine, use_resource))
    for message in (ours, theirs):
        for engine in (tf1, tf):
            np.testing.assert_allclose(run(engine, message), expected, rtol=1e-6)
    mine, other = (
        {n.name: (n.op, n.attr["dtype"].type) for n in tf1.GraphDef.FromString(m).node}
        for m in (ours, theirs)
    )
    # A lookup of rows reads the whole variable here, there some rows of it.
    for found in (mine, other):
        for name in [n for n in found if n.startswith("rows")]:
            del found[name]
    assert mine == other
    assert "VarHandleOp" not in str(mine)


@pytest.mark.tensorflow
def test_variables_are_frozen_in_a_graph_of_tensorflows(tf):
    """It gathers rows of a variable by its handle, which we freeze as TensorFlow does."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        output = network(tf, use_resource=True)
        session.run(tf.global_variables_initializer())
        graph_def = graph.as_graph_def()
        assert "ResourceGather" in {n.op for n in graph_def.node}
        expected = session.run(output, {"x:0": IMAGE})
        found = tf1.graph_util.convert_variables_to_constants(session, graph_def, ["output"])
    for engine in (tf1, tf):
        np.testing.assert_allclose(run(engine, found.SerializeToString()), expected, rtol=1e-6)


@pytest.mark.parametrize("use_resource", [False, True])
def test_lists_say_which_variables_are_frozen(graph, use_resource):
    kinds = ("VarHandleOp", "VariableV2")
    message, _ = frozen(tf1, use_resource, variable_names_whitelist=["one/w", "one/b"])
    left = [n.name for n in tf1.GraphDef.FromString(message).node if n.op in kinds]
    assert left == ["one/table"]
    with tf1.Graph().as_default():
        message, _ = frozen(tf1, use_resource, variable_names_blacklist=["one/b"])
    left = [n.name for n in tf1.GraphDef.FromString(message).node if n.op in kinds]
    assert left == ["one/b"]


@pytest.mark.tensorflow
def test_a_sub_graph_is_tensorflows(both):
    def program(tf):
        network(tf, use_resource=False)
        graph_def = tf.get_default_graph().as_graph_def()
        found = tf.graph_util.extract_sub_graph(graph_def, ["hidden", "one/b/Assign"])
        return [node.name for node in found.node]

    ours, theirs = both(program)
    assert ours == theirs
    assert "output" not in ours


@pytest.mark.tensorflow
def test_what_only_passes_a_tensor_on_goes(both):
    def program(tf):
        x = tf.placeholder(tf.float32, [2], name="x")
        same = tf.identity(x, name="same")
        kept = tf.identity(same, name="kept")
        with tf.control_dependencies([kept]):
            after = tf.identity(same, name="after")
        tf.add(tf.stop_gradient(after), tf.identity(kept), name="y")
        with tf.colocate_with(same.op):
            tf.negative(tf.identity(kept, name="protected"), name="z")
        graph_def = tf.get_default_graph().as_graph_def()
        found = tf.graph_util.remove_training_nodes(graph_def, ["protected"])
        return [(node.name, list(node.input)) for node in found.node]

    ours, theirs = both(program)
    assert ours == theirs
    assert ("y", ["after", "kept"]) in ours


def test_a_checked_tensor_is_taken_unchecked(graph):
    x = tf1.placeholder(tf1.float32, [2], name="x")
    tf1.add(tf1.check_numerics(x, "bad", name="check"), 1.0, name="y")
    found = graph_util.remove_training_nodes(graph.as_graph_def())
    assert [(n.name, list(n.input)) for n in found.node][-1] == ("y", ["x", "y/y"])
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(found, name="")
        assert session.run("y:0", {"x:0": [1.0, 2.0]}).tolist() == [2.0, 3.0]


@pytest.mark.tensorflow
def test_which_nodes_must_run_on_the_cpu(both):
    def program(tf):
        made = [
            tf.constant(["a"]), tf.constant(1), tf.constant(1.0), tf.cast([1], tf.float32),
            tf.cast([1.0], tf.int32), tf.Variable(1.0, use_resource=False), tf.negative(1),
            tf.dynamic_stitch([[0]], [[1]]), tf.dynamic_stitch([[0]], [[1.0]]),
        ]  # fmt: skip
        return [
            (
                tf.graph_util.must_run_on_cpu(m.op),
                tf.graph_util.must_run_on_cpu(m.op, True),
                tf.graph_util.must_run_on_cpu(m.op.node_def),
            )
            for m in made
        ]

    ours, theirs = both(program)
    assert ours == theirs


def test_shapes_by_the_name_of_an_input(graph):
    tf1.placeholder(tf1.float32, [None, 3], name="x")
    shape = tf1.graph_util.tensor_shape_from_node_def_name
    assert shape(graph, "x").as_list() == shape(graph, "x:0").as_list() == [None, 3]


def test_what_is_refused(graph):
    tf1.constant(1.0, name="a")
    with pytest.raises(AssertionError, match="b is not in graph"):
        tf1.graph_util.extract_sub_graph(graph.as_graph_def(), ["b"])
    with pytest.raises(TypeError, match="list of names, not the text 'a'"):
        tf1.graph_util.extract_sub_graph(graph.as_graph_def(), "a")
    with pytest.raises(TypeError, match="must be a GraphDef"):
        tf1.graph_util.extract_sub_graph(graph, ["a"])
