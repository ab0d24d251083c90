"""`NodeExecStats.memory` and `memory_stats` of a run, beside TensorFlow's of the same graph."""

import numpy as np

import stepscope.tf1 as ours


def program(tf):
    """Ops that allocate, ops that write over their input, views and constants."""
    x = tf.placeholder(tf.float32, [64, 64], name="x")
    y = tf.matmul(x, x, name="y")
    z = tf.nn.relu(tf.multiply(y, tf.constant(np.full((64, 64), 2, np.float32), name="c"),
                               name="over"), name="twice")  # fmt: skip
    flat = tf.reshape(z, [4096], name="flat")
    return x, tf.reduce_sum(flat, name="total")


def stats(tf, threads):
    graph = tf.Graph()
    with graph.as_default():
        x, total = program(tf)
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    metadata = tf.RunMetadata()
    with tf.Session(graph=graph, config=config) as session:
        session.run(
            total, {x: np.ones((64, 64), np.float32)},
            options=tf.RunOptions(trace_level=3, inter_op_thread_pool=threads),
            run_metadata=metadata,
        )  # fmt: skip
    return {n.node_name: n for d in metadata.step_stats.dev_stats for n in d.node_stats}


NODES = ["y", "over", "twice", "flat", "total", "c"]


def test_who_allocates_how_much_and_frees_it(tf):
    theirs, mine = stats(tf, -1), stats(ours, -1)
    for name in NODES:
        for node in (theirs[name], mine[name]):
            assert len(node.memory) <= 1
        found = [
            [(m.total_bytes, m.peak_bytes, [r.alloc_bytes for r in m.allocation_records])
             for m in node.memory]
            for node in (theirs[name], mine[name])
        ]  # fmt: skip
        assert found[0] == found[1], name
    assert not mine["over"].memory, "it writes over y"


def test_the_memory_that_stays(tf):
    theirs, mine = stats(tf, -1), stats(ours, -1)
    for name in NODES:
        assert mine[name].HasField("memory_stats") == theirs[name].HasField("memory_stats"), name
        assert (
            mine[name].memory_stats.persistent_memory_size
            == theirs[name].memory_stats.persistent_memory_size
        ), name
    assert mine["c"].memory_stats.persistent_memory_size == 4 * 64 * 64
