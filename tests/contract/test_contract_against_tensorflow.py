"""The same small graphs, traced by the embedded engine and by TensorFlow: the records agree.

TensorFlow is asked twice: with its optimizers off, where it runs the graph as it is and the sets
of nodes have to be the same (but for transfers, which it does not list), and as it comes, where it
renames, folds and fuses, and only the nodes it did run are compared.
"""

import re

import numpy as np
import pytest

from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

TRANSFERS = ("_Send", "_Recv", "_HostSend", "_HostRecv")


def elementwise(ops):
    x = ops.placeholder(ops.float32, [None, 3], name="x")
    y = ops.add(x, 1.0, name="plus")
    y = ops.multiply(y, x, name="times")
    y = ops.nn.relu(y, name="relu")
    z = ops.cast(ops.greater(y, 2.0, name="more"), ops.int64, name="whole")
    return {x: np.arange(6, dtype=np.float32).reshape(2, 3)}, [y, z]


def matrices(ops):
    x = ops.placeholder(ops.float64, [4, 3], name="x")
    w = ops.constant(np.ones((3, 5)), name="w")
    y = ops.matmul(x, w, name="y")
    t = ops.matmul(y, y, transpose_a=True, name="t")
    return {x: np.ones((4, 3))}, [ops.reduce_sum(t, axis=[0], name="sum"), t]


def views(ops):
    x = ops.placeholder(ops.float32, [2, 6], name="x")
    a = ops.reshape(x, [3, 4], name="a")
    b = ops.transpose(a, [1, 0], name="b")
    c = ops.expand_dims(b, 0, name="c")
    d = ops.squeeze(c, [0], name="d")
    e = ops.concat([b, d], 0, name="e")
    f = ops.identity(e, name="f")
    return {x: np.arange(12, dtype=np.float32).reshape(2, 6)}, [f, a]


def parts(ops):
    x = ops.placeholder(ops.int32, [None], name="x")
    s = ops.strided_slice(x, [1], [3], name="s")
    g = ops.gather(x, [0, 2, 2], name="g")
    p, q = ops.split(x, 2, name="halves")
    m = ops.argmax(x, 0, name="m")
    return {x: np.array([5, 6, 7, 8], np.int32)}, [s, g, p, q, m, ops.shape(x, name="shape")]


def ref_variables(ops):
    v = ops.Variable(np.zeros((2, 2), np.float32), name="v", use_resource=False)
    x = ops.placeholder(ops.float32, [2, 2], name="x")
    with ops.control_dependencies([ops.assign(v, x, name="set")]):
        y = ops.add(v.read_value(), 1.0, name="y")
    return {x: np.ones((2, 2), np.float32)}, [y]


def classifier(ops):
    x = ops.placeholder(ops.float32, [None, 4], name="x")
    labels = ops.placeholder(ops.int64, [None], name="labels")
    w = ops.constant(np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32), name="w")
    logits = ops.nn.bias_add(ops.matmul(x, w, name="mm"), ops.constant([0.1, 0.2, 0.3]), name="b")
    p = ops.nn.softmax(logits, name="p")
    right = ops.equal(ops.argmax(logits, 1, name="best"), labels, name="right")
    return (
        {x: np.ones((5, 4), np.float32), labels: np.arange(5) % 3},
        [p, ops.reduce_mean(ops.cast(right, ops.float32, name="hit"), name="accuracy")],
    )


def control(ops):
    x = ops.placeholder(ops.bool, [3], name="x")
    first = ops.logical_not(x, name="first")
    with ops.control_dependencies([first]):
        second = ops.logical_or(x, True, name="second")
    return {x: np.array([True, False, True])}, [second, ops.group(first, second, name="all")]


def three_devices(ops):
    x = ops.placeholder(ops.float32, [2, 2], name="x")
    with ops.device("/cpu:0"):
        a = ops.add(x, 1.0, name="a")
    with ops.device("/cpu:1"):
        b = ops.matmul(a, a, name="b")
    with ops.device("/cpu:2"):
        with ops.control_dependencies([b]):
            c = ops.multiply(a, 2.0, name="c")
        d = ops.add_n([b, c, c], name="d")
    return {x: np.eye(2, dtype=np.float32)}, [d, b]


GRAPHS = [elementwise, matrices, views, parts, ref_variables, classifier, control, three_devices]


def record(metadata):
    """(node, device) to (op type, outputs as (slot, dtype, shape, bytes)).

    Left out: transfers, and the numbers of the other nodes that partitioning adds, which
    TensorFlow counts on from run to run.
    """
    found = {}
    for stats in metadata.step_stats.dev_stats:
        for node in stats.node_stats:
            op_type = node.timeline_label.partition(" = ")[2].partition("(")[0]
            if op_type in TRANSFERS:
                continue
            outputs = []
            for output in node.output:
                described = output.tensor_description
                shape = tuple(d.size for d in described.shape.dim)
                size = described.allocation_description.requested_bytes
                outputs.append((output.slot, described.dtype, shape, size))
            name = re.sub(r"/_\d+$", "/_N", node.node_name)
            found[name, stats.device] = (op_type, sorted(outputs))
    return found


def without_rewritten(found, wanted):
    """What both hold of the nodes both ran; the type of an op that TensorFlow fused is left out."""
    both = {}
    for key in set(found) & set(wanted):
        fused = wanted[key][0].startswith("_") and not key[0].startswith("_")
        both[key] = (None, found[key][1]) if fused else found[key]
    return both


@pytest.fixture(params=["optimizers off", "as it comes"])
def optimized(request):
    return request.param == "as it comes"


@pytest.fixture(params=[1, 3], ids=["one device", "three devices"])
def devices(request):
    return request.param


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_records_agree(embedded, tf, build, devices, optimized):
    engine = embedded
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        fed, fetched = build(v1)
    config = v1.ConfigProto(device_count={"CPU": devices}, allow_soft_placement=True)
    if not optimized:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        config.graph_options.place_pruned_graph = True
    theirs = v1.RunMetadata()
    with v1.Session(graph=graph, config=config) as session:
        session.run(fetched, fed)  # so that variables have a value when the traced run begins
        expected = session.run(
            fetched, fed, v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE), theirs
        )

    made = {}

    def remade(ops):
        feeds, fetches = build(ops)
        made["fed"] = {t.op.name: value for t, value in feeds.items()}
        named = {t.op.name: t for t in feeds}
        named |= {f"fetch{i}": t for i, t in enumerate(fetches)}
        made["fetches"] = [f"fetch{i}" for i in range(len(fetches))]
        return named

    program = engine.start(
        remade, engine.config(device_count={"CPU": devices}, allow_soft_placement=True)
    )
    ours = RunMetadata()
    values = program.run(made["fetches"], made["fed"], RunOptions(trace_level=3), ours)

    for value, other in zip(values, expected, strict=True):
        if other is None:
            assert value is None
        else:
            np.testing.assert_allclose(value, other, rtol=1e-6)
            assert value.dtype == other.dtype
    found, wanted = record(ours), record(theirs)
    if not optimized:
        assert found == wanted
    both = without_rewritten(found, wanted)
    assert len(both) >= 3, "there is something to compare"
    for key, (op_type, outputs) in both.items():
        assert outputs == wanted[key][1], key
        assert op_type in (None, wanted[key][0]), key
