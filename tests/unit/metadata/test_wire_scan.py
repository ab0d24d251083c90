"""The columnar decoder beside protobuf's own classes: the same values from the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from random_examples import examples
from stepscope import _messages as pb
from stepscope.metadata.wire.decode import decode_ops
from stepscope.metadata.wire.step_stats import StepStatsTable
from stepscope.metadata.wire.wire_scan import (
    BYTES,
    NUMBER,
    REPEATED,
    Field,
    Wire,
    WireDamageError,
    entries_by_number,
)

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)
NAMES = st.text(max_size=6)
NUMBERS = [
    field.name
    for field in pb.NodeExecStats.DESCRIPTOR.fields
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32)
]


@st.composite
def nodes(draw):
    node = pb.NodeExecStats(node_name=draw(NAMES), timeline_label=draw(NAMES))
    for name in draw(st.lists(st.sampled_from(NUMBERS), unique=True)):
        value = draw(st.integers(0, 2**32 - 1)) if name == "thread_id" else draw(INT64)
        setattr(node, name, value)
    for _ in range(draw(st.integers(0, 3))):
        output = node.output.add(slot=draw(st.integers(0, 5)))
        description = output.tensor_description
        description.dtype = draw(st.integers(0, 24))
        for size in draw(st.lists(st.integers(-1, 2**40), max_size=3)):
            description.shape.dim.add(size=size, name=draw(NAMES))
        description.shape.unknown_rank = draw(st.booleans())
        if draw(st.booleans()):
            description.allocation_description.requested_bytes = draw(INT64)
            description.allocation_description.ptr = draw(st.integers(0, 2**64 - 1))
            description.allocation_description.allocator_name = draw(NAMES)
    for _ in range(draw(st.integers(0, 2))):
        used = node.memory.add(allocator_name=draw(NAMES), total_bytes=draw(INT64))
        for _ in range(draw(st.integers(0, 3))):
            used.allocation_records.add(alloc_micros=draw(INT64), alloc_bytes=draw(INT64))
    if draw(st.booleans()):
        node.memory_stats.temp_memory_size = draw(INT64)
    return node


def check(table, expected):
    assert list(table.names.values) == [node.node_name for node in expected]
    assert list(table.labels.values) == [node.timeline_label for node in expected]
    for name in NUMBERS:
        assert table.number(name).tolist() == [getattr(node, name) for node in expected]
    outputs = [(row, output) for row, node in enumerate(expected) for output in node.output]
    tensors = table.outputs()
    assert tensors.op_index.tolist() == [row for row, _ in outputs]
    assert tensors.slot.tolist() == [output.slot for _, output in outputs]
    described = [output.tensor_description for _, output in outputs]
    assert tensors.dtype.tolist() == [d.dtype for d in described]
    assert list(tensors.shape) == [
        None if d.shape.unknown_rank else tuple(dim.size for dim in d.shape.dim) for d in described
    ]
    assert tensors.address.tolist() == [d.allocation_description.ptr for d in described]
    assert list(tensors.allocator) == [d.allocation_description.allocator_name for d in described]
    used = [(row, used) for row, node in enumerate(expected) for used in node.memory]
    memory = table.memory()
    assert memory.op_index.tolist() == [row for row, _ in used]
    assert memory.total_bytes.tolist() == [entry.total_bytes for _, entry in used]
    assert [len(records) for records in memory.records] == [
        len(entry.allocation_records) for _, entry in used
    ]


@pytest.mark.parametrize("times", [1, 40])
@examples(40)
@given(data=st.data())
def test_the_same_as_protobuf(times, data):
    # Few rows are walked one by one, many are scanned side by side.
    parts = data.draw(st.lists(st.lists(nodes(), max_size=2), max_size=2))
    stats = pb.StepStats()
    for number, rows in enumerate(parts):
        stats.dev_stats.add(device=f"/cpu:{number}", node_stats=rows * times)
    table = StepStatsTable(stats.SerializeToString())
    assert table.devices == [device.device for device in stats.dev_stats]
    check(table, [node for device in stats.dev_stats for node in device.node_stats])


@examples(60)
@given(data=st.data())
def test_any_order_and_unknown_fields(data):
    fields = []
    for _ in range(data.draw(st.integers(0, 6))):
        part = pb.NodeExecStats()
        name = data.draw(st.sampled_from([*NUMBERS, "node_name"]))
        setattr(part, name, "x" if name == "node_name" else data.draw(st.integers(0, 2**31)))
        fields.append(part.SerializeToString())
    unknown = pb.CostGraphDef.Node(is_final=True, id=3, temporary_memory_size=8).SerializeToString()
    group = bytes((30 << 3 | 3 & 7 | 0x80, 0x01)) + b"\x08\x01" + bytes((30 << 3 | 4 | 0x80, 0x01))
    fields += data.draw(st.lists(st.sampled_from([unknown[-2:], group]), max_size=2))
    content = b"".join(data.draw(st.permutations(fields)))
    try:
        node = pb.NodeExecStats.FromString(content)
    except pb.DecodeError:
        return
    rows = [content] * data.draw(st.sampled_from([1, 50]))
    stats = b"".join(b"\x12" + bytes((len(row) & 0x7F | 0x80, len(row) >> 7)) + row for row in rows)
    length = bytes((len(stats) & 0x7F | 0x80, len(stats) >> 7 & 0x7F | 0x80, len(stats) >> 14))
    check(StepStatsTable(b"\x0a" + length + stats), [node] * len(rows))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=60))
def test_varints(values):
    data = b"".join(b"\x08" + _varint(value) for value in values)
    begins = np.cumsum([0, *(1 + len(_varint(value)) for value in values)])
    found, after = Wire(data).varints(begins[:-1] + 1)
    assert found.view(np.uint64).tolist() == values
    assert after.tolist() == begins[1:].tolist()


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    "content",
    [
        b"\x0a\x05ab",  # longer than its message
        b"\x10" + b"\xff" * 10,  # a number that does not end
        b"\x10",  # a number that is not there
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length beyond all bytes
        b"\x0f",  # a wire type that does not exist
        b"\x00\x00",  # field number 0
    ],
)
def test_damage_is_damage(content, count):
    layout = (Field("text", 1, BYTES), Field("number", 2, NUMBER), Field("more", 3, REPEATED))
    wire = Wire(content * count)
    begins = np.arange(count) * len(content)
    with pytest.raises(WireDamageError):
        wire.scan(begins, begins + len(content), layout)


def test_many_entries_of_one_row():
    node = pb.NodeExecStats(node_name="n")
    for slot in range(500):
        node.output.add(slot=slot)
    message = pb.RunMetadataMessage()
    message.step_stats.dev_stats.add(device="d", node_stats=[node, pb.NodeExecStats()] * 30)
    tensors = decode_ops(message).tensors
    assert len(tensors) == 15_000
    assert tensors.slot[:500].tolist() == list(range(500))
    assert tensors.op_index[500:1000].tolist() == [2] * 500


def test_times_that_do_not_fit_stop_at_what_fits():
    message = pb.RunMetadataMessage()
    node = pb.NodeExecStats(all_start_micros=2**62, all_end_rel_micros=2**62, op_end_rel_micros=-1)
    message.step_stats.dev_stats.add(device="d", node_stats=[node])
    ops = decode_ops(message)
    assert ops.start_ns.tolist() == [2**63 - 1 - 2**60]
    assert ops.end_ns.tolist() == [2**63 - 1 - 2**60]


def test_entries_of_several_fields_with_lengths_of_any_size():
    long, longer = b"b" * 300, b"c" * 20_000
    data = (
        b"\x22\x01a" + b"\x1a\x00" + b"\x08\x05" + b"\x22\xac\x02" + long
        + b"\xa2\x00\x01x"  # a tag in more bytes than it needs
        + b"\x22\xa0\x9c\x01" + longer
    )  # fmt: skip
    found, others = entries_by_number(data + bytes(2), 0, len(data), (3, 4))
    contents = [data[begin:end] for begin, end in zip(*found[4], strict=True)]
    assert contents == [b"a", long, b"x", longer]
    assert [places.tolist() for places in found[3]] == [[5], [5]]
    assert [other[:3] for other in others] == [(1, 0, 5)]


@pytest.mark.parametrize("length", [b"\x7f", b"\xff\x7f", b"\xff" * 9 + b"\x01"])
def test_an_entry_longer_than_its_message_is_damage(length):
    data = b"\x22\x01a" + b"\x22" + length + b"b"
    with pytest.raises(WireDamageError) as raised:
        entries_by_number(data + bytes(2), 0, len(data), (4,))
    assert raised.value.offset == 3
