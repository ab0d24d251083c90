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

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.events import Row
from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.tensors import output_tensors
from stepscope.adapters.tensorflow.memory.allocator_events import CPU, Event, Held
from stepscope.adapters.tensorflow.memory.held_memory import address_of

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


def _last_read(ends: Sequence[int], starts: Sequence[int], row: Row) -> int:
    """When the last reader of this execution's output was done; in a loop, before the next one."""
    again = bisect_left(starts, row.start_ns + 1)
    until = starts[again] if again < len(starts) else _AT_THE_END
    last = bisect_left(ends, until) - 1
    if last >= 0 and ends[last] > row.start_ns:
        return ends[last]
    return until
