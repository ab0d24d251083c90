"""Memory where the allocator tells nothing: from what ops put out.

Of graphs, an output is taken to live from its op's start to the end of its last reader, by the
graph's edges. Of eager code, from the op to the moment when Python lets go of the tensor, which a
weak reference tells; tensors that share a buffer are counted once. Neither sees what kernels take
for themselves, nor buffers that TensorFlow reuses; `completeness` says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final

from stepscope.adapters.tensorflow.capture.called_ops import EagerCall, OpOutput, bytes_of
from stepscope.adapters.tensorflow.capture.events import Row
from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.tensors import output_tensors
from stepscope.adapters.tensorflow.memory.allocator_events import CPU, AllocatorEvent, Held
from stepscope.metadata.logged_nodes import TAKES_NONE

_AT_THE_END: Final = 1 << 62


def of_calls(calls: Sequence[EagerCall], freed: Mapping[int, int]) -> list[AllocatorEvent]:
    """What eager ops put out, as events; `freed` says when nobody held an output any more.

    Tensors that share a buffer are one: it lives as long as the last of them.
    """
    changes: list[tuple[int, EagerCall, OpOutput, bool]] = []
    for call in calls:
        for output in call.outputs:
            if output.buffer >= 0:
                changes.append((call.end_ns, call, output, False))
                at = freed.get(output.place)
                if at is not None:
                    changes.append((max(call.end_ns, at), call, output, True))
    changes.sort(key=itemgetter(0))
    events: list[AllocatorEvent] = []
    holders: dict[int, tuple[Held, set[int]]] = {}
    in_use = 0
    for time_ns, call, output, let_go in changes:
        known = holders.get(output.buffer)
        if known is None:
            if let_go or output.buffer != output.place:
                continue
            size = bytes_of(output)
            held = Held(
                address=output.address, bytes=size, requested=size, time_ns=time_ns,
                name=call.name, dtype=output.dtype, shape=output.shape, kind="output",
            )  # fmt: skip
            known = holders[output.buffer] = held, set()
            in_use += size
            events.append(AllocatorEvent(time_ns, held, False, in_use, 0, -1))
        (known[1].discard if let_go else known[1].add)(output.place)
        if not known[1]:
            del holders[output.buffer]
            in_use -= known[0].bytes
            events.append(AllocatorEvent(time_ns, known[0], True, in_use, 0, -1))
    return events


def of_graph(
    rows: Sequence[Row], nodes: Mapping[str, NodeInfo], end_ns: int, step: int
) -> list[AllocatorEvent]:
    """What the executed nodes of a run put out, as events; frees only of what was let go of."""
    described = output_tensors(rows, nodes)
    starts: dict[str, list[int]] = {}
    readers: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        starts.setdefault(row.name, []).append(row.start_ns)
        info = nodes.get(row.name)
        for port in info.inputs if info is not None else ():
            readers.setdefault(port, []).append(row.end_ns)
    for ends in (*starts.values(), *readers.values()):
        ends.sort()
    events: list[AllocatorEvent] = []
    columns = zip(described.op_index, described.slot, described.dtype, described.shape,
                  described.bytes, strict=True)  # fmt: skip
    for index, slot, dtype, shape, size in columns:
        row = rows[int(index)]
        info = nodes.get(row.name)
        if info is None or info.op in TAKES_NONE or not size:
            continue
        held = Held(
            address=0, bytes=int(size), requested=int(size), time_ns=row.start_ns, name=row.name,
            device=info.device or CPU, dtype=int(dtype), shape=shape, step=step, slot=int(slot),
        )  # fmt: skip
        events.append(AllocatorEvent(row.start_ns, held, False, 0, 0, row.line))
        freed = _last_read(readers.get((row.name, int(slot)), ()), starts[row.name], row)
        if freed <= end_ns:
            events.append(AllocatorEvent(freed, held, True, 0, 0, row.line))
    events.sort(key=lambda event: event.time_ns)
    return events


def _last_read(ends: Sequence[int], starts: Sequence[int], row: Row) -> int:
    """When the last reader of this execution's output was done; in a loop, before the next one."""
    again = bisect_left(starts, row.start_ns + 1)
    until = starts[again] if again < len(starts) else _AT_THE_END
    last = bisect_left(ends, until) - 1
    if last >= 0 and ends[last] > row.start_ns:
        return ends[last]
    return until
