"""The cost graph: when it is filled, and what with, beside TensorFlow's for the same graph.

TensorFlow's cost model turns on statistics of its CPU allocator for the rest of the process, and
TensorFlow then crashes when memory from before is freed: its sessions run in another process.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import pytest

import started_python
import stepscope
import stepscope.tf1 as st
from patience import patient


def config(every: int, after: int = 0, **more: Any) -> stepscope.ConfigProto:
    made = stepscope.ConfigProto(**more)
    made.graph_options.build_cost_model = every
    made.graph_options.build_cost_model_after = after
    return made


def build() -> stepscope.Graph:
    graph = stepscope.Graph()
    with graph.as_default():
        x = st.placeholder(st.float32, [None, 2], name="x")
        c = st.constant([[1.0, 2.0], [3.0, 4.0]], name="c")
        v = st.Variable([1.0, 2.0], name="v")
        r = st.Variable([1.0, 2.0], name="r", use_resource=True)
        y = st.add(st.matmul(x, c, name="mm"), v, name="y")
        y2 = st.add(y, r, name="y2")
        first, _ = st.split(y2, 2, axis=1, name="sp")
        st.reshape(y2, [-1], name="flat")
        st.identity(st.constant(["a"], name="word"), name="said")
        with st.device("/cpu:1"):
            st.multiply(y2, 2.0, name="z")
        with st.control_dependencies([first]):
            st.no_op(name="done")
    return graph


FETCHES = ["y2:0", "flat:0", "said:0", "z:0", "done", "sp:1"]
FEED = {"x:0": np.ones((3, 2), np.float32)}
INITIALIZERS = ["v/Assign", "r/Assign"]


def ours(runs: int = 1, feeds: Any = None) -> Any:
    with stepscope.Session(graph=build(), config=config(1, device_count={"CPU": 2})) as session:
        session.run(INITIALIZERS)
        for k in range(runs):
            metadata = stepscope.RunMetadata()
            feed = FEED if feeds is None else {"x:0": feeds[k]}
            session.run(FETCHES, feed, run_metadata=metadata)
    return metadata.cost_graph


SCHEDULES = [
    (0, 0, "FFFFFF"),
    (1, 0, "TTTTTT"),
    (2, 0, "FTFTFT"),
    (3, 2, "FFFFTF"),
    (1, 3, "FFFTTT"),
]
ON_TENSORFLOW = """
import json, sys
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
asked = json.loads(sys.argv[1])
settings = tf1.ConfigProto(device_count={"CPU": 2})
settings.graph_options.rewrite_options.disable_meta_optimizer = True
settings.graph_options.optimizer_options.opt_level = -1
settings.graph_options.build_cost_model = 1
graph = tf.Graph()
with graph.as_default():
    tf1.import_graph_def(tf1.GraphDef.FromString(bytes.fromhex(asked["graph"])), name="")
with tf1.Session(graph=graph, config=settings) as session:
    session.run([graph.get_operation_by_name(n) for n in asked["initializers"]])
    costed = tf1.RunMetadata()
    feed = {"x:0": np.ones((3, 2), np.float32)}
    session.run(
        [graph.as_graph_element(f) for f in asked["fetches"]], feed, run_metadata=costed
    )
filled = []
for settings in asked["schedules"]:
    with tf.Graph().as_default():
        fetch = tf.add(tf.constant(1.0), 2.0)
        config = tf1.ConfigProto.FromString(bytes.fromhex(settings))
        with tf1.Session(config=config) as session:
            runs = [tf1.RunMetadata() for _ in range(6)]
            for metadata in runs:
                session.run(fetch, run_metadata=metadata)
            filled.append("".join("T" if len(m.cost_graph.node) else "F" for m in runs))
print(json.dumps([costed.SerializeToString().hex(), filled]))
"""


@pytest.fixture(scope="module")
def told(tensorflow, tmp_path_factory):
    """What TensorFlow said in a process of its own: metadata, and when there was a cost graph."""
    asked = {
        "graph": build().as_graph_def().SerializeToString().hex(),
        "initializers": INITIALIZERS,
        "fetches": FETCHES,
        "schedules": [config(*row[:2]).SerializeToString().hex() for row in SCHEDULES],
    }
    done = started_python.run(
        [sys.executable, "-c", ON_TENSORFLOW, json.dumps(asked)],
        cwd=tmp_path_factory.mktemp("told"), env=dict(os.environ),
        timeout=patient(120),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    metadata, filled = json.loads(done.stdout.splitlines()[-1])
    return tensorflow.compat.v1.RunMetadata.FromString(bytes.fromhex(metadata)), filled


@pytest.fixture(scope="module")
def theirs(told):
    return told[0].cost_graph


def named(graph: Any) -> dict[str, Any]:
    return {node.name: node for node in graph.node if node.device}


# -- when ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", range(len(SCHEDULES)))
def test_the_schedule_is_tensorflows(told, row):
    every, after, expected = SCHEDULES[row]
    found = ""
    with stepscope.Graph().as_default():
        fetch = st.add(st.constant(1.0), 2.0)
        with stepscope.Session(config=config(every, after)) as session:
            for _ in range(6):
                metadata = stepscope.RunMetadata()
                session.run(fetch, run_metadata=metadata)
                found += "T" if len(metadata.cost_graph.node) else "F"
    assert (found, told[1][row]) == (expected, expected)


def test_each_kind_of_run_counts_for_itself():
    with stepscope.Graph().as_default(), stepscope.Session(config=config(2)) as session:
        a = st.constant(1.0, name="a")
        b = st.add(a, 1.0, name="b")
        filled = []
        for fetch in (a, b, a, b):
            metadata = stepscope.RunMetadata()
            session.run(fetch, run_metadata=metadata)
            filled.append(bool(metadata.cost_graph.node))
    assert filled == [False, False, True, True]


def test_a_costed_run_has_step_stats_too(theirs):
    del theirs
    with stepscope.Graph().as_default(), stepscope.Session(config=config(1)) as session:
        metadata = stepscope.RunMetadata()
        session.run(st.add(st.constant(1.0), 2.0, name="sum"), run_metadata=metadata)
    assert "sum" in list(metadata.ops.name)


# -- what ----------------------------------------------------------------------------------------


def test_the_same_nodes_on_the_same_devices(theirs):
    def placed(graph):
        return sorted((n.name, n.device) for n in graph.node)

    assert placed(ours()) == placed(theirs)


def test_ids_count_through_and_edges_lead_to_the_same_nodes(theirs):
    graph = ours()
    assert [n.id for n in graph.node] == list(range(len(graph.node)))

    def edges(g):
        names = {n.id: (n.name, n.device) for n in g.node}
        found = set()
        for n in g.node:
            for k, i in enumerate(n.input_info):
                found.add((n.name, k, names[i.preceding_node], i.preceding_port))
            if n.name != "_SINK":
                found |= {(n.name, "^", names[i]) for i in n.control_input}
        return found

    assert edges(graph) == edges(theirs)
    sinks = [{graph.node[i].name for i in n.control_input} for n in graph.node if n.name == "_SINK"]
    theirs_by_id = {n.id: n.name for n in theirs.node}
    expected = [
        {theirs_by_id[i] for i in n.control_input} for n in theirs.node if n.name == "_SINK"
    ]
    assert sinks == expected


SIZES = {
    "_arg_x_0_0": [0], "c": [16], "mm": [24], "v": [8], "v/read": [8], "y": [24], "r": [0],
    "y2/ReadVariableOp": [8], "y2": [24], "flat/shape": [4], "flat": [24], "word": [-1],
    "said": [-1], "sp/split_dim": [4], "sp": [12, 12], "z/y": [4], "z": [24], "z/_3": [24],
    "y2/_1": [24],
}  # fmt: skip


def test_outputs_have_sizes():
    found = {n: [o.size for o in node.output_info] for n, node in named(ours()).items()}
    assert {name: sizes for name, sizes in found.items() if sizes} == SIZES


def test_outputs_have_the_sizes_shapes_and_types_of_tensorflows(theirs):
    expected, found = named(theirs), named(ours())
    other_objects = ("said", "word", "r")
    compared = set()
    for name, node in expected.items():
        mine = found[name]
        assert len(mine.output_info) == len(node.output_info), name
        for a, b in zip(mine.output_info, node.output_info, strict=True):
            if b.dtype == 0:
                # TensorFlow says nothing of what it received; here it is known.
                assert [d.size for d in a.shape.dim] == [3, 2], name
                continue
            assert a.dtype == b.dtype, name
            assert [d.size for d in a.shape.dim] == [d.size for d in b.shape.dim], name
            assert a.shape.unknown_rank == b.shape.unknown_rank, name
            # TensorFlow leaves out persistent memory, and what it takes for it, now and then.
            if name not in other_objects and b.size:
                assert a.size == b.size, name
                compared.add(name)
        if name not in other_objects:
            assert mine.persistent_memory_size == node.persistent_memory_size, name
        assert mine.is_final == node.is_final, name
    assert compared >= {"mm", "y", "y2", "flat", "sp", "z"}


def test_aliases_say_whose_memory_it_is(theirs):
    del theirs
    found = named(ours())
    assert found["flat"].output_info[0].alias_input_port == 0
    assert found["mm"].output_info[0].alias_input_port == -1
    with stepscope.Graph().as_default(), stepscope.Session(config=config(1)) as session:
        x = st.placeholder(st.float32, [4], name="x")
        a = st.add(x, 1.0, name="a")
        b = st.add(a, 1.0, name="b")
        metadata = stepscope.RunMetadata()
        session.run(st.reduce_sum(b, name="s"), {x: np.zeros(4)}, run_metadata=metadata)
    found = named(metadata.cost_graph)
    # The fed array is never written to; an intermediate one is written over.
    assert found["a"].output_info[0].alias_input_port == -1
    assert found["b"].output_info[0].alias_input_port == 0


def test_costs_are_measured_in_microseconds_and_the_largest_stay():
    with stepscope.Graph().as_default(), stepscope.Session(config=config(1)) as session:
        x = st.placeholder(st.float32, [None, None], name="x")
        y = st.matmul(x, x, name="mm")
        small, big = np.ones((2, 2), np.float32), np.ones((400, 400), np.float32)
        seen = []
        for value in (small, big, small):
            metadata = stepscope.RunMetadata()
            session.run(y, {x: value}, run_metadata=metadata)
            node = named(metadata.cost_graph)["mm"]
            row = list(metadata.ops.name).index("mm")
            micros = int(metadata.ops.end_ns[row] - metadata.ops.start_ns[row]) // 1000
            seen.append((node.compute_cost, micros, node.output_info[0].size))
    costs, micros, sizes = zip(*seen, strict=True)
    assert costs == tuple(np.maximum.accumulate(micros))
    assert costs[1] > 100
    assert sizes == (16, 640000, 640000)


def test_a_cost_graph_kept_is_not_changed_by_later_runs():
    with stepscope.Graph().as_default(), stepscope.Session(config=config(1)) as session:
        x = st.placeholder(st.float32, [None], name="x")
        y = st.add(x, 1.0, name="y")
        first = stepscope.RunMetadata()
        session.run(y, {x: np.zeros(3)}, run_metadata=first)
        session.run(y, {x: np.zeros(30)}, run_metadata=stepscope.RunMetadata())
    assert named(first.cost_graph)["y"].output_info[0].size == 12
