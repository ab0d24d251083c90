"""Memory where the allocator tells nothing: from what ops put out.

Of graphs, an output is taken to live from its op's start to the end of its last reader, by the
graph's edges. Of eager code, from the op to the moment when Python lets go of the tensor, which a
weak reference tells; tensors that share a buffer are counted once. Neither sees what kernels take
for themselves, nor buffers that TensorFlow reuses; `completeness` says so.
"""

from __future__ import annotations

import functools
import math
import time
import weakref
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.events import Row
from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.tensors import output_tensors
from stepscope.adapters.tensorflow.memory.allocator_events import CPU, Event, Held
from stepscope.adapters.tensorflow.memory.held_memory import address_of
from stepscope.adapters.tensorflow.node_log.executed_graph import ExecutedGraphs
from stepscope.metadata import AllocationColumns, OpColumns

_TAKES_NONE: Final = frozenset(
    {
        "Const",
        "NoOp",
        "VarHandleOp",
        "ReadVariableOp",
        "Placeholder",
        "PlaceholderWithDefault",
        "_Arg",
        "_Retval",
        "Identity",
        "IdentityN",
        "Reshape",
        "Squeeze",
        "ExpandDims",
        "StopGradient",
        "PreventGradient",
        "Enter",
        "Exit",
        "Switch",
        "Merge",
        "NextIteration",
        "LoopCond",
        "_Send",
        "_Recv",
        "Snapshot",
        "EnsureShape",
    }
)
"""Op types whose outputs are the memory of somebody else."""
_AT_THE_END: Final = 1 << 62


class EagerOutputs:
    """The outputs of eager ops of one thread, as events, from `watching` on."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._references: dict[int, Any] = {}
        self._holders: dict[int, tuple[Held, int]] = {}
        """By address, what is held there and by how many tensors."""
        self._in_use = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note outputs while inside. What is let go of later is not noted."""
        try:
            with versions.op_callback(self._note):
                yield
        finally:
            self._references.clear()

    def _note(self, op: str, outputs: Sequence[Any]) -> None:
        now = time.time_ns()
        for tensor in outputs:
            address = address_of(tensor)
            if not address:
                continue
            known = self._holders.get(address)
            if known is None:
                if op in _TAKES_NONE:
                    continue
                held = self._describe(tensor, op, address, now)
                self._add(held, freed=False)
                known = held, 0
            self._holders[address] = known[0], known[1] + 1
            reference = weakref.ref(tensor, functools.partial(self._let_go, address))
            self._references[id(reference)] = reference

    @staticmethod
    def _describe(tensor: Any, op: str, address: int, now: int) -> Held:
        shape = tuple(tensor.shape.as_list())
        size = math.prod(shape) * tensor.dtype.size
        return Held(
            address=address, bytes=size, requested=size, time_ns=now, name=op,
            dtype=tensor.dtype.as_datatype_enum, shape=shape, kind="output",
        )  # fmt: skip

    def _let_go(self, address: int, reference: Any) -> None:
        if self._references.pop(id(reference), None) is None:
            return
        began = time.perf_counter_ns()
        made, holders = self._holders[address]
        if holders > 1:
            self._holders[address] = made, holders - 1
        else:
            del self._holders[address]
            self._add(made, freed=True)
        versions.noting.ns += time.perf_counter_ns() - began

    def _add(self, held: Held, *, freed: bool) -> None:
        self._in_use += -held.bytes if freed else held.bytes
        self.events.append(Event(time.time_ns(), held, freed, self._in_use, 0, -1))


def of_graph(
    rows: Sequence[Row], nodes: Mapping[str, NodeInfo], end_ns: int, step: int
) -> list[Event]:
    """What the executed nodes of a run put out, as events; frees only of what was let go of."""
    described = output_tensors(rows, nodes, {})
    starts: dict[str, list[int]] = {}
    readers: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        starts.setdefault(row.name, []).append(row.start_ns)
        info = nodes.get(row.name)
        for port in info.inputs if info is not None else ():
            readers.setdefault(port, []).append(row.end_ns)
    for ends in (*starts.values(), *readers.values()):
        ends.sort()
    events: list[Event] = []
    columns = zip(described.op_index, described.slot, described.dtype, described.shape,
                  described.bytes, strict=True)  # fmt: skip
    for index, slot, dtype, shape, size in columns:
        row = rows[int(index)]
        info = nodes.get(row.name)
        if info is None or info.op in _TAKES_NONE or not size:
            continue
        held = Held(
            address=0, bytes=int(size), requested=int(size), time_ns=row.start_ns, name=row.name,
            device=info.device or CPU, dtype=int(dtype), shape=shape, step=step, slot=int(slot),
        )  # fmt: skip
        events.append(Event(row.start_ns, held, False, 0, 0, row.line))
        freed = _last_read(readers.get((row.name, int(slot)), ()), starts[row.name], row)
        if freed <= end_ns:
            events.append(Event(freed, held, True, 0, 0, row.line))
    events.sort(key=lambda event: event.time_ns)
    return events


def of_log(ops: OpColumns, graphs: ExecutedGraphs, step: int) -> AllocationColumns | None:
    """The same of a run that was logged, as columns; None where a node was executed repeatedly."""
    node = ops.node
    row_of = np.full(len(graphs.facts), -1, dtype=np.int64)
    row_of[node] = np.arange(len(node))
    if len(np.unique(node)) != len(node):
        return None
    takes = np.array([op not in _TAKES_NONE for op in graphs.facts.ops.table], dtype=bool)
    tensors = ops.tensors
    made = np.flatnonzero(
        takes[graphs.facts.ops.codes[node[tensors.op_index]]] & (tensors.bytes > 0)
    )
    row, slot, size = tensors.op_index[made], tensors.slot[made], tensors.bytes[made]
    start = ops.start_ns[row]
    # When the last reader of each output was done, by producer and output.
    slots = int(max(graphs.edges[1].max(initial=0), slot.max(initial=0))) + 1
    producer, output, reader = graphs.edges
    ran = row_of[reader] >= 0
    read = np.zeros(len(graphs.facts) * slots, dtype=np.int64)
    port = producer[ran].astype(np.int64) * slots + output[ran]
    np.maximum.at(read, port, ops.end_ns[row_of[reader[ran]]])
    freed = read[node[row].astype(np.int64) * slots + slot]
    end = ops.end_ns[-1] if len(ops) else 0
    gone = np.flatnonzero((freed > start) & (freed <= end))
    both = np.concatenate([np.arange(len(made)), gone])
    time_ns = np.concatenate([start, freed[gone]])
    kept = made[both]
    return AllocationColumns.build(
        name=ops.names[row[both]],
        device=ops.devices[row[both]],
        time_ns=time_ns,
        bytes=np.concatenate([size, -size[gone]]),
        slot=slot[both],
        dtype=tensors.dtype[kept],
        shape=tensors.shape[kept],
        step=step,
    )


def _last_read(ends: Sequence[int], starts: Sequence[int], row: Row) -> int:
    """When the last reader of this execution's output was done; in a loop, before the next one."""
    again = bisect_left(starts, row.start_ns + 1)
    until = starts[again] if again < len(starts) else _AT_THE_END
    last = bisect_left(ends, until) - 1
    if last >= 0 and ends[last] > row.start_ns:
        return ends[last]
    return until
