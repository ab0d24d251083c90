"""TensorFlow's messages into columns, whoever wrote them.

Rules that real files taught: nanoseconds count wherever they are there, the relative microseconds
beside them are often 0; rows of transfers have microseconds only; several `dev_stats` may have
the same device; a thread id of 0 means that nobody recorded it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.columns import OpColumns
from stepscope.metadata.labels import parse_label
from stepscope.metadata.memory import MemoryColumns, TensorColumns

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["decode_ops"]

# Bytes per element of TensorFlow's DataType numbers, for outputs without an allocation.
_ITEM_BYTES: Mapping[int, int] = {
    number: size
    for size, numbers in {
        1: (4, 6, 10, 11, 12, 24, 25),
        2: (5, 14, 15, 16, 17, 19),
        4: (1, 3, 13, 22),
        8: (2, 8, 9, 23),
        16: (18,),
    }.items()
    for number in numbers
}
_REFERENCE_OFFSET = 100

_INT64 = np.iinfo(np.int64)


def _fit(value: int) -> int:
    """The value, or the nearest that a column holds: sums of damaged numbers may be beyond."""
    return min(max(value, int(_INT64.min)), int(_INT64.max))


class _TensorRows:
    """Output tensors, gathered row by row."""

    def __init__(self) -> None:
        self.op_index: list[int] = []
        self.slot: list[int] = []
        self.dtype: list[int] = []
        self.shape: list[tuple[int, ...] | None] = []
        self.bytes: list[int] = []
        self.allocated: list[int] = []
        self.address: list[int] = []
        self.allocator: list[str] = []

    def add(self, row: int, output: Any) -> None:
        description = output.tensor_description
        allocation = description.allocation_description
        proto = description.shape
        shape = None if proto.unknown_rank else tuple(dim.size for dim in proto.dim)
        size = allocation.requested_bytes
        if not description.HasField("allocation_description"):
            size = _size_of(description.dtype, shape)
        self.op_index.append(row)
        self.slot.append(output.slot)
        self.dtype.append(description.dtype)
        self.shape.append(shape)
        self.bytes.append(size)
        self.allocated.append(allocation.allocated_bytes)
        self.address.append(allocation.ptr)
        self.allocator.append(allocation.allocator_name)

    def columns(self) -> TensorColumns:
        return TensorColumns.build(
            op_index=self.op_index,
            slot=self.slot,
            dtype=self.dtype,
            shape=self.shape,
            bytes=self.bytes,
            allocated_bytes=self.allocated,
            address=self.address,
            allocator=self.allocator,
        )


def _size_of(dtype: int, shape: tuple[int, ...] | None) -> int:
    item = _ITEM_BYTES.get(dtype - _REFERENCE_OFFSET if dtype > _REFERENCE_OFFSET else dtype, 0)
    if shape is None or any(size < 0 for size in shape):
        return 0
    elements = 1
    for size in shape:
        elements *= size
    return _fit(elements * item)


class _MemoryRows:
    """Memory per op and allocator, gathered row by row."""

    def __init__(self) -> None:
        self.op_index: list[int] = []
        self.allocator: list[str] = []
        self.sizes: list[tuple[int, int, int]] = []
        self.records: list[list[tuple[int, int]]] = []

    def add(self, row: int, used: Any) -> None:
        self.op_index.append(row)
        self.allocator.append(used.allocator_name)
        self.sizes.append((used.total_bytes, used.peak_bytes, used.live_bytes))
        self.records.append(
            [
                (_fit(record.alloc_micros * 1000), record.alloc_bytes)
                for record in used.allocation_records
            ]
        )

    def columns(self) -> MemoryColumns:
        sizes = np.array(self.sizes, dtype=np.int64).reshape(-1, 3)
        return MemoryColumns.build(
            op_index=self.op_index,
            allocator=self.allocator,
            total_bytes=sizes[:, 0],
            peak_bytes=sizes[:, 1],
            live_bytes=sizes[:, 2],
            records=self.records,
        )


def _times(node: Any) -> tuple[int, ...]:
    """Scheduled, start, kernel start, kernel end and end of a row, in nanoseconds."""
    start = node.all_start_nanos
    if start:
        op_start, op_end = node.op_start_rel_nanos, node.op_end_rel_nanos
        end = node.all_end_rel_nanos
    else:
        start = node.all_start_micros * 1000
        op_start, op_end = node.op_start_rel_micros * 1000, node.op_end_rel_micros * 1000
        end = node.all_end_rel_micros * 1000
    scheduled = node.scheduled_nanos or node.scheduled_micros * 1000 or start
    # A kernel that has no end of its own ended when the row did.
    kernel_end = op_end if op_end >= op_start else end
    times = scheduled, start, start + op_start, start + kernel_end, start + end
    # One comparison of each row keeps the common case quick.
    if min(times) < _INT64.min or max(times) > _INT64.max:
        return tuple(map(_fit, times))
    return times


def decode_ops(message: Any) -> OpColumns:
    """The executions in a `RunMetadata` message, in the order they stand there."""
    told = {entry.node: entry.op for entry in message.node_ops}
    idents = {entry.thread_id: entry.ident for entry in message.thread_idents}
    names: list[str] = []
    labels: list[str] = []
    types: list[str] = []
    device_names: list[str] = []
    threads: list[int] = []
    times: list[tuple[int, ...]] = []
    thread_names: dict[int, str] = {}
    tensors, memory = _TensorRows(), _MemoryRows()
    for device in message.step_stats.dev_stats:
        device_names.extend([device.device] * len(device.node_stats))
        for wire, thread_name in device.thread_names.items():
            thread_names[idents.get(wire, wire)] = thread_name
        for node in device.node_stats:
            name, label = node.node_name, node.timeline_label
            row = len(names)
            names.append(name)
            labels.append(label)
            types.append(told.get(name) or parse_label(name, label)[0])
            threads.append(node.thread_id)
            times.append(_times(node))
            for output in node.output:
                tensors.add(row, output)
            for used in node.memory:
                memory.add(row, used)
    if idents:
        threads = [idents.get(thread, thread) for thread in threads]
    clock = np.array(times, dtype=np.int64).reshape(-1, 5)
    steps = message.row_steps
    return OpColumns.build(
        name=names,
        op=types,
        device=device_names,
        thread=threads,
        scheduled_ns=clock[:, 0].copy(),
        start_ns=clock[:, 1].copy(),
        op_start_ns=clock[:, 2].copy(),
        op_end_ns=clock[:, 3].copy(),
        end_ns=clock[:, 4].copy(),
        step=list(steps) if len(steps) == len(names) else message.step_id,
        label=labels,
        thread_names=thread_names,
        tensors=tensors.columns(),
        memory=memory.columns(),
    )
