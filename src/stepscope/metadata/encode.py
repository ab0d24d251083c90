"""Columns into TensorFlow's messages.

What `StepStats` has no room for goes into fields of ours beside it: op types that the labels do
not tell, thread identifiers beyond 32 bits, the step of each row. Times of single allocation
records are microseconds there, as TensorFlow has them; all other times keep their nanoseconds.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _messages as pb
from stepscope.metadata.labels import parse_label
from stepscope.metadata.row_groups import rows_alike

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.memory import MemoryColumns, TensorColumns

__all__ = ["encode_ops", "wire_thread_ids"]

_MAX_UINT32 = 0xFFFFFFFF


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


def _outputs(tensors: TensorColumns) -> dict[int, list[Any]]:
    by_op: dict[int, list[Any]] = defaultdict(list)
    for op, slot, dtype, shape, size, allocated, address, allocator in zip(
        tensors.op_index.tolist(),
        tensors.slot.tolist(),
        tensors.dtype.tolist(),
        tensors.shape,
        tensors.bytes.tolist(),
        tensors.allocated_bytes.tolist(),
        tensors.address.tolist(),
        tensors.allocator,
        strict=True,
    ):
        allocation = pb.AllocationDescription(
            requested_bytes=size, allocated_bytes=allocated, allocator_name=allocator, ptr=address
        )
        description = pb.TensorDescription(
            dtype=dtype, shape=_shape(shape), allocation_description=allocation
        )
        by_op[op].append(pb.NodeOutput(slot=slot, tensor_description=description))
    return by_op


def _memory(memory: MemoryColumns) -> dict[int, list[Any]]:
    by_op: dict[int, list[Any]] = defaultdict(list)
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
        by_op[op].append(used)
    return by_op


def _memory_stats(op: str, outputs: Iterable[Any]) -> Any:
    """As TensorFlow has it: the value of a constant is its persistent memory."""
    stats = pb.MemoryStats()
    if op == "Const":
        stats.persistent_memory_size = sum(
            o.tensor_description.allocation_description.requested_bytes for o in outputs
        )
    return stats


def encode_ops(ops: OpColumns, message: Any, step_id: int) -> None:
    """Fill `step_stats` and our fields beside it: one `DeviceStepStats` per device.

    Devices come in order of first appearance, the rows of each in the order of the columns.
    """
    outputs, memory = _outputs(ops.tensors), _memory(ops.memory)
    thread_ids = wire_thread_ids(ops.thread.tolist())
    codes, first = np.unique(ops.devices.codes, return_index=True)
    step_stats = message.step_stats
    step_stats.SetInParent()
    row_order = []
    for code in codes[np.argsort(first)]:
        rows = np.flatnonzero(ops.devices.codes == code)
        row_order.append(rows)
        device = step_stats.dev_stats.add(device=ops.devices.table[code])
        _encode_device(ops, rows, device, thread_ids, outputs, memory)
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


def _encode_device(
    ops: OpColumns,
    rows: Any,
    device: Any,
    thread_ids: dict[int, int],
    outputs: dict[int, list[Any]],
    memory: dict[int, list[Any]],
) -> None:
    start = ops.start_ns[rows]
    threads = ops.thread[rows].tolist()
    for thread in dict.fromkeys(threads):
        if thread in ops.thread_names:
            device.thread_names[thread_ids[thread]] = ops.thread_names[thread]
    micros = start // 1000
    relative = [
        (column[rows] - start, column[rows] // 1000 - micros)
        for column in (ops.op_start_ns, ops.op_end_ns, ops.end_ns)
    ]
    (op_start, op_start_us), (op_end, op_end_us), (all_end, all_end_us) = (
        (nanos.tolist(), rel_micros.tolist()) for nanos, rel_micros in relative
    )
    scheduled = ops.scheduled_ns[rows]
    add = device.node_stats.add
    columns = zip(
        rows.tolist(),
        ops.name[rows],
        ops.label[rows],
        threads,
        start.tolist(),
        micros.tolist(),
        scheduled.tolist(),
        (scheduled // 1000).tolist(),
        op_start,
        op_start_us,
        op_end,
        op_end_us,
        all_end,
        all_end_us,
        strict=True,
    )
    for (
        row,
        name,
        label,
        thread,
        at,
        at_us,
        ready,
        ready_us,
        os,
        os_us,
        oe,
        oe_us,
        ae,
        ae_us,
    ) in columns:
        add(
            node_name=name,
            timeline_label=label,
            thread_id=thread_ids[thread],
            all_start_micros=at_us,
            all_start_nanos=at,
            scheduled_micros=ready_us,
            scheduled_nanos=ready,
            op_start_rel_micros=os_us,
            op_start_rel_nanos=os,
            op_end_rel_micros=oe_us,
            op_end_rel_nanos=oe,
            all_end_rel_micros=ae_us,
            all_end_rel_nanos=ae,
            output=outputs.get(row, ()),
            memory=memory.get(row, ()),
            memory_stats=_memory_stats(ops.op[row], outputs.get(row, ())) if outputs else None,
        )
