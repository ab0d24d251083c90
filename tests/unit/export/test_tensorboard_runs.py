"""Whole runs for TensorBoard: graphs to colour, numbers, tables, and fields of metadata."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import config_pb2, graph_pb2

import stepscope
import stepscope.tf1 as tf1
from stepscope.analysis import op_profile
from stepscope.export import TensorBoardWriter, metadata_from_text
from stepscope.export.tensorboard.executed_graph import OUTPUTS
from stepscope.metadata import AllocationColumns, Recording, RunMetadata

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
START = 1_700_000_000_000_000_000
FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)


def loaded(logdir):
    events = EventAccumulator(str(logdir))
    events.Reload()
    return events


def nodes(events):
    return {node.name: node for node in events.Graph().node}


def stats(events, tag):
    devices = events.RunMetadata(tag).step_stats.dev_stats
    return {s.node_name: s for device in devices for s in device.node_stats}


def scalars(events, step):
    tags = events.Tags()["scalars"]
    return {t: s.value for t in tags for s in events.Scalars(t) if s.step == step}


def text(events, tag):
    return events.Tensors(tag)[-1].tensor_proto.string_val[0].decode()


def run_of(*rows, **fields):
    """A run of rows: (name, label, thread, start in us, ns taken, bytes put out)."""
    message = config_pb2.RunMetadata(**fields)
    device = message.step_stats.dev_stats.add(device=CPU)
    for name, label, thread, start, taken, size in rows:
        node = device.node_stats.add(
            node_name=name,
            timeline_label=label,
            thread_id=thread,
            all_start_micros=START // 1000 + start,
            all_start_nanos=START + start * 1000,
            all_end_rel_micros=taken // 1000,
            all_end_rel_nanos=taken,
        )
        if size:
            described = node.output.add().tensor_description
            described.allocation_description.requested_bytes = size
            described.shape.dim.add(size=size // 4)
    return message


def eager(*rows):
    return run_of(*[(op, f"{op} = {op}()", *rest) for op, *rest in rows])


@pytest.fixture(scope="module")
def embedded():
    """A graph and a run of it."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf1.float32, [None, 8], name="x")
        with tf1.name_scope("layer"):
            product = tf1.matmul(x, tf1.ones([8, 4]), name="product")
        total = tf1.reduce_sum(product, name="total")
    metadata = RunMetadata()
    with tf1.Session(graph=graph) as session:
        session.run(total, {x: np.ones((2, 8))}, options=FULL, run_metadata=metadata)
    return graph, metadata


def test_a_run_is_shown_in_numbers(tmp_path, embedded):
    graph, metadata = embedded
    with TensorBoardWriter(tmp_path, graph) as writer:
        writer.add_run(metadata, 7)
    events = loaded(tmp_path)
    assert events.Tags()["run_metadata"] == ["step_7"]
    found = scalars(events, 7)
    for row in op_profile(metadata, "op"):
        assert found[f"op_time_us/{row.key}"] == pytest.approx(row.self_ns / 1000)
    (device,) = op_profile(metadata, "device")
    assert found[f"device_time_us{CPU}"] == pytest.approx(device.self_ns / 1000)
    assert found[f"memory_peak_bytes{CPU}"] == metadata.peak_bytes(CPU) > 0
    assert found["run/executions"] == len(metadata.ops)
    ops = metadata.ops
    assert found["run/wall_time_us"] == pytest.approx(
        (ops.end_ns.max() - ops.start_ns.min()) / 1000
    )


def test_a_run_is_shown_in_tables(tmp_path, embedded):
    graph, metadata = embedded
    with TensorBoardWriter(tmp_path, graph) as writer:
        writer.add_run(metadata, 0)
    header, _, *rows = text(loaded(tmp_path), "top_ops").splitlines()
    assert header.split(" | ")[:2] == ["| op", "type"]
    assert len(rows) == len(op_profile(metadata, "name"))
    (product,) = [row for row in rows if row.startswith("| `layer/product`")]
    assert "| `MatMul` |" in product
    assert product.endswith("| 32 |")
    _, _, *rows = text(loaded(tmp_path), "allocation_log").splitlines()
    assert len(rows) == len(metadata.allocations)
    (product,) = [r for r in rows if r.startswith("| `layer/product` | `allocate`")]
    assert "| 32 |" in product
    assert max(int(row.split(" | ")[-1].rstrip(" |").replace(",", "")) for row in rows) == (
        metadata.peak_bytes()
    )


def test_what_ran_is_marked_on_the_users_graph(tmp_path, embedded):
    graph, metadata = embedded
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(metadata, 0, graph=graph)
        writer.add_run(metadata, 1)
    events = loaded(tmp_path)
    assert set(nodes(events)) == {op.name for op in graph.get_operations()}
    for tag in ("step_0", "step_1"):
        shown = stats(events, tag)
        assert shown["layer/product"].all_end_rel_micros >= 1
        assert shown["layer/product"].memory[0].total_bytes == 32
        assert shown["total"].all_end_rel_nanos > 0


def test_without_a_graph_what_executed_is_the_graph(tmp_path, embedded):
    _, metadata = embedded
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(metadata, 0)
    shown = nodes(loaded(tmp_path))
    assert shown["layer/product"].op == "MatMul"
    assert shown["total"].input[0] == "layer/product"
    assert "_SOURCE" not in shown
    shape = shown["layer/product"].attr["_output_shapes"].list.shape[0]
    assert [axis.size for axis in shape.dim] == [2, 4]


def test_eager_executions_become_nodes_of_their_own(tmp_path):
    metadata = eager(
        ("MatMul", 1, 0, 5_000, 64),
        ("MatMul", 1, 10, 6_000, 64),
        ("Sum", 1, 20, 7_000, 4),
        ("MatMul", 2, 5, 8_000, 64),
    )
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(metadata, 0)
        writer.add_run(metadata, 1)
    events = loaded(tmp_path)
    assert {name: (node.op, list(node.input)) for name, node in nodes(events).items()} == {
        "MatMul": ("MatMul", []),
        "MatMul_1": ("MatMul", []),
        "MatMul_2": ("MatMul", ["^MatMul"]),
        "Sum": ("Sum", ["^MatMul_2"]),
    }
    for tag in ("step_0", "step_1"):
        assert {name: s.all_end_rel_micros for name, s in stats(events, tag).items()} == {
            "MatMul": 5, "MatMul_1": 8, "MatMul_2": 6, "Sum": 7,
        }  # fmt: skip


def test_annotations_are_scopes_of_eager_ops(tmp_path):
    spans = run_of(
        ("my step", "my step = Annotation()", 1, 0, 100_000, 0),
        ("inner", "inner = Annotation()", 1, 10, 20_000, 0),
        ("Exp", "Exp = Exp()", 1, 1, 2_000, 0),
        ("Exp", "Exp = Exp()", 1, 12, 2_000, 0),
        ("Exp", "Exp = Exp()", 1, 40, 2_000, 0),
        ("Exp", "Exp = Exp()", 1, 140, 2_000, 0),
        ("Exp", "Exp = Exp()", 2, 12, 2_000, 0),
    )
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(spans, 0)
    assert list(nodes(loaded(tmp_path))) == [
        "my_step/Exp", "my_step/inner/Exp", "my_step/Exp_1", "Exp_1", "Exp",
    ]  # fmt: skip


def test_names_of_eager_nodes_avoid_those_of_graphs(tmp_path):
    metadata = run_of(
        ("Exp_1", "Exp_1 = Exp(a)", 1, 0, 1_000, 0),
        ("Exp", "Exp = Exp()", 1, 10, 2_000, 0),
        ("Exp", "Exp = Exp()", 1, 20, 3_000, 0),
    )
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(metadata, 0)
    shown = stats(loaded(tmp_path), "step_0")
    assert {n: s.all_end_rel_micros for n, s in shown.items()} == {"Exp_1": 1, "Exp": 2, "Exp_2": 3}


def test_short_ops_and_outputs_show_and_the_run_passed_stays_as_it_was(tmp_path):
    metadata = run_of(("a", "a = Exp(x)", 1, 0, 400, 64), ("b", "b = Exp(a)", 1, 1, 2_900, 0))
    before = metadata.SerializeToString()
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(metadata, 0)
        writer.add_run_metadata(metadata, "untouched")
    assert metadata.SerializeToString() == before
    events = loaded(tmp_path)
    assert events.RunMetadata("untouched") == metadata
    shown = stats(events, "step_0")
    assert [shown[name].all_end_rel_micros for name in "ab"] == [1, 2]
    assert [(m.allocator_name, m.total_bytes) for m in shown["a"].memory] == [(OUTPUTS, 64)]
    assert not shown["b"].memory
    back = RunMetadata.FromString(events.RunMetadata("step_0").SerializeToString())
    assert (back.ops.end_ns - back.ops.start_ns).tolist() == [400, 2_900]
    assert back.peak_bytes() == 0


def test_graphs_that_came_with_the_run_are_shown(tmp_path):
    metadata = run_of(("mm", "mm = MatMul()", 1, 0, 5_000, 0))
    executed = metadata.function_graphs.add().partition_graphs.add()
    executed.node.add(name="x", op="_Arg")
    executed.node.add(name="mm", op="MatMul", input=["x", "x", "^gone"])
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(metadata, 0)
    shown = nodes(loaded(tmp_path))
    assert {n: list(node.input) for n, node in shown.items()} == {"x": [], "mm": ["x", "x"]}


def test_the_graph_grows_with_the_runs(tmp_path):
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(run_of(("f/a", "f/a = Exp()", 1, 0, 1_000, 0)), 0)
        writer.add_run(run_of(("g/b", "g/b = Log(g/c)", 1, 0, 1_000, 0)), 1)
    assert list(nodes(loaded(tmp_path))) == ["f/a", "g/b"]


def test_a_users_graph_is_extended_only_by_runs_of_something_else(tmp_path):
    graph = graph_pb2.GraphDef()
    graph.node.add(name="a", op="Exp")
    run = run_of(("a", "a = Exp()", 1, 0, 1_000, 0), ("_fused", "_fused = X()", 1, 9, 1_000, 0))
    with TensorBoardWriter(tmp_path, graph) as writer:
        writer.add_run(run, 0)
        assert list(nodes(loaded(tmp_path))) == ["a"]
        writer.add_run(eager(("Log", 1, 0, 1_000, 0)), 1)
    assert list(nodes(loaded(tmp_path))) == ["a", "Log"]


def test_a_used_tag_is_refused_before_anything_is_written(tmp_path):
    run = run_of(("a", "a = Exp()", 1, 0, 1_000, 0))
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(run, 3)
        size = writer.event_writer.path.stat().st_size
        with pytest.raises(ValueError, match="already used"):
            writer.add_run(run, 3)
        assert writer.event_writer.path.stat().st_size == size
        writer.add_run(run, 3, tag="again")
    assert loaded(tmp_path).Tags()["run_metadata"] == ["step_3", "again"]


def test_threads_may_add_runs_to_one_writer(tmp_path):
    def add(first):
        for step in range(first, first + 25):
            writer.add_run(run_of((f"op{step}", f"op{step} = Exp()", 1, 0, 1_000, 0)), step)

    with TensorBoardWriter(tmp_path) as writer, ThreadPoolExecutor(4) as threads:
        list(threads.map(add, (0, 25, 50, 75)))
    events = loaded(tmp_path)
    assert set(nodes(events)) == {f"op{step}" for step in range(100)}
    assert len(events.Tags()["run_metadata"]) == 100


def test_something_else_than_a_run_is_refused(tmp_path):
    with TensorBoardWriter(tmp_path) as writer:
        for call in (writer.add_run, writer.add_metadata_fields):
            with pytest.raises(TypeError, match="runs must be a RunMetadata"):
                call("metadata", 0)


def test_a_long_allocation_log_shows_its_end(tmp_path):
    count = 3_000
    log = AllocationColumns.build(
        name=[f"op{i}" for i in range(count)],
        device=[CPU] * count,
        time_ns=START + np.arange(count),
        bytes=[8] * count,
        dtype=[1] * count,
        shape=[(2,)] * count,
    )
    run = RunMetadata()
    run.record(Recording(engine="embedded", allocation_log=lambda: log))
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_run(run, 0)
    first, _, _, _, *rows = text(loaded(tmp_path), "allocation_log").splitlines()
    assert first == "the last 1,000 of 3,000 events"
    assert len(rows) == 1000
    assert rows[-1].startswith("| `op2999` | `allocate` | `temporary` | `float32` | `[2]` |")
    assert rows[-1].endswith(" | 8 | 24,000 |")


# -- metadata as summaries -------------------------------------------------------------------


def test_metadata_as_a_text_comes_back(tmp_path, embedded):
    _, metadata = embedded
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_metadata_text(metadata, "run_metadata", 4)
    shown = text(loaded(tmp_path), "run_metadata")
    assert 'node_name: "layer/product"' in shown
    back = metadata_from_text(shown)
    assert back == metadata
    assert back.engine == "embedded"
    with pytest.raises(ValueError, match="does not hold run metadata"):
        metadata_from_text("some text")


def test_fields_become_summaries_of_their_own(tmp_path):
    metadata = run_of(
        ("a", "a = Exp(x)", 1, 0, 5_000, 64),
        ("a", "a = Exp(x)", 1, 9, 6_000, 64),
        ("scope/b", "scope/b = Log(a)", 1, 20, 7_000, 0),
    )
    metadata.step_stats.dev_stats[0].thread_names[1] = "main"
    metadata.step_stats.dev_stats[0].node_stats[2].memory.add(allocator_name="cpu", peak_bytes=9)
    with TensorBoardWriter(tmp_path) as writer:
        writer.add_metadata_fields(
            metadata,
            [
                "all_end_rel_micros",
                "memory.peak_bytes",
                "overhead.fraction",
                "timeline_label",
                "step_stats.dev_stats.thread_names",
                "output.tensor_description.shape.dim.size",
            ],
            2,
        )
    events = loaded(tmp_path)
    at = CPU.lstrip("/")
    assert scalars(events, 2) == {
        f"all_end_rel_micros/{at}/a": 5,
        f"all_end_rel_micros/{at}/a #2": 6,
        f"all_end_rel_micros/{at}/scope/b": 7,
        f"memory.peak_bytes/{at}/scope/b/cpu": 9,
        "overhead.fraction": 0,
        f"output.tensor_description.shape.dim.size/{at}/a/0/0": 16,
        f"output.tensor_description.shape.dim.size/{at}/a/0/0 #2": 16,
    }
    assert text(events, f"timeline_label/{at}/scope/b") == "scope/b = Log(a)"
    assert text(events, f"step_stats.dev_stats.thread_names/{at}/1") == "main"


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ("all_end_rel_minutes", "has step_stats, cost_graph"),
        ("step_stats.dev_stats.node", "it has device, node_stats, thread_names"),
        ("overhead.ns.more", "it is a plain value"),
        ("step_stats.dev_stats", "say which: step_stats.dev_stats.device"),
    ],
)
def test_a_field_that_is_not_there_is_answered_with_those_that_are(tmp_path, field, answer):
    with TensorBoardWriter(tmp_path) as writer, pytest.raises(ValueError, match=answer):
        writer.add_metadata_fields(run_of(), [field], 0)


def test_metadata_packed_by_hand_into_a_summary_op(tmp_path):
    """Serialised into a text summary, merged with the model's own, run and written."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        loss = tf1.reduce_sum(tf1.ones([4]), name="loss")
        summary_op = tf1.summary.scalar("loss_value", loss)
        metadata = tf1.RunMetadata()
        session.run([loss, summary_op], options=FULL, run_metadata=metadata)
        by_hand = tf1.summary.text("run_metadata", metadata.SerializeToString())
        merged = tf1.summary.merge([summary_op, by_hand])
        writer = tf1.summary.FileWriter(str(tmp_path), session.graph)
        writer.add_summary(session.run(merged), 12)
        writer.close()
    events = loaded(tmp_path)
    assert scalars(events, 12) == {"loss_value": 4.0}
    (stored,) = events.Tensors("run_metadata")
    assert RunMetadata.FromString(stored.tensor_proto.string_val[0]) == metadata


# -- beside TensorFlow -----------------------------------------------------------------------


def test_tensorflows_writer_takes_our_metadata(tmp_path, tensorflow, embedded):
    _, metadata = embedded
    v1 = tensorflow.compat.v1
    with v1.Graph().as_default():
        writer = v1.summary.FileWriter(str(tmp_path))
        writer.add_run_metadata(metadata, "ours", 5)
        writer.close()
    served = loaded(tmp_path).RunMetadata("ours")
    assert RunMetadata.FromString(served.SerializeToString()) == metadata


def test_tensorflow_reads_what_went_in(tmp_path, tensorflow, embedded):
    graph, metadata = embedded
    with TensorBoardWriter(tmp_path, graph) as writer:
        writer.add_run_metadata(metadata, "as it is", 3)
        writer.add_run(metadata, 4)
    path = str(writer.event_writer.path)
    events = list(tensorflow.compat.v1.train.summary_iterator(path))
    assert [event.WhichOneof("what") for event in events] == [
        "file_version", "graph_def", "tagged_run_metadata", "tagged_run_metadata", "summary",
    ]  # fmt: skip
    assert [event.step for event in events] == [0, 0, 3, 4, 4]
    read = tensorflow.compat.v1.GraphDef.FromString(events[1].graph_def)
    assert [node.name for node in read.node] == [op.name for op in graph.get_operations()]
    tagged = events[2].tagged_run_metadata
    assert (tagged.tag, tagged.run_metadata) == ("as it is", metadata.SerializeToString())
    values = {v.tag: v for v in events[4].summary.value}
    assert values["run/executions"].simple_value == len(metadata.ops)
    table = tensorflow.make_ndarray(values["top_ops"].tensor).item().decode()
    assert "`layer/product`" in table


def test_showing_a_run_loads_no_tensorflow(tmp_path):
    script = (
        "import sys\n"
        "import stepscope.tf1 as tf\n"
        "from stepscope.export import TensorBoardWriter\n"
        "metadata = tf.RunMetadata()\n"
        "with tf.Session() as session, TensorBoardWriter(sys.argv[1], session.graph) as writer:\n"
        "    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)\n"
        "    session.run(tf.ones([2]) + 1, options=options, run_metadata=metadata)\n"
        "    writer.add_run(metadata, 1)\n"
        "    writer.add_metadata_text(metadata)\n"
        "    writer.add_metadata_fields(metadata, ['all_end_rel_nanos'])\n"
        "print([m for m in ('tensorflow', 'pandas', 'pyarrow') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
    assert loaded(tmp_path).Tags()["run_metadata"] == ["step_1"]
