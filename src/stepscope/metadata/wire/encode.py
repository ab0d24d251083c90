"""Columns into TensorFlow's messages, by way of their bytes.

What `StepStats` has no room for goes into fields of ours beside it: op types that the labels do
not tell, thread identifiers beyond 32 bits, the step of each row. Times of single allocation
records are microseconds there, as TensorFlow has them; all other times keep their nanoseconds.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _messages as pb
from stepscope.metadata.row_groups import distinct, numbered, rows_alike
from stepscope.metadata.wire.labels import parse_label
from stepscope.metadata.wire.message_rows import MessageRows, bytes_field, number_field, text_field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns

__all__ = ["encode_ops", "wire_thread_ids"]

_MAX_UINT32 = 0xFFFFFFFF
_NODE, _DEVICE, _STEP = (
    {field.name: field.number for field in kind.DESCRIPTOR.fields}
    for kind in (pb.NodeExecStats, pb.DeviceStepStats, pb.StepStats)
)


def wire_thread_ids(threads: Iterable[int]) -> dict[int, int]:
    """A `thread_id` of 32 bits for each thread: itself where it fits, else a free one nearby.

    The same set of threads always gives the same numbers, and no two share one.
    """
    idents = sorted(set(threads))
    given = {ident: ident for ident in idents if 0 <= ident <= _MAX_UINT32}
    taken = set(given)
    for ident in idents:
        if ident not in given:
            folded = (ident ^ (ident >> 32)) & _MAX_UINT32
            while folded in taken:
                folded = (folded + 1) & _MAX_UINT32
            given[ident] = folded
            taken.add(folded)
    return given


def _shape(dimensions: tuple[int, ...] | None) -> Any:
    if dimensions is None:
        return pb.TensorShapeProto(unknown_rank=True)
    sizes = [pb.TensorShapeProto.Dim(size=size) for size in dimensions]
    return pb.TensorShapeProto(dim=sizes)


class _Pieces:
    """Fields that some rows have, encoded once for all that have the same."""

    def __init__(self, rows: int) -> None:
        self._known = {b"": 0}
        self.codes = np.zeros(rows, np.int64)

    def put(self, row: int, data: bytes) -> None:
        self.codes[row] = self._known.setdefault(data, len(self._known))

    @property
    def table(self) -> list[bytes]:
        return list(self._known)


def _outputs(tensors: TensorColumns, rows: int) -> _Pieces:
    columns = (
        tensors.slot,
        tensors.dtype,
        numbered(tensors.shape),
        tensors.bytes,
        tensors.allocated_bytes,
        tensors.address,
        tensors.allocators.codes,
    )
    alike = rows_alike(columns)
    encoded = [_output(tensors, row) for row in alike.examples]
    by_op: dict[int, list[int]] = defaultdict(list)
    for op, code in zip(tensors.op_index.tolist(), alike.codes.tolist(), strict=True):
        by_op[op].append(code)
    found = _Pieces(rows)
    for op, codes in by_op.items():
        found.put(op, b"".join([encoded[code] for code in codes]))
    return found


def _output(tensors: TensorColumns, row: int) -> bytes:
    allocation = pb.AllocationDescription(
        requested_bytes=int(tensors.bytes[row]),
        allocated_bytes=int(tensors.allocated_bytes[row]),
        allocator_name=tensors.allocator[row],
        ptr=int(tensors.address[row]),
    )
    description = pb.TensorDescription(
        dtype=int(tensors.dtype[row]),
        shape=_shape(tensors.shape[row]),
        allocation_description=allocation,
    )
    output = pb.NodeOutput(slot=int(tensors.slot[row]), tensor_description=description)
    return bytes_field(_NODE["output"], output.SerializeToString())


def _memory(memory: MemoryColumns, rows: int) -> _Pieces:
    by_op: dict[int, bytes] = defaultdict(bytes)
    for op, allocator, total, peak, live, records in zip(
        memory.op_index.tolist(),
        memory.allocator,
        memory.total_bytes.tolist(),
        memory.peak_bytes.tolist(),
        memory.live_bytes.tolist(),
        memory.records,
        strict=True,
    ):
        used = pb.AllocatorMemoryUsed(
            allocator_name=allocator, total_bytes=total, peak_bytes=peak, live_bytes=live
        )
        for time_ns, size in records:
            used.allocation_records.add(alloc_micros=time_ns // 1000, alloc_bytes=size)
        by_op[op] += bytes_field(_NODE["memory"], used.SerializeToString())
    found = _Pieces(rows)
    for op, data in by_op.items():
        found.put(op, data)
    return found


def _memory_stats(ops: OpColumns) -> _Pieces:
    """As TensorFlow has it: the value of a constant is its persistent memory."""
    found = _Pieces(len(ops))
    if not len(ops.tensors):
        return found
    sizes = np.bincount(ops.tensors.op_index, ops.tensors.bytes, len(ops)).astype(np.int64)
    constant = np.array([op == "Const" for op in ops.ops.table], bool)[ops.ops.codes]
    alike = distinct(np.where(constant, sizes, 0))
    found.codes = alike.codes + 1
    for row in alike.examples:
        stats = pb.MemoryStats(persistent_memory_size=int(sizes[row]) if constant[row] else 0)
        found.put(row, bytes_field(_NODE["memory_stats"], stats.SerializeToString()))
    return found


def encode_ops(ops: OpColumns, message: Any, step_id: int) -> None:
    """Fill `step_stats` and our fields beside it: one `DeviceStepStats` per device.

    Devices come in order of first appearance, the rows of each in the order of the columns.
    """
    count = len(ops)
    pieces = _outputs(ops.tensors, count), _memory(ops.memory, count), _memory_stats(ops)
    thread_ids = wire_thread_ids(ops.thread.tolist())
    codes, first = np.unique(ops.devices.codes, return_index=True)
    message.step_stats.SetInParent()
    row_order = []
    for code in codes[np.argsort(first)]:
        rows = np.flatnonzero(ops.devices.codes == code)
        row_order.append(rows)
        head = text_field(_DEVICE["device"], ops.devices.table[code])
        data = bytes_field(_STEP["dev_stats"], head + _device(ops, rows, thread_ids, *pieces))
        message.step_stats.MergeFromString(data)
    for name, op in _types_not_in_labels(ops).items():
        message.node_ops.add(node=name, op=op)
    for ident, wire in thread_ids.items():
        if ident != wire:
            message.thread_idents.add(thread_id=wire, ident=ident)
    if row_order and (ops.step != step_id).any():
        message.row_steps.extend(ops.step[np.concatenate(row_order)].tolist())


def _types_not_in_labels(ops: OpColumns) -> dict[str, str]:
    names, types, labels = ops.name, ops.op, ops.label
    told = {}
    codes = (ops.names.codes, ops.ops.codes, ops.all_labels.codes)
    for row in sorted(rows_alike(codes).examples):
        name, op = names[row], types[row]
        if parse_label(name, labels[row])[0] != op:
            told[name] = op
    return told


def _device(
    ops: OpColumns,
    rows: NDArray[np.int64],
    thread_ids: dict[int, int],
    outputs: _Pieces,
    memory: _Pieces,
    memory_stats: _Pieces,
) -> bytes:
    """The executions of one device and the names of their threads, as fields of its message."""
    threads, of_row = np.unique(ops.thread[rows], return_inverse=True)
    ids = np.array([thread_ids[thread] for thread in threads.tolist()], np.int64)
    names, labels = ops.names[rows].compact(), ops.all_labels[rows].compact()
    start, scheduled = ops.start_ns[rows], ops.scheduled_ns[rows]
    micros = start // 1000
    later = {
        "op_start": ops.op_start_ns[rows],
        "op_end": ops.op_end_ns[rows],
        "all_end": ops.end_ns[rows],
    }
    found = MessageRows(len(rows))
    found.texts(_NODE["node_name"], names.table, names.codes)
    found.numbers(_NODE["all_start_micros"], micros)
    for what, times in later.items():
        found.numbers(_NODE[f"{what}_rel_micros"], times // 1000 - micros)
    found.pieces(memory.table, memory.codes[rows])
    found.pieces(outputs.table, outputs.codes[rows])
    found.texts(_NODE["timeline_label"], labels.table, labels.codes)
    found.numbers(_NODE["scheduled_micros"], scheduled // 1000)
    found.numbers(_NODE["thread_id"], ids[of_row])
    found.pieces(memory_stats.table, memory_stats.codes[rows])
    found.numbers(_NODE["all_start_nanos"], start)
    for what, times in later.items():
        found.numbers(_NODE[f"{what}_rel_nanos"], times - start)
    found.numbers(_NODE["scheduled_nanos"], scheduled)
    named = [thread for thread in threads.tolist() if thread in ops.thread_names]
    return found.as_field(_DEVICE["node_stats"]) + b"".join(
        bytes_field(
            _DEVICE["thread_names"],
            number_field(1, thread_ids[thread]) + text_field(2, ops.thread_names[thread]),
        )
        for thread in named
    )
