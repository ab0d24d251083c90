"""Columns written as TensorFlow's bytes: what protobuf itself would have written."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope import _messages as pb
from stepscope.metadata import OpColumns, RunMetadata
from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns
from stepscope.metadata.wire.encode import encode_ops
from stepscope.metadata.wire.extras import decode_sources, encode_sources
from stepscope.metadata.wire.message_rows import MessageRows, varint

CPU, GPU = "/device:CPU:0", "/device:GPU:0"
_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300) | st.just(0)


@given(st.lists(st.tuples(_NUMBERS, st.text(max_size=200), _NUMBERS), max_size=30))
def test_rows_are_what_protobuf_writes(rows):
    whole = pb.StepStats().dev_stats.add()
    for micros, name, nanos in rows:
        whole.node_stats.add(all_start_micros=micros, timeline_label=name, all_start_nanos=nanos)
    written = MessageRows(len(rows))
    written.numbers(2, [micros for micros, _, _ in rows])
    written.texts(8, [name for _, name, _ in rows], range(len(rows)))
    written.numbers(13, [nanos for _, _, nanos in rows])
    assert written.as_field(2) == whole.SerializeToString()


@pytest.mark.parametrize("number", [0, 1, 127, 128, 2**32, 2**63 - 1, 2**64 - 1, -1])
def test_a_varint_is_read_back(number):
    message = pb.NodeExecStats.FromString(b"\x68" + varint(number))
    assert message.all_start_nanos % 2**64 == number % 2**64


def columns():
    """A run on two devices, one of them in between, with a node that ran twice."""
    start = np.array([5_000_001_999, 5_000_003_000, 5_000_003_500, 5_000_900_000], np.int64)
    return OpColumns.build(
        name=["c", "größe/add", "copy", "größe/add"],
        op=["Const", "AddV2", "MemcpyD2H", "AddV2"],
        device=[CPU, CPU, GPU, CPU],
        thread=[7, 2**40, 7, 2**40],
        scheduled_ns=start - np.array([0, 1_000, 2_000_000, 10]),
        start_ns=start,
        end_ns=start + np.array([1, 999, 1_500, 70_000]),
        label=["c = Const()", "größe/add = AddV2(c, c)", "copy", ""],
        thread_names={7: "main", 2**40: "tf_Compute"},
        step=[3, 3, 4, 3],
        tensors=TensorColumns.build(
            op_index=[0, 1, 1, 3], slot=[0, 0, 1, 0], dtype=[1, 1, 3, 1],
            shape=[(2, 3), (), None, (-1, 4)], bytes=[24, 4, 0, 16], allocated_bytes=[64, 4, 0, 16],
            address=[2**64 - 16, 0, 1, 0],
        ),
        memory=MemoryColumns.build(
            op_index=[1, 1], allocator=["cpu", "mklcpu"], total_bytes=[4, 8], peak_bytes=[4, 8],
            live_bytes=[0, 8], records=[((5_000_003_100, 4), (5_000_003_200, -4)), ()],
        ),
    )  # fmt: skip


def written():
    message = pb.RunMetadataMessage()
    encode_ops(columns(), message, 3)
    return message


def test_executions_are_told_as_tensorflow_tells_them():
    cpu, gpu = written().step_stats.dev_stats
    assert (cpu.device, gpu.device) == (CPU, GPU)
    assert [node.node_name for node in cpu.node_stats] == ["c", "größe/add", "größe/add"]
    add = cpu.node_stats[1]
    assert add.timeline_label == "größe/add = AddV2(c, c)"
    assert (add.all_start_nanos, add.all_start_micros) == (5_000_003_000, 5_000_003)
    assert (add.all_end_rel_nanos, add.all_end_rel_micros) == (999, 0)
    assert (add.scheduled_nanos, add.scheduled_micros) == (5_000_002_000, 5_000_002)
    # A microsecond began between start and end, though only a nanosecond passed.
    first = cpu.node_stats[0]
    assert (first.all_end_rel_nanos, first.all_end_rel_micros) == (1, 1)
    assert dict(gpu.thread_names) == {7: "main"}
    assert sorted(cpu.thread_names.values()) == ["main", "tf_Compute"]
    assert cpu.thread_names[add.thread_id] == "tf_Compute"


def test_outputs_and_memory_are_those_of_their_op():
    cpu, gpu = written().step_stats.dev_stats
    constant, add, again = cpu.node_stats
    (output,) = constant.output
    described = output.tensor_description
    assert [dim.size for dim in described.shape.dim] == [2, 3]
    assert described.allocation_description.ptr == 2**64 - 16
    assert described.allocation_description.allocated_bytes == 64
    assert constant.memory_stats.persistent_memory_size == 24
    assert [output.slot for output in add.output] == [0, 1]
    assert add.output[1].tensor_description.shape.unknown_rank
    assert [used.allocator_name for used in add.memory] == ["cpu", "mklcpu"]
    assert [record.alloc_bytes for record in add.memory[0].allocation_records] == [4, -4]
    assert add.memory[0].allocation_records[0].alloc_micros == 5_000_003
    assert add.memory_stats.persistent_memory_size == 0
    assert again.output[0].tensor_description.shape.dim[0].size == -1
    assert not again.memory
    assert not gpu.node_stats[0].output
    assert all(node.HasField("memory_stats") for node in (*cpu.node_stats, *gpu.node_stats))


def test_columns_are_read_back_from_the_bytes():
    message = written()
    message.step_id = 3
    again = RunMetadata.FromString(message.SerializeToString()).ops
    order = [0, 1, 3, 2]
    for column in ("name", "op", "device", "thread", "scheduled_ns", "start_ns", "end_ns", "step"):
        expected = np.asarray(getattr(columns(), column))[order]
        assert getattr(again, column).tolist() == expected.tolist(), column


def test_lines_are_read_back():
    sources = {
        "a": "/home/me/model.py:12", "b": "/home/me/model.py:12", "c": "<string>",
        "größe": "/tmp/run_\udcff.py:3", "": "x:9",
    }  # fmt: skip
    message = pb.RunMetadataMessage()
    encode_sources(sources, message)
    expected = {**sources, "größe": "/tmp/run_\\xff.py:3"}
    assert decode_sources(message) == expected
