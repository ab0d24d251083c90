"""Which layer a node belongs to. What Keras' models give is in `test_cli_recorded_coverage`."""

import doctest

import numpy as np
import pytest

import stepscope.tf1 as tf
from analysed_runs import run_of
from stepscope import RunMetadata, RunOptions
from stepscope.analysis import ModelTime, layer_profile, op_profile
from stepscope.analysis.profile import layers
from stepscope.analysis.profile.layers import places, scope_of


@pytest.mark.parametrize(
    ("name", "parts", "phase"),
    [
        ("replica_1/net_1/dense_1/MatMul", ("net_1", "dense_1"), "forward"),
        ("gradient_tape/replica_1/net_1/dense_1/MatMul/MatMul_1", ("net_1", "dense_1", "MatMul"),
         "backward"),
        ("training/gradients_1/net/Relu_grad/ReluGrad", ("training", "net", "Relu"), "backward"),
        ("rnn/while/rnn/cell/MatMul", ("rnn", "cell"), "forward"),
        ("Func/net_1/rnn_1/while/input/_12", ("net_1", "rnn_1"), "forward"),
        ("net_1/rnn_1/while/net_1/rnn_1/zeros_switch/_3", ("net_1", "rnn_1"), "forward"),
        ("Adam/update_block/w/ResourceApplyAdam", ("block", "w"), "optimizer"),
        ("net/dense/kernel/Initializer/random_uniform/sub", ("net", "dense"), "forward"),
        ("PartitionedCall_3/MatMul", (), "forward"),
        ("", (), "forward"),
    ],
)  # fmt: skip
def test_what_a_name_tells(name, parts, phase):
    assert scope_of(name)[:2] == (parts, phase)


def named(nodes, function=True, **lines):
    """The places of `name: (type, *inputs)`."""
    labels = [f"{name} = {kind}({', '.join(inputs)})" for name, (kind, *inputs) in nodes.items()]
    types = [kind for kind, *_ in nodes.values()]
    found = places(list(nodes), types, labels, lines, function=function)
    return {name: f"{place.layer} {place.phase}" for name, place in zip(nodes, found, strict=True)}


def test_the_worked_examples_are_true():
    assert doctest.testmod(layers).failed == 0


def test_numbers_are_keras_own_where_nothing_is_in_the_scope_before():
    scopes = ["m_1/dense_1", "m_1/dense_1_2", "m_1/dense_2_1", "m_1/tied_1", "m_1/tied_3"]
    found = named({f"{scope}/Relu": ["Relu"] for scope in scopes})
    layers = ["m/dense", "m/dense_1", "m/dense_2", "m/tied", "m/tied"]
    assert list(found.values()) == [f"{layer} forward" for layer in layers]
    # In a session a number tells scopes apart: nobody enters them twice.
    found = named({"dense_1/Relu": ["Relu"], "out/dense_2/Relu": ["Relu"]}, function=False)
    assert list(found.values()) == ["dense_1 forward", "out/dense_2 forward"]


def test_an_optimizer_that_updates_by_gradients_of_all_is_told_apart_by_variables():
    found = named({
        "v": ["_Arg"], "w": ["_Arg"], "slot_v": ["_Arg"],
        "a_1/ReadVariableOp": ["ReadVariableOp", "v"],
        "b_1/ReadVariableOp": ["ReadVariableOp", "w"],
        "gradient_tape/a_1/MatMul/MatMul": ["MatMul", "b_1/ReadVariableOp"],
        "gradient_tape/b_1/MatMul/MatMul": ["MatMul", "a_1/ReadVariableOp"],
        "my_sgd/norm": ["AddN", "gradient_tape/a_1/MatMul/MatMul",
                        "gradient_tape/b_1/MatMul/MatMul"],
        "my_sgd/mul": ["Mul", "gradient_tape/a_1/MatMul/MatMul", "my_sgd/norm"],
        "my_sgd/update_a": ["AssignAddVariableOp", "slot_v", "my_sgd/mul"],
        "my_sgd/ReadVariableOp": ["ReadVariableOp", "slot_v", "^my_sgd/update_a"],
        "my_sgd/assign_a": ["ResourceApplyGradientDescent", "v", "my_sgd/ReadVariableOp"],
        "my_sgd/assign_b": ["ResourceApplyGradientDescent", "w", "my_sgd/norm"],
        "AddN": ["AddN", "gradient_tape/a_1/MatMul/MatMul"],
    })  # fmt: skip
    assert found["my_sgd/norm"] == "optimizer optimizer"
    for name in ("my_sgd/mul", "my_sgd/update_a", "my_sgd/ReadVariableOp", "my_sgd/assign_a"):
        assert found[name] == "a optimizer"
    assert found["my_sgd/assign_b"] == "b optimizer"
    assert (found["v"], found["slot_v"]) == ("a forward", "a optimizer")
    assert found["AddN"] == "a backward"


def test_metrics_that_count_beside_a_training_are_no_optimizer():
    graph = tf.Graph()
    with graph.as_default(), tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float32, [None, 4])
        guess = tf.sigmoid(tf.layers.dense(x, 1, name="only"))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(guess))
        _, update = tf.metrics.auc(tf.ones([3, 1]), guess)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        metadata = RunMetadata()
        session.run(
            [train, update],
            {x: np.ones((3, 4))},
            options=RunOptions(trace_level=RunOptions.FULL_TRACE),
            run_metadata=metadata,
        )
    found = layers.layers_of(metadata)
    of = dict(zip(metadata.ops.facts.names.values.tolist(), found, strict=True))
    counting = [place for name, place in of.items() if name.startswith("auc/")]
    assert len(counting) > 20
    assert {place.phase for place in counting} == {"forward"}
    assert {(p.layer, p.phase) for n, p in of.items() if "update_only" in n} == {
        ("only", "optimizer")
    }


def test_what_is_outside_of_any_scope():
    found = named(
        {
            "next": ["IteratorGetNext"],
            "MatMul": ["MatMul", "next"],
            "gradient_tape/MatMul/MatMul": ["MatMul", "next"],
            "Neg": ["Neg"],
            "_SOURCE": ["NoOp"],
        },
        MatMul="/home/me/net.py:3",
        **{"gradient_tape/MatMul/MatMul": "/home/me/net.py:9"},
    )
    assert list(found.values()) == [
        "input other", "net.py:3 forward", "net.py:9 backward", "(no layer) other",
        "(no layer) other",
    ]  # fmt: skip


def test_a_tree_adds_up():
    run = run_of(
        ("net/a/MatMul", "MatMul", [], 7, 0, 0, 10),
        ("net/a/deep/Neg", "Neg", [], 7, 10, 10, 14),
        ("gradients/net/a/MatMul_grad/MatMul", "MatMul", [], 7, 14, 14, 44),
        ("net/b/Relu", "Relu", [], 7, 44, 44, 45),
        ("other", "NoOp", [], 7, 45, 45, 47),
        sources=lambda: {"other": "net.py:4"},
    )
    whole = layer_profile(run)
    assert [(row.key, row.self_ns, row.own_ns, row.depth) for row in whole] == [
        ("net", 45, 0, 0), ("net/a", 44, 40, 1), ("net/a/deep", 4, 4, 2), ("net/b", 1, 1, 1),
        ("net.py:4", 2, 2, 0),
    ]  # fmt: skip
    top = whole.rows[0]
    assert (top.forward_ns, top.backward_ns, top.calls) == (15, 30, 4)
    assert (whole.self_ns, whole.named) == (op_profile(run).self_ns, 1.0)
    assert [(row.key, row.own_ns) for row in layer_profile(run, depth=1)] == [
        ("net", 45), ("net.py:4", 2),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="depth must be 1 or more"):
        layer_profile(run, depth=0)


def test_what_the_model_does_is_told_from_what_is_around_it():
    step = run_of(
        ("next", "IteratorGetNext", [], 7, 0, 0, 50),
        ("net_1/dense_1/MatMul", "MatMul", ["next"], 7, 50, 50, 80),
        ("compile_loss/mse/Square", "Square", ["net_1/dense_1/MatMul"], 7, 80, 80, 88),
        ("Neg", "Neg", ["net_1/dense_1/MatMul"], 7, 88, 88, 90),
        sources=lambda: {"Neg": "net.py:4"},
    )
    eager = run_of(("Range", "Range", [], 7, 0, 0, 9), sources=lambda: {"Range": "data.py:1"})
    found = layer_profile([step, eager])
    assert found.model == ModelTime(
        runs=1, self_ns=40, layers_ns=30, loss_ns=8, lines_ns=2, input_ns=50
    )
    assert (found.model.in_layers, found.self_ns) == (0.95, 99)
    assert layer_profile(eager).model == ModelTime()


def test_a_trained_graph_of_the_embedded_engine():
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("hidden"):
            weights = tf.get_variable("w", [3, 4])
            hidden = tf.nn.relu(tf.matmul(tf.ones([2, 3]), weights))
        with tf.name_scope("loss"):
            loss = tf.reduce_mean(tf.square(hidden))
        train = tf.train.AdamOptimizer().minimize(loss)
        session.run(tf.global_variables_initializer())
        metadata = RunMetadata()
        session.run(train, options=RunOptions(trace_level=3), run_metadata=metadata)
    layers = {row.key: row for row in layer_profile(metadata)}
    assert set(layers) - {"(no layer)"} <= {"hidden", "loss", "optimizer", *lines_of(metadata)}
    hidden = layers["hidden"]
    assert min(hidden.forward_ns, hidden.backward_ns, hidden.optimizer_ns) > 0


def lines_of(run):
    return {line.rpartition("/")[2] for line in run.sources.values()}
