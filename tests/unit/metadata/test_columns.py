"""Columns: building, selecting, summing."""

from __future__ import annotations

import os

import numpy as np
import pytest

from stepscope.metadata import (
    AllocationColumns,
    MemoryColumns,
    OpColumns,
    Recording,
    RunMetadata,
    TensorColumns,
    load,
)
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.labels import make_label, parse_label


def three_ops(**changes):
    columns = {
        "name": ["a", "b", "a"],
        "op": ["Const", "MatMul", "Const"],
        "device": ["/cpu:0", "/cpu:1", "/cpu:0"],
        "thread": [7, 8, 7],
        "scheduled_ns": [90, 190, 290],
        "start_ns": [100, 200, 300],
        "end_ns": [150, 250, 350],
        "thread_names": {7: "main", 8: "pool/0"},
        "tensors": TensorColumns.build(
            op_index=[0, 1, 1],
            slot=[0, 0, 1],
            dtype=[1, 1, 9],
            shape=[(2, 2), (), (-1, 3)],
            bytes=[16, 4, 24],
        ),
        "memory": MemoryColumns.build(
            op_index=[1],
            total_bytes=[32],
            peak_bytes=[32],
            live_bytes=[28],
            records=[[(210, 32), (220, -4)]],
        ),
    }
    return OpColumns.build(**(columns | changes))


def test_what_was_put_in_comes_out():
    ops = three_ops(step=5)
    assert len(ops) == 3
    assert list(ops.name) == ["a", "b", "a"]
    assert list(ops.op) == ["Const", "MatMul", "Const"]
    assert list(ops.device) == ["/cpu:0", "/cpu:1", "/cpu:0"]
    assert list(ops.thread_name) == ["main", "pool/0", "main"]
    assert list(ops.label) == ["a = Const()", "b = MatMul()", "a = Const()"]
    assert ops.names_table == ("a", "b")
    assert ops.names.codes.tolist() == [0, 1, 0]
    assert ops.output_bytes.tolist() == [16, 28, 0]
    assert ops.step.tolist() == [5, 5, 5]
    assert ops.op_start_ns is ops.start_ns
    for column in ("thread", "scheduled_ns", "start_ns", "end_ns", "output_bytes", "step"):
        assert getattr(ops, column).dtype == np.int64
    assert ops.name.dtype == object
    assert ops.name is ops.name
    assert repr(ops) == "<OpColumns: 3 executions of 2 nodes on 2 devices>"


def test_nanoseconds_since_the_epoch_stay_exact():
    moment = 1_794_769_119_769_750_449
    ops = three_ops(start_ns=[moment, moment + 1, moment + 2])
    assert (ops.start_ns - moment).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "rows", [np.array([False, True, True]), [1, 2], slice(1, None), np.array([1, 2])]
)
def test_selecting_rows_takes_their_tensors_along(rows):
    part = three_ops()[rows]
    assert list(part.name) == ["b", "a"]
    assert part.start_ns.tolist() == [200, 300]
    assert part.tensors.op_index.tolist() == [0, 0]
    assert list(part.tensors.shape) == [(), (-1, 3)]
    assert part.output_bytes.tolist() == [28, 0]
    assert part.memory.op_index.tolist() == [0]
    assert list(part.thread_name) == ["pool/0", "main"]


def test_selecting_in_another_order():
    part = three_ops()[[2, 1]]
    assert list(part.name) == ["a", "b"]
    assert part.output_bytes.tolist() == [0, 28]


def test_one_row_is_no_selection():
    with pytest.raises(TypeError, match="selected by a mask, a list of indices or a slice"):
        three_ops()[0]


def test_names_that_utf8_cannot_hold_are_written_with_escapes(tmp_path):
    # As `os.fsdecode` gives the name of a file that is not UTF-8.
    odd = os.fsdecode(b"caf\xe9")
    ops = OpColumns.build(
        name=[odd, "größe"], op=["Annotation", "Add"], device=["/cpu:0", odd], thread=[7, 7],
        thread_names={7: odd}, scheduled_ns=[0, 0], start_ns=[1, 2], end_ns=[3, 4],
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops, sources=lambda: {"größe": odd}))
    again = load(metadata.save(tmp_path / "run.pb"))
    assert list(again.ops.name) == ["caf\\xe9", "größe"]
    assert list(again.ops.device) == ["/cpu:0", "caf\\xe9"]
    assert list(again.ops.thread_name) == ["caf\\xe9", "caf\\xe9"]
    assert again.sources == {"größe": "caf\\xe9"}


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"3 names, but columns of other lengths: \{'end_ns': 2\}"):
        three_ops(end_ns=[1, 2])
    with pytest.raises(ValueError, match="TensorColumns points outside the 3 rows"):
        three_ops(
            tensors=TensorColumns.build(op_index=[3], slot=[0], dtype=[1], shape=[()], bytes=[4])
        )
    with pytest.raises(ValueError, match="columns of TensorColumns differ in length"):
        TensorColumns.build(op_index=[0], slot=[0, 1], dtype=[1], shape=[()], bytes=[4])


def test_empty():
    ops = OpColumns.empty()
    assert len(ops) == 0
    assert ops.name.tolist() == ops.label.tolist() == ops.output_bytes.tolist() == []
    assert len(ops[np.zeros(0, bool)]) == 0


def test_equal_shapes_stay_tuples():
    tensors = TensorColumns.build(
        op_index=[0, 0], slot=[0, 1], dtype=[1, 1], shape=[(2, 3), (4, 5)], bytes=[24, 80]
    )
    assert tensors.shape.shape == (2,)
    assert list(tensors.shape) == [(2, 3), (4, 5)]
    assert list(tensors.allocator) == ["cpu", "cpu"]


def test_peak_of_allocations_follows_time_not_order():
    allocations = AllocationColumns.build(
        name=["b", "a", "c", "a"],
        device=["/cpu:0", "/cpu:0", "/cpu:1", "/cpu:0"],
        time_ns=[20, 10, 25, 30],
        bytes=[50, 100, 7, -100],
    )
    assert list(allocations.name) == ["a", "b", "c", "a"]
    assert allocations.peak_bytes() == 157
    assert allocations.peak_bytes("/cpu:0") == 150
    assert allocations.peak_bytes("/gpu:0") == 0
    assert AllocationColumns.empty().peak_bytes() == 0


def test_live_bytes_count_what_was_held_and_never_what_was_refused():
    allocations = AllocationColumns.build(
        name=["v", "a", "b", "a", "b"],
        device=["/cpu:0"] * 5,
        time_ns=[1, 2, 3, 4, 5],
        bytes=[10, 5, 100, -5, 7],
        event=["held", "allocate", "failed", "free", "allocate"],
    )
    assert allocations.live().tolist() == [10, 15, 15, 10, 17]
    assert allocations.peak_row() == 4
    assert list(allocations.alive_at(1).name) == ["v", "a"]
    assert list(allocations.alive_at(4).name) == ["v", "b"]
    assert allocations.alive_at(4).bytes.sum() == allocations.live()[4]
    assert len(allocations.alive_at(-1)) == 0


def test_addresses_tell_two_executions_of_one_op_apart():
    allocations = AllocationColumns.build(
        name=["a", "a", "a"], device=["/cpu:0"] * 3, time_ns=[1, 2, 3],
        bytes=[8, 16, -16], address=[64, 128, 128],
    )  # fmt: skip
    assert allocations.alive_at(2).bytes.tolist() == [8]


def test_string_columns_join():
    joined = StringColumn.joined([StringColumn.of("ab"), StringColumn.of("bc")])
    assert list(joined.values) == ["a", "b", "b", "c"]
    assert joined.table == ("a", "b", "c")
    assert len(StringColumn.joined([])) == 0


@pytest.mark.parametrize(
    ("name", "label", "op", "inputs"),
    [
        ("c", "c = Add(a, b)", "Add", ["a", "b"]),
        ("n", "n = NoOp()", "NoOp", []),
        ("a/b=c", "a/b=c = Add(x, ^ctl)", "Add", ["x", "^ctl"]),
        ("mul_1", "[cpu 0.1MB 0.1MB] mul_1 = Mul(g, mul_1/x)", "Mul", ["g", "mul_1/x"]),
        ("u", "unicode_é = Foo(ß)", "Foo", ["ß"]),
        ("unk", "", "unknown", []),
        ("x", "something else", "unknown", []),
        ("RecvTensor", "[1024B] edge_1_w from /job:ps to /job:worker", "RecvTensor", []),
        ("c", "conv:Conv2D regs:17 shm:0 grid:1,1,1", "Conv2D", []),
        ("c", "conv_1/_0:_Send::edge_10_conv_1::async num_bytes: 384", "_Send", []),
    ],
)
def test_labels(name, label, op, inputs):
    assert parse_label(name, label) == (op, inputs)


def test_made_labels_are_read_back():
    assert make_label("c", "Add", ["a", "b"]) == "c = Add(a, b)"
    assert parse_label("c", make_label("c", "Add", ["a", "b"])) == ("Add", ["a", "b"])
