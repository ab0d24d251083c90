"""`trace_level`: what each level records."""

import threading

import numpy as np
import pytest
from contract_engines import SessionEngine

import stepscope
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

LEVELS = ["SOFTWARE_TRACE", "HARDWARE_TRACE", "FULL_TRACE"]
NODES = {"y": "MatMul", "z": "AddV2"}


def small_net(ops):
    x = ops.placeholder(ops.float32, [None, 3], name="x")
    y = ops.matmul(x, ops.constant(np.ones((3, 2), np.float32), name="w"), name="y")
    z = ops.add(y, ops.constant([1.0, 2.0], name="b"), name="z")
    return {"x": x, "y": y, "z": z}


@pytest.fixture
def net(engine):
    return engine.start(small_net)


FED = {"x": np.ones((4, 3), np.float32)}


def stats_of(program, metadata, node):
    """The message of the step stats that describes an execution of the node."""
    shown = metadata.ops.name[program.rows(metadata)[node]]
    nodes = {n.node_name: n for n in metadata.step_stats.dev_stats[0].node_stats}
    return nodes[shown]


def test_no_trace_records_no_ops_and_says_how_the_run_ended(net):
    metadata = RunMetadata()
    net.run("z", FED, RunOptions(trace_level=RunOptions.NO_TRACE), metadata)
    assert len(metadata.ops) == 0
    assert not metadata.step_stats.dev_stats
    assert metadata.status.code == "OK"
    assert metadata.completeness.complete


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_has_every_executed_node_with_its_times(engine, net, level):
    metadata = net.traced("z", FED, trace_level=RunOptions.TraceLevel.Value(level))
    ops, row = metadata.ops, net.rows(metadata)
    assert set(NODES) <= set(row)
    for name, op in NODES.items():
        assert ops.op[row[name]] == op
        assert ops.device[row[name]].endswith("CPU:0")
    assert (ops.scheduled_ns <= ops.start_ns).all()
    assert (ops.start_ns <= ops.end_ns).all()
    assert ops.end_ns[row["y"]] <= ops.start_ns[row["z"]]
    assert ops.end_ns[row["y"]] > ops.start_ns[row["y"]]
    assert not engine.losses(metadata)


@pytest.mark.parametrize("level", LEVELS)
def test_thread_ids_and_thread_names_are_filled(net, level):
    metadata = net.traced("z", FED, trace_level=RunOptions.TraceLevel.Value(level))
    # Of threads that are not its own Python makes up names.
    own = (t for t in threading.enumerate() if not isinstance(t, threading._DummyThread))
    known = {t.native_id: t.name for t in own}
    for thread, name in zip(metadata.ops.thread, metadata.ops.thread_name, strict=True):
        assert thread > 0
        assert name == known.get(thread, name)
        assert name
    stats = metadata.step_stats.dev_stats[0]
    assert {n.thread_id for n in stats.node_stats} <= set(stats.thread_names)
    assert all(stats.thread_names.values())


def test_the_embedded_engine_s_threads_are_python_s(embedded):
    metadata = embedded.start(small_net).traced("z", FED)
    # Of threads that are not its own Python makes up names.
    own = (t for t in threading.enumerate() if not isinstance(t, threading._DummyThread))
    known = {t.native_id: t.name for t in own}
    for thread, name in zip(metadata.ops.thread, metadata.ops.thread_name, strict=True):
        assert name == known[thread]


def test_times_are_of_this_moment_in_nanoseconds(net):
    import time

    before = time.time_ns()
    metadata = net.traced("z", FED)
    after = time.time_ns()
    slack = 1_000_000
    assert metadata.ops.start_ns.min() >= before - slack
    assert metadata.ops.end_ns.max() <= after + slack


@pytest.mark.parametrize("level", ["SOFTWARE_TRACE", "HARDWARE_TRACE"])
def test_software_and_hardware_hold_no_tensors_and_no_memory(net, level):
    metadata = net.traced("z", FED, trace_level=RunOptions.TraceLevel.Value(level))
    assert metadata.ops.output_bytes.sum() == 0
    for stats in metadata.step_stats.dev_stats:
        for node in stats.node_stats:
            assert not node.output
            assert not node.memory


def test_full_describes_the_output_tensors(engine, net):
    metadata = net.traced("z", FED)
    row = net.rows(metadata)
    assert metadata.ops.output_bytes[row["y"]] == 4 * 2 * 4
    node = stats_of(net, metadata, "z")
    described = node.output[0].tensor_description
    assert [d.size for d in described.shape.dim] == [4, 2]
    assert described.dtype == 1
    assert described.allocation_description.requested_bytes == 32
    shown = metadata.ops.name[row["z"]]
    assert node.timeline_label.startswith(f"{shown} = AddV2(")
    if isinstance(engine, SessionEngine):
        assert node.timeline_label.startswith("z = AddV2(y, b")


def with_variable(ops):
    x = ops.placeholder(ops.float32, [None, 3], name="x")
    w = ops.Variable(np.ones((3, 2), np.float32), name="w", use_resource=False)
    y = ops.matmul(x, w, name="y")
    return {
        "x": x, "z": ops.add(y, ops.constant([1.0, 2.0], name="b"), name="z"),
        "init": ops.global_variables_initializer(),
    }  # fmt: skip


def test_full_records_what_ops_allocated_and_says_what_it_cannot_know(engine, net):
    metadata = net.traced("z", FED)
    shown = metadata.ops.name[net.rows(metadata)["y"]]
    found = metadata.allocations
    made = [
        int(size)
        for name, event, size in zip(found.name, found.event, found.bytes, strict=True)
        if (name, event) == (shown, "allocate")
    ]
    assert 32 in made
    assert metadata.peak_bytes() >= 32
    lost = {loss.what for loss in metadata.completeness.losses}
    assert lost - engine.may_be_lost == engine.always_lost


def test_what_the_embedded_engine_says_of_memory(embedded):
    program = embedded.start(with_variable)
    program.run("init")
    metadata = program.traced("z", FED)
    row = program.rows(metadata)
    assert metadata.ops.op[row["w/read"]] == "Identity"
    assert metadata.ops.output_bytes[row["w/read"]] == 3 * 2 * 4
    nodes = {n.node_name: n for n in metadata.step_stats.dev_stats[0].node_stats}
    (memory,) = nodes["y"].memory
    assert memory.allocator_name == "cpu"
    assert memory.total_bytes == 32
    assert sum(r.alloc_bytes for r in memory.allocation_records) == 0, "freed when z had read it"
    described = nodes["z"].output[0].tensor_description
    assert described.allocation_description.allocator_name == "cpu"
    assert not nodes["w/read"].memory, "a variable's own memory is not allocated again"


def test_full_knows_shapes_that_only_the_run_could_tell(engine):
    def build(ops):
        x = ops.placeholder(ops.float32, [None], name="x")
        kept = ops.py_func(lambda v: v[v > 0], [x], ops.float32, name="kept")
        return {"x": x, "twice": ops.add(kept, kept, name="twice")}

    program = engine.start(build)
    for positive in (1, 3):
        values = np.array([1.0] * positive + [-1.0], np.float32)
        metadata = program.traced("twice", {"x": values})
        row = program.rows(metadata)
        assert metadata.ops.output_bytes[row["kept"]] == 4 * positive
        assert metadata.ops.output_bytes[row["twice"]] == 4 * positive


def test_an_unknown_level_is_an_error_that_names_it(engine):
    with pytest.raises(engine.errors.InvalidArgumentError, match=r"trace_level.*7"):
        RunOptions(trace_level=7)


def test_the_run_says_where_each_op_was_placed_and_where_it_was_defined(session_engine):
    metadata = session_engine.start(small_net).traced("z", FED)
    placed = {p.node: p for p in metadata.placements}
    assert placed["y"].assigned.endswith("CPU:0")
    assert placed["y"].reason == "default"
    assert "test_contract_trace_levels.py:" in metadata.sources["y"]


def test_a_function_says_where_its_ops_were_defined(tensorflow):
    function = tensorflow.function(lambda x: tensorflow.add(x, 1.0, name="z"))
    metadata = RunMetadata()
    stepscope.run(
        function.get_concrete_function(tensorflow.ones([2])), tensorflow.ones([2]),
        options=RunOptions(trace_level=3), run_metadata=metadata,
    )  # fmt: skip
    assert "test_contract_trace_levels.py:" in metadata.sources["z"]
