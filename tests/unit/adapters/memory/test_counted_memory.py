"""Memory as our executor counts it, beside what TensorFlow's own step stats tell of a run."""

import ctypes

import numpy as np
import pytest

import stepscope
from stepscope.adapters import tensorflow as adapter
from stepscope.metadata import MEMORY_OF_KERNELS, MEMORY_OF_THE_SYSTEM, iter_runs
from stepscope.store import Store

FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
SOFTWARE = stepscope.RunOptions(trace_level=stepscope.RunOptions.SOFTWARE_TRACE)


def training(v1):
    """A graph of kernels that put out, reuse, keep and take for themselves."""
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(v1.float32, [8, 16, 16, 4], name="x")
        filters = v1.get_variable("filters", [3, 3, 4, 8], use_resource=True)
        y = v1.nn.relu(v1.nn.conv2d(x, filters, 1, "SAME", name="conv"))
        # Where neither axis is the inner one, the kernel turns its input around in a buffer.
        total = v1.reduce_sum(v1.sort(y, axis=1), axis=[0, 2], name="total")
        loss = v1.reduce_mean(total**2, name="loss")
        train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        v1.global_variables_initializer()
    return graph, {"x:0": np.ones((8, 16, 16, 4), np.float32)}, [loss, train]


@pytest.fixture
def graph_and_session(tensorflow, prepared):
    graph, feed, fetches = training(tensorflow.compat.v1)
    with adapter.Session(graph=graph) as session:
        session.run("init")
        yield graph, feed, fetches, session


def used(memory, names):
    """Total, peak and live bytes of each op that took memory."""
    columns = memory.total_bytes, memory.peak_bytes, memory.live_bytes
    return {
        name: numbers
        for name, *numbers in zip(
            names[memory.op_index], *(column.tolist() for column in columns), strict=True
        )
    }


def test_each_op_took_what_tensorflows_own_step_stats_say(tensorflow, graph_and_session):
    v1 = tensorflow.compat.v1
    graph, feed, fetches, session = graph_and_session
    ours, theirs = stepscope.RunMetadata(), v1.RunMetadata()
    session.run(fetches, feed, options=FULL, run_metadata=ours)
    with v1.Session(graph=graph) as plain:
        plain.run("init")
        plain.run(fetches, feed, v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), theirs)
    assert ours.recorder == "executor"
    told = stepscope.RunMetadata.FromString(theirs.SerializeToString()).ops
    found = used(ours.ops.memory, ours.ops.name)
    assert found == used(told.memory, told.name)
    total, peak, live = found["total"]
    assert live == 16 * 8 * 4
    assert total == peak == 8 * 16 * 16 * 8 * 4 + live
    # In TensorFlow's bytes they are where its own programs look for them.
    stats = v1.RunMetadata.FromString(ours.SerializeToString()).step_stats
    nodes = {node.node_name: node for device in stats.dev_stats for node in device.node_stats}
    (memory,) = nodes["total"].memory
    assert (memory.total_bytes, memory.peak_bytes, memory.live_bytes) == (total, peak, live)
    assert sorted(record.alloc_bytes for record in memory.allocation_records) == sorted(
        [live, total - live, live - total, -live]
    )


def test_the_curve_is_what_was_taken_and_given_back(graph_and_session):
    _, feed, fetches, session = graph_and_session
    metadata = stepscope.RunMetadata()
    session.run(fetches, feed, options=FULL, run_metadata=metadata)
    rows = metadata.allocations
    assert (rows.live() >= 0).all()
    assert rows.bytes[rows.bytes > 0].sum() == metadata.ops.memory.total_bytes.sum()
    freed = rows.freed_by()
    gone = np.flatnonzero(freed >= 0)
    assert (rows.bytes[gone] == -rows.bytes[freed[gone]]).all()
    assert len(gone) == (rows.event == "free").sum()
    assert (rows.time_ns[gone] <= rows.time_ns[freed[gone]]).all()
    assert rows.alive_at(rows.peak_row()).bytes.sum() == metadata.peak_bytes()
    # An op's rows are inside of it, but for what it put out.
    (own,) = np.flatnonzero(metadata.ops.name == "total")
    of_total = rows.select(rows.name == "total")
    assert metadata.ops.start_ns[own] <= of_total.time_ns[0]
    assert of_total.time_ns[2] <= metadata.ops.end_ns[own]
    assert {tuple(shape) for shape in of_total.shape if shape is not None} == {(16, 8)}
    what = {loss.what for loss in metadata.completeness.losses}
    assert MEMORY_OF_THE_SYSTEM in what
    assert MEMORY_OF_KERNELS not in what


def test_a_store_has_it(graph_and_session, tmp_path):
    _, feed, fetches, session = graph_and_session
    made = []
    with Store(tmp_path) as store:
        for _ in range(3):  # alike runs are stored as what is their own
            made.append(stepscope.RunMetadata())
            session.run(fetches, feed, options=FULL, run_metadata=made[-1])
            store.add(made[-1], "step")
    for ours, run in zip(made, iter_runs(tmp_path), strict=True):
        kept = run.metadata
        assert kept.peak_bytes() == ours.peak_bytes() > 0
        assert used(kept.ops.memory, kept.ops.name) == used(ours.ops.memory, ours.ops.name)
        assert kept.ops.memory.records.tolist() == ours.ops.memory.records.tolist()
        for column in ("name", "time_ns", "bytes", "slot", "shape"):
            ours_has, kept_has = (getattr(run.allocations, column) for run in (ours, kept))
            assert kept_has.tolist() == ours_has.tolist()


def test_software_traces_count_nothing(graph_and_session):
    _, feed, fetches, session = graph_and_session
    metadata = stepscope.RunMetadata()
    session.run(fetches, feed, options=SOFTWARE, run_metadata=metadata)
    assert metadata.recorder == "executor"
    assert len(metadata.ops.memory) == len(metadata.allocations) == 0


def test_loops_are_counted_by_execution(tensorflow, prepared):
    @tensorflow.function
    def loop(x):
        for _ in tensorflow.range(5):
            x = tensorflow.concat([x[100:], x[:100]], 0, name="turned")
        return tensorflow.reduce_sum(x)

    x = tensorflow.ones([300])
    loop(x)
    metadata = stepscope.RunMetadata()
    adapter.run(loop, x, options=FULL, run_metadata=metadata)
    assert metadata.recorder == "executor"
    rows = metadata.allocations
    turned = rows.select([name.endswith("turned") for name in rows.name])
    assert turned.event.tolist() == ["allocate", "free"] * 5
    assert turned.bytes.tolist() == [1200, -1200] * 5
    assert metadata.peak_bytes() < 4 * 1200
    assert not metadata.completeness.memory_is_estimated


def test_what_python_put_out_is_an_estimate(tensorflow, prepared):
    def numbers():
        return np.ones(5000, np.float32)

    with tensorflow.Graph().as_default() as graph:
        made = tensorflow.numpy_function(numbers, [], tensorflow.float32, name="made")
        fetch = tensorflow.concat([made, made], 0)
    metadata = stepscope.RunMetadata()
    with adapter.Session(graph=graph) as session:
        session.run(fetch, options=FULL, run_metadata=metadata)
    assert metadata.completeness.memory_is_estimated
    assert metadata.peak_bytes() >= 60_000


def test_an_op_that_failed_has_what_it_took(tensorflow, prepared):
    with tensorflow.Graph().as_default() as graph:
        given = tensorflow.compat.v1.placeholder(tensorflow.float32, [1000])
        doubled = tensorflow.concat([given, given], 0, name="doubled")
        checked = tensorflow.debugging.check_numerics(doubled, "no number", name="checked")
    metadata = stepscope.RunMetadata()
    with (
        adapter.Session(graph=graph) as session,
        pytest.raises(stepscope.errors.InvalidArgumentError),
    ):
        session.run(checked, {given: [np.nan] * 1000}, options=FULL, run_metadata=metadata)
    assert metadata.peak_bytes() == 8000
    assert metadata.allocations.name.tolist() == ["doubled", "doubled"]


def test_values_stay_and_nothing_of_the_counting(tensorflow, graph_and_session):
    graph, feed, fetches, session = graph_and_session
    loss = fetches[0]
    with adapter.Session(graph=graph) as plain:
        for one in (session, plain):
            one.run("init")
        for variable in graph.get_collection("variables"):
            variable.load(plain.run(variable), session)
        expected = [plain.run(fetches, feed)[0] for _ in range(5)]
    found = [session.run(fetches, feed, options=FULL)[0] for _ in range(5)]
    assert np.array_equal(found, expected)

    def in_use():
        info = (ctypes.c_size_t * 10)()
        mallinfo = ctypes.CDLL(None).mallinfo2
        mallinfo.restype = type("Info", (ctypes.Structure,), {"_fields_": [("all", type(info))]})
        return mallinfo().all[7]

    def runs(count):
        for _ in range(count):
            session.run(loss, feed, options=FULL)
        return in_use()

    runs(50)
    before = runs(50)
    # Each run has some thirty wrappers of allocators, 250 bytes each.
    assert runs(200) - before < 200 * 30 * 25
