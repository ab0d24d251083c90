"""RunMetadata: columns and message, recording, saving, behaving like a message."""

from __future__ import annotations

import builtins
import copy
import pickle
import threading

import pytest
from tensorboard.compat.proto import config_pb2
from tensorboard.compat.proto.cost_graph_pb2 import CostGraphDef
from tensorboard.compat.proto.graph_pb2 import GraphDef

from stepscope import errors
from stepscope.metadata import (
    AllocationColumns,
    Completeness,
    InFlight,
    Loss,
    MemoryColumns,
    OpColumns,
    Overhead,
    Placement,
    Recording,
    RunMetadata,
    Status,
    TensorColumns,
    as_run_metadata_target,
    load,
)
from stepscope.options import RunOptions

T0 = 1_794_769_119_769_750_449
BIG_IDENT = 140_512_405_294_080


def columns():
    return OpColumns.build(
        name=["x", "mm", "odd", "x"],
        op=["Const", "MatMul", "PyFunc", "Const"],
        device=["/cpu:1", "/cpu:0", "/cpu:0", "/cpu:1"],
        thread=[11, BIG_IDENT, 11, 11],
        scheduled_ns=[T0 - 5, T0 + 90, T0 + 150, T0 + 2990],
        start_ns=[T0, T0 + 101, T0 + 1999, T0 + 3003],
        end_ns=[T0 + 50, T0 + 1200, T0 + 2001, T0 + 3004],
        label=["x = Const()", "mm = MatMul(x, x)", "my own words", "x = Const()"],
        thread_names={11: "MainThread", BIG_IDENT: "pool/0"},
        step=4,
        tensors=TensorColumns.build(
            op_index=[0, 1, 1],
            slot=[0, 0, 1],
            dtype=[1, 1, 9],
            shape=[(2, 2), (), None],
            bytes=[16, 4, 0],
            allocated_bytes=[64, 4, 0],
            address=[2**63 + 1, 0, 0],
            allocator=["cpu", "cpu", "bfc"],
        ),
        memory=MemoryColumns.build(
            op_index=[1],
            total_bytes=[32],
            peak_bytes=[30],
            live_bytes=[28],
            records=[[(T0 // 1000 * 1000, 32), (T0 // 1000 * 1000 + 1000, -4)]],
        ),
    )


def recording(**changes):
    parts = {
        "engine": "embedded",
        "step_id": 4,
        "status": Status(
            "DEADLINE_EXCEEDED", "too late", (InFlight("slow", "abandoned", 0), InFlight("q"))
        ),
        "completeness": Completeness((Loss("ops", 3, "run ended"),)),
        "overhead": lambda: Overhead(1234, 0.25),
        "ops": columns,
        "partition_graphs": lambda: [GraphDef(node=[{"name": "x", "op": "Const"}])],
        "cost_graph": lambda: CostGraphDef(node=[{"name": "x"}]),
        "placements": lambda: [Placement("x", "Const", "", "/cpu:1", "default")],
        "sources": lambda: {"x": "model.py:12", "mm": "C:\\code\\m.py:7"},
        "run_options": RunOptions(trace_level=3, experimental={"collective_graph_key": 9}),
    }
    return Recording(**(parts | changes))


def recorded(**changes):
    metadata = RunMetadata()
    metadata.record(recording(**changes))
    return metadata


def same_columns(left, right):
    """Whether two runs agree, whatever the order of devices."""

    def rows(ops):
        names = ("name", "op", "device", "thread", "thread_name", "label", "step", "output_bytes")
        times = ("scheduled_ns", "start_ns", "end_ns", "op_start_ns", "op_end_ns")
        return sorted(zip(*(getattr(ops, name).tolist() for name in (*names, *times)), strict=True))

    return rows(left) == rows(right)


def test_engine_columns_are_given_as_they_are():
    metadata = recorded()
    assert list(metadata.ops.name) == ["x", "mm", "odd", "x"]
    assert metadata.ops is metadata.ops
    assert metadata.ops.output_bytes.tolist() == [16, 4, 0, 0]
    assert metadata.engine == "embedded"
    assert metadata.step_id == 4
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert metadata.status.in_flight == ["slow", "q"]
    assert metadata.status.outcomes[0].outcome == "abandoned"
    assert not metadata.completeness.complete
    assert metadata.completeness.losses[0].what == "ops"
    assert (metadata.overhead.ns, metadata.overhead.fraction) == (1234, 0.25)
    assert metadata.run_options.experimental.collective_graph_key == 9
    assert metadata.placements[0].assigned == "/cpu:1"
    assert metadata.sources["x"] == "model.py:12"


def test_everything_survives_our_own_bytes():
    first = recorded()
    second = RunMetadata.FromString(first.SerializeToString())
    assert same_columns(first.ops, second.ops)
    for part in ("status", "completeness", "overhead", "engine", "step_id", "placements"):
        assert getattr(first, part) == getattr(second, part)
    assert second.sources == first.sources
    assert second.run_options == first.run_options
    assert sorted(map(str, second.ops.tensors.shape)) == sorted(map(str, first.ops.tensors.shape))
    assert sorted(second.ops.tensors.address.tolist()) == [0, 0, 2**63 + 1]
    assert list(second.ops.memory.records) == list(first.ops.memory.records)
    assert second.ops.op[list(second.ops.name).index("odd")] == "PyFunc"
    assert str(second) == str(first)
    assert first == second


def test_tensorflow_reads_it(tf):
    ours = recorded()
    theirs = tf.RunMetadata.FromString(ours.SerializeToString())
    devices = theirs.step_stats.dev_stats
    assert [device.device for device in devices] == ["/cpu:1", "/cpu:0"]
    mm = devices[1].node_stats[0]
    assert (mm.node_name, mm.timeline_label) == ("mm", "mm = MatMul(x, x)")
    assert (mm.all_start_nanos, mm.all_start_micros) == (T0 + 101, (T0 + 101) // 1000)
    assert (mm.all_end_rel_nanos, mm.op_end_rel_nanos, mm.op_start_rel_nanos) == (1099, 1099, 0)
    assert mm.all_end_rel_micros == (T0 + 1200) // 1000 - (T0 + 101) // 1000
    assert (mm.scheduled_nanos, mm.scheduled_micros) == (T0 + 90, (T0 + 90) // 1000)
    assert devices[1].thread_names[mm.thread_id] == "pool/0"
    assert devices[0].thread_names == {11: "MainThread"}
    assert mm.output[0].tensor_description.dtype == tf.float32.as_datatype_enum
    assert mm.output[1].tensor_description.shape.unknown_rank
    assert mm.memory[0].peak_bytes == 30
    assert [record.alloc_bytes for record in mm.memory[0].allocation_records] == [32, -4]
    x = devices[0].node_stats[0].output[0].tensor_description
    assert [dim.size for dim in x.shape.dim] == [2, 2]
    assert x.allocation_description.requested_bytes == 16
    assert x.allocation_description.allocated_bytes == 64
    assert len(theirs.partition_graphs) == 1
    assert theirs.cost_graph.node[0].name == "x"
    # TensorFlow skips what is ours, and gives it back unharmed.
    back = RunMetadata.FromString(theirs.SerializeToString())
    assert back.status == ours.status
    assert same_columns(back.ops, ours.ops)
    theirs.DiscardUnknownFields()
    assert ours == theirs
    assert RunMetadata.FromString(theirs.SerializeToString()).status.code == "OK"


def test_tensorflows_timeline_draws_it(tensorflow):
    from tensorflow.python.client import timeline

    trace = timeline.Timeline(recorded().step_stats).generate_chrome_trace_format()
    for name in ("MatMul", "Const"):
        assert f'"name": "{name}"' in trace


def test_tensorboard_reads_it():
    theirs = config_pb2.RunMetadata.FromString(recorded().SerializeToString())
    assert [len(device.node_stats) for device in theirs.step_stats.dev_stats] == [2, 2]


def test_real_captures_round_trip(capture, tf):
    data, facts = capture
    metadata = RunMetadata.FromString(data)
    theirs = tf.RunMetadata.FromString(data)
    assert metadata == theirs
    # Maps have no order of their own on the wire.
    in_order = {"deterministic": True}
    assert metadata.SerializeToString(**in_order) == theirs.SerializeToString(**in_order)
    assert tf.RunMetadata.FromString(metadata.SerializeToString()) == theirs
    ops = metadata.ops
    assert len(ops) == facts["num_nodes"]
    assert set(ops.device) == {device["device"] for device in facts["devices"]}
    assert len(ops.tensors) == facts["output_entries"]
    assert len(ops.memory) == facts["memory_entries"]
    allocated = {}
    for allocator, total in zip(ops.memory.allocator, ops.memory.total_bytes, strict=True):
        allocated[allocator] = allocated.get(allocator, 0) + int(total)
    assert allocated == facts["alloc_total_bytes_by_allocator"]
    # TensorFlow's own timeline is the oracle for op types and for the microseconds it draws.
    drawn = facts["chrome"]["show_dataflow=False,show_memory=False"]
    types = {op: list(ops.op).count(op) for op in set(ops.op)}
    assert types == drawn["x_names"]
    assert int(ops.start_ns.min()) // 1000 == drawn["x_min_ts"]
    assert (ops.end_ns >= ops.start_ns).all()
    assert (ops.scheduled_ns <= ops.start_ns).all()
    assert metadata.status.code == "OK"
    assert metadata.completeness.complete
    assert metadata.overhead == Overhead()


def test_nanoseconds_count_where_they_are_there():
    metadata = RunMetadata()
    nodes = metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats
    nodes.add(
        node_name="nanos",
        all_start_micros=5,
        all_start_nanos=5_400,
        op_start_rel_nanos=10,
        op_end_rel_nanos=20,
        all_end_rel_nanos=30,
        scheduled_nanos=5_100,
    )
    nodes.add(node_name="RecvTensor", all_start_micros=7, op_end_rel_micros=2, all_end_rel_micros=2)
    ops = metadata.ops
    assert ops.start_ns.tolist() == [5_400, 7_000]
    assert ops.end_ns.tolist() == [5_430, 9_000]
    assert ops.op_start_ns.tolist() == [5_410, 7_000]
    assert ops.op_end_ns.tolist() == [5_420, 9_000]
    assert ops.scheduled_ns.tolist() == [5_100, 7_000]
    assert list(ops.op) == ["unknown", "RecvTensor"]


def test_absurd_numbers_of_a_damaged_file_are_bounded():
    metadata = RunMetadata()
    node = metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add(node_name="a")
    node.all_start_micros = node.all_end_rel_micros = 2**63 - 1
    node.memory.add().allocation_records.add(alloc_micros=-(2**63), alloc_bytes=1)
    node.output.add().tensor_description.dtype = 1
    for _ in range(2):
        node.output[0].tensor_description.shape.dim.add(size=2**40)
    # No further apart than what a number can hold.
    assert metadata.ops.end_ns.tolist() == [2**63 - 1 - 2**60]
    assert metadata.allocations.time_ns.tolist() == [-(2**60)]
    assert metadata.ops.output_bytes.tolist() == [2**63 - 1]


def test_output_without_allocation_has_the_bytes_of_its_shape():
    metadata = RunMetadata()
    node = metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add(node_name="a")
    description = node.output.add().tensor_description
    description.dtype = 102
    description.shape.dim.add(size=3)
    assert metadata.ops.output_bytes.tolist() == [24]


def test_what_is_written_to_the_message_shows_in_the_columns():
    metadata = recorded()
    before = metadata.ops
    step_stats = metadata.step_stats
    assert metadata.ops is before
    step_stats.dev_stats[1].node_stats[0].node_name = "renamed"
    assert "renamed" in metadata.ops.name
    assert metadata.ops is metadata.ops
    del step_stats.dev_stats[0]
    assert list(metadata.ops.name) == ["renamed", "odd"]
    # Op types, threads and steps that are ours alone are still known.
    assert list(metadata.ops.op) == ["MatMul", "PyFunc"]
    assert metadata.ops.thread.tolist() == [BIG_IDENT, 11]
    assert metadata.ops.step.tolist() == [4, 4]
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert RunMetadata.FromString(metadata.SerializeToString()).ops.name.tolist() == [
        "renamed",
        "odd",
    ]
    metadata.partition_graphs.add(node=[{"name": "extra"}])
    assert len(RunMetadata.FromString(metadata.SerializeToString()).partition_graphs) == 2
    metadata.ClearField("step_stats")
    assert len(metadata.ops) == 0
    assert metadata.engine == "embedded"


def test_a_recording_replaces_and_never_appends():
    metadata = recorded()
    assert len(metadata.ops) == 4
    assert len(metadata.partition_graphs) == 1
    metadata.record(Recording(engine="embedded", step_id=5))
    assert len(metadata.ops) == 0
    assert len(metadata.partition_graphs) == 0
    assert not metadata.HasField("step_stats")
    assert metadata.status.ok
    assert metadata.run_options is None


def test_nothing_is_decoded_until_somebody_looks():
    calls = []

    def counted(name, result):
        def produce():
            calls.append(name)
            return result

        return produce

    metadata = recorded(
        ops=counted("ops", columns()),
        partition_graphs=counted("graphs", []),
        overhead=counted("overhead", Overhead(1, 0.1)),
        placements=counted("placements", []),
    )
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert calls == []
    assert len(metadata.partition_graphs) == 0
    assert calls == ["graphs"]
    assert metadata.overhead.ns == 1
    for _ in range(3):
        metadata.SerializeToString()
        _ = metadata.ops, metadata.overhead, metadata.step_stats, metadata.placements
    assert sorted(calls) == ["graphs", "ops", "overhead", "placements"]


def test_two_readers_at_once_decode_once():
    calls = []
    gate = threading.Barrier(8)
    metadata = recorded(ops=lambda: calls.append(1) or columns())
    seen = []

    def read():
        gate.wait()
        seen.append((metadata.ops, len(metadata.step_stats.dev_stats)))

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(calls) == 1
    assert len({id(ops) for ops, _ in seen}) == 1
    assert {devices for _, devices in seen} == {2}


def test_equality_is_of_tensorflows_fields():
    assert recorded() == recorded(engine="other", status=Status())
    assert recorded() != recorded(ops=lambda: columns()[[0, 1]])
    assert RunMetadata() == config_pb2.RunMetadata()
    assert recorded() != config_pb2.RunMetadata()
    assert RunMetadata() != 3


def test_it_behaves_like_a_message(tf):
    metadata = RunMetadata()
    assert not metadata.HasField("step_stats")
    assert metadata.ByteSize() == 0
    metadata.CopyFrom(tf.RunMetadata(step_stats={"dev_stats": [{"device": "/cpu:0"}]}))
    assert metadata.HasField("step_stats")
    assert [field.name for field, _ in metadata.ListFields()] == ["step_stats"]
    metadata.MergeFrom(config_pb2.RunMetadata(step_stats={"dev_stats": [{"device": "/cpu:1"}]}))
    assert [device.device for device in metadata.step_stats.dev_stats] == ["/cpu:0", "/cpu:1"]
    metadata.step_stats = tf.RunMetadata().step_stats
    assert len(metadata.step_stats.dev_stats) == 0
    other = RunMetadata(partition_graphs=[GraphDef(node=[{"name": "n"}])])
    assert other.partition_graphs[0].node[0].name == "n"
    assert metadata.ParseFromString(other.SerializeToString()) == other.ByteSize()
    assert metadata == other
    metadata.Clear()
    assert metadata == RunMetadata()
    assert "step_stats" in str(recorded())
    for back in (pickle.loads(pickle.dumps(recorded())), copy.deepcopy(recorded())):
        assert same_columns(back.ops, columns())
        assert back.status.message == "too late"
    with pytest.raises(AttributeError, match=r"RunMetadata has no field 'step_stat'; did you mean"):
        _ = metadata.step_stat
    with pytest.raises(AttributeError, match=r"RunMetadata.status is what a run recorded and cann"):
        metadata.status = Status()
    with pytest.raises(ValueError, match=r"RunMetadata.engine is what a run recorded"):
        RunMetadata(engine="x")


def test_repr_is_one_line():
    assert repr(recorded()) == (
        "<RunMetadata: 4 ops, 2 devices, engine embedded, DEADLINE_EXCEEDED: too late, "
        "in flight: slow, q, 1 declared loss>"
    )
    assert repr(RunMetadata()) == "<RunMetadata: 0 ops, OK>"


def test_peak_bytes():
    from_records = recorded()
    assert from_records.peak_bytes() == from_records.peak_bytes("/cpu:0") == 32
    assert from_records.peak_bytes("/cpu:1") == 0
    counted = recorded(peak_bytes=lambda: {"/cpu:0": 100, "/cpu:1": 50})
    assert (counted.peak_bytes(), counted.peak_bytes("/cpu:1")) == (150, 50)
    together = recorded(peak_bytes=lambda: {"/cpu:0": 100, "/cpu:1": 50, "": 120})
    assert RunMetadata.FromString(together.SerializeToString()).peak_bytes() == 120
    without_records = RunMetadata()
    nodes = without_records.step_stats.dev_stats.add(device="/cpu:0").node_stats
    nodes.add(node_name="a").memory.add(allocator_name="cpu", peak_bytes=9)
    assert without_records.peak_bytes() == without_records.peak_bytes("/cpu:0") == 9
    assert without_records.peak_bytes("/cpu:1") == 0
    assert RunMetadata().peak_bytes() == 0


def test_allocations_come_from_the_records_or_from_the_engine():
    rows = recorded().allocations
    assert list(rows.name) == ["mm", "mm"]
    assert rows.bytes.tolist() == [32, -4]
    assert list(rows.device) == ["/cpu:0", "/cpu:0"]
    log = AllocationColumns.build(
        name=["mm", "x"], device=["/cpu:0"] * 2, time_ns=[T0, T0 + 1], bytes=[8, -8], address=[1, 1]
    )
    logged = recorded(allocations=lambda: log)
    back = RunMetadata.FromString(logged.SerializeToString())
    assert list(back.allocations.name) == ["mm", "x"]
    assert back.allocations.time_ns.tolist() == [T0, T0 + 1]
    assert back.allocations.bytes.tolist() == [8, -8]
    assert back.allocations.address.tolist() == [1, 1]
    assert back.peak_bytes() == 8


@pytest.mark.parametrize("name", ["/cpu:0", "CPU:0", "/device:CPU:0", "cpu", "/task:0/cpu:0"])
def test_a_device_may_be_named_in_short(name):
    full = "/job:localhost/replica:0/task:0/device:CPU:0"
    other = full[:-1] + "1"
    log = AllocationColumns.build(
        name=["a", "b"], device=[full, other], time_ns=[T0, T0 + 1], bytes=[8, 4]
    )
    run = recorded(allocations=lambda: log, peak_bytes=lambda: {full: 8, other: 4, "": 12})
    assert run.peak_bytes(name) == 8
    assert list(run.alive_at_peak(name).name) == ["a"]
    assert run.peak_bytes("/gpu:9") == 0
    assert run.peak_bytes() == run.peak_bytes("") == 12
    assert list(run.alive_at_peak("").name) == ["a", "b"]
    with pytest.raises(TypeError, match="by its name"):
        run.peak_bytes(3)


def test_every_column_of_allocations_and_of_the_log_survives():
    everything = AllocationColumns.build(
        name=["v", "mm", "big", "mm"],
        device=["/cpu:0"] * 4,
        event=["held", "allocate", "failed", "free"],
        kind=["variable", "temporary", "temporary", "temporary"],
        time_ns=[T0 - 9, T0, T0 + 1, T0 + 2],
        bytes=[40, 8, 4000, -8],
        address=[2**63 + 1, 16, 0, 16],
        slot=[0, 1, 0, 1],
        dtype=[1, 3, 1, 3],
        shape=[(), (2, 1), None, (2, 1)],
        step=[3, 7, 7, 7],
    )
    run = recorded(allocations=lambda: everything, allocation_log=lambda: everything.select([1, 2]))
    back = RunMetadata.FromString(run.SerializeToString())
    for column in ("name", "device", "event", "kind", "shape"):
        assert list(getattr(back.allocations, column)) == list(getattr(everything, column))
    for column in ("time_ns", "bytes", "address", "slot", "dtype", "step"):
        assert getattr(back.allocations, column).tolist() == getattr(everything, column).tolist()
    assert back.allocations.devices.table == ("/cpu:0",)
    assert list(back.allocation_log.name) == ["mm", "big"]
    assert list(back.allocation_log.event) == ["allocate", "failed"]
    assert back.peak_bytes() == 48
    assert list(back.alive_at_peak().name) == ["v", "mm"]
    assert list(back.alive_at_peak().shape) == [(), (2, 1)]


def test_steps_of_merged_rows_survive():
    ops = columns()
    ops.step[:] = [1, 2, 3, 4]
    back = RunMetadata.FromString(recorded(ops=lambda: ops).SerializeToString())
    assert dict(zip(back.ops.start_ns - T0, back.ops.step, strict=True)) == {
        0: 1,
        101: 2,
        1999: 3,
        3003: 4,
    }


def test_large_thread_identifiers_do_not_collide():
    from stepscope.metadata.wire.encode import wire_thread_ids

    idents = [5, 2**32 + 4, 2**33 + 7, -1, BIG_IDENT, 0]
    given = wire_thread_ids(idents)
    assert given[5] == 5
    assert given[0] == 0
    assert len(set(given.values())) == len(idents)
    assert all(0 <= wire < 2**32 for wire in given.values())
    assert wire_thread_ids(reversed(idents)) == given


def test_to_pandas():
    pandas = pytest.importorskip("pandas")
    frame = recorded().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc[frame["op"] == "MatMul", "end_ns"].tolist() == [T0 + 1200]
    assert frame["thread_name"].tolist() == ["MainThread", "pool/0", "MainThread", "MainThread"]


def test_to_pandas_without_pandas_says_what_to_do(monkeypatch):
    real = builtins.__import__

    def without_pandas(name, *args, **kwargs):
        if name.split(".")[0] == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(ImportError, match=r"to_pandas.. needs pandas, which is not installed"):
        RunMetadata().to_pandas()


def test_targets(tf, tmp_path):
    ours = RunMetadata()
    assert as_run_metadata_target(ours).deliver(recording()) is ours
    for theirs in (tf.RunMetadata(), config_pb2.RunMetadata()):
        theirs.step_stats.dev_stats.add(device="old")
        target = as_run_metadata_target(theirs)
        delivered = target.deliver(recording())
        assert target.asked_for
        assert delivered.status.code == "DEADLINE_EXCEEDED"
        assert [d.device for d in theirs.step_stats.dev_stats] == ["/cpu:1", "/cpu:0"]
    nobody = as_run_metadata_target(None)
    assert not nobody.asked_for
    assert len(nobody.deliver(recording()).ops) == 4
    for wrong in ({}, "x", RunMetadata, RunOptions()):
        with pytest.raises(TypeError, match=r"found .*; pass stepscope.RunMetadata\(\)"):
            as_run_metadata_target(wrong)


def test_save_and_load(tmp_path, tf):
    path = recorded().save(tmp_path / "run_metadata.pb")
    assert path == tmp_path / "run_metadata.pb"
    back = load(path)
    assert back.status == recorded().status
    assert same_columns(back.ops, columns())
    assert str(back) == str(recorded())
    theirs = tf.RunMetadata.FromString(path.read_bytes())
    assert len(theirs.step_stats.dev_stats) == 2
    assert list(tmp_path.iterdir()) == [path]
    RunMetadata().save(path)
    assert len(load(path).ops) == 0


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "run_metadata.pb"
    recorded().save(path)

    def broken():
        raise errors.InternalError(None, None, "no columns")

    with pytest.raises(errors.InternalError):
        recorded(ops=broken).save(path)
    with pytest.raises(FileExistsError):
        recorded().save(path / "x.pb")
    assert len(load(path).ops) == 4
    assert list(tmp_path.iterdir()) == [path]


def test_outcome_values_are_checked():
    with pytest.raises(
        ValueError, match=r"outcome of 'a' is 'lost'; allowed are .*'cancelled', 'aba"
    ):
        InFlight("a", "lost")
    with pytest.raises(ValueError, match="'LATE' is no error code"):
        Status("LATE")
    assert Completeness().complete
