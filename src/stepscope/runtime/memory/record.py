"""What a run's metadata says about memory: allocations as columns, worked out when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepscope.metadata.memory.allocations import FAILED, FREE, HELD, AllocationColumns
from stepscope.ops.resources import Holding
from stepscope.ops.state.variable_cells import KIND as VARIABLE
from stepscope.runtime.execute.trace import Trace
from stepscope.runtime.memory.accountant import FoundOutput, MemoryEvent, OwnedMemory
from stepscope.runtime.memory.curve import MemoryCurve
from stepscope.runtime.memory.run_memory import Fed, HeldEvent, NotedMemory, Request, RunMemory
from stepscope.runtime.plan.memory_table import MemoryTable, Port


class _Held(NamedTuple):
    """A change of what variables and queues hold, and its place among the events of a program."""

    time: int
    place: float
    event: str
    holding: Holding


class AllocationRows:
    """Rows of allocations, one by one. Times are nanoseconds since the epoch."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        name: str,
        slot: int,
        device: str,
        event: str,
        kind: str,
        time_ns: int,
        size: int,
        address: int,
        dtype: int,
        shape: tuple[int, ...] | None,
        step: int,
    ) -> None:
        self._rows.append(
            (name, slot, device, event, kind, time_ns, -size if event == FREE else size, address,
             dtype, shape, step)
        )  # fmt: skip

    def owner(
        self, owner: OwnedMemory, event: str, time_ns: int, step: int, address: int = 0
    ) -> None:
        o = owner.output
        self.add(o.name, o.slot, o.device, event, o.kind, time_ns, owner.bytes,
                 owner.address or address, o.dtype, owner.shape, step)  # fmt: skip

    def held(self, e: _Held, offset: int) -> None:
        self.holding(e.holding, e.event, e.time + offset)

    def holding(self, h: Holding, event: str, time_ns: int) -> None:
        self.add(h.op, h.slot, h.device, event, h.kind, time_ns, h.bytes, h.address,
                 h.dtype.base_dtype.as_datatype_enum, h.shape, h.step)  # fmt: skip

    def fed(self, table: MemoryTable, fed: Iterable[Fed], time_ns: int, step: int) -> None:
        for f in fed:
            name, slot, dtype = table.feeds[f.step]
            device = table.plan.nodes[f.step].device
            self.add(
                name, slot, device, HELD, "feed", time_ns, f.bytes, f.address, dtype, f.shape, step
            )

    def request(self, r: Request, time_ns: int, step: int) -> None:
        self.add(r.name, r.slot, r.device, FAILED, "temporary", time_ns, r.bytes, 0, r.dtype,
                 r.shape, step)  # fmt: skip

    def columns(self) -> AllocationColumns:
        if not self._rows:
            return AllocationColumns.empty()
        name, slot, device, event, kind, time_ns, size, address, dtype, shape, step = zip(
            *self._rows, strict=True
        )
        return AllocationColumns.build(
            name=name, slot=slot, device=device, event=event, kind=kind, time_ns=time_ns,
            bytes=size, address=np.array(address, np.uint64), dtype=dtype, shape=shape,
            step=np.array(step, np.int64),
        )  # fmt: skip


class MemoryRecord:
    """One run's memory.

    `curve` is None for a run on a pool, whose events were counted; `failed` is the request that was
    refused; `cut_short` says whether an op was under way when the run ended for another reason.
    """

    __slots__ = ("_columns", "_curve", "_cut_short", "_failed", "_memory", "_noted", "_trace")

    def __init__(
        self,
        memory: RunMemory,
        trace: Trace,
        curve: Callable[[], MemoryCurve] | None,
        failed: Request | None,
        *,
        cut_short: bool,
    ) -> None:
        self._memory = memory
        self._noted: NotedMemory | None = None
        self._trace = trace
        self._curve = None if memory.counts else curve
        self._failed = failed
        self._cut_short = cut_short
        self._columns: AllocationColumns | None = None

    def freeze(self, trace: Trace | None) -> None:
        """Read the times from a trace that no longer changes."""
        if trace is not None:
            self._trace = trace

    @property
    def noted(self) -> NotedMemory:
        """What the run noted."""
        return self._memory.noted() if self._noted is None else self._noted

    @property
    def follows_from_plan(self) -> bool:
        """Whether the events are those of the plan, at the times of the trace."""
        return self._curve is not None and self._failed is None

    def over(self, trace: Trace, noted: NotedMemory) -> MemoryRecord:
        """The record of a run with another trace and other notes."""
        other = MemoryRecord(
            self._memory, trace, self._curve, self._failed, cut_short=self._cut_short
        )
        other._noted = noted
        return other

    def columns(self) -> AllocationColumns:
        """All events, with what was live when the run began."""
        if self._columns is None:
            self._columns = self._make()
        return self._columns

    def peaks(self) -> Mapping[str, int]:
        """The most bytes live by device, and on all devices together under ""."""
        columns = self.columns()
        devices = {*self._trace.plan.graph.devices, *columns.device.tolist()}
        peaks = {device: columns.peak_bytes(device) for device in devices}
        peaks[""] = columns.peak_bytes()
        return peaks

    def _make(self) -> AllocationColumns:
        noted, trace = self.noted, self._trace
        offset, step = trace.offset, noted.step_id
        begin = trace.begin + offset
        rows = AllocationRows()
        for h in noted.opening:
            rows.holding(h, HELD, min(h.time_ns, begin))
        rows.fed(noted.table, noted.feeds, begin, step)
        events, addresses = self._events()
        pending = sorted(
            (self._ending(e) for e in noted.held_events), key=lambda e: (e.time, e.place)
        )
        for place, (time, event, owner) in events:
            while pending and (pending[0].time, pending[0].place) <= (time, place):
                rows.held(pending.pop(0), offset)
            rows.owner(owner, event, time + offset, step, addresses.get(owner.output.port, 0))
        for held in pending:
            rows.held(held, offset)
        if self._failed is not None:
            rows.request(self._failed, self._failed.time + offset, step)
        return rows.columns()

    def _ending(self, e: HeldEvent) -> _Held:
        if self._curve is not None and e.ends >= 0:
            # It belongs to the end of its step, before the next one begins at the same instant. An
            # array that a variable gives up may be the temporary of ops that still read it from
            # then on; what came out of a queue goes once the step's own outputs are there.
            line = self._curve().line_of(e.ends)
            if line < len(self._trace.marks) and self._trace.marks[line]:
                place = 2 * line + (0.5 if e.holding.kind == VARIABLE else 1.5)
                return _Held(self._trace.marks[line], place, e.event, e.holding)
        return _Held(e.time, -1.0, e.event, e.holding)

    def _events(self) -> tuple[Iterable[tuple[float, MemoryEvent]], Mapping[Port, int]]:
        """Events with their places in the order, and the addresses that are known beside them."""
        noted, trace = self.noted, self._trace
        if self._curve is None:
            return [(0.0, event) for event in self._memory.accountant.events], {}
        done = len(trace.marks) - trace.marks.count(0)
        lines = None if trace.complete else done
        curve = self._curve()
        events = curve.events(noted.notes, noted.replaced, lines)
        marks = [trace.begin, *trace.marks[:done], max(trace.end, trace.begin)]
        if self._cut_short and lines is not None:
            events = [*events, *curve.begun(lines)]
        timed = [
            (float(place), MemoryEvent(_at(place, marks), event, owner))
            for place, event, owner in events
        ]
        return timed, self._addresses()

    def _addresses(self) -> Mapping[Port, int]:
        noted = self.noted
        program, known = self._trace.program, noted.view_addresses
        found = {port: note.address for port, note in noted.notes.items()}
        if program is not None and known:
            found |= {port: known[view] for port, view in program.buffers.view_of.items()}
        return found


def _at(place: int, marks: Sequence[int]) -> int:
    """The clock at a place in the order: line n begins when the one before has ended."""
    line, ended = divmod(place, 2)
    return marks[min(line + ended, len(marks) - 1)]


def notes_of(table: MemoryTable, values: Mapping[str, object]) -> dict[Port, FoundOutput]:
    """What the values of a program that stopped say of outputs whose size no plan knew."""
    notes: dict[Port, FoundOutput] = {}
    for output in table.outputs.values():
        if output.source is None and output.bytes < 0:
            value = values.get(f"v{output.step}_{output.slot}")
            if isinstance(value, (np.ndarray, np.generic)):
                notes[output.port] = FoundOutput(value.nbytes, value.shape, 0)
    return notes
