"""A run on one thread that went well, as what is its own: clock readings and addresses.

All else of its columns follows from the plan, by rules that look at times only to compare them
(`trace`, `memory.record`): they choose among the clock's readings, by their order. So the same
rules, applied to the ranks of the readings in place of the times, say which reading comes where,
for every run of the plan whose readings are in that order. Addresses and the steps of what was made
before are passed on as they are, so that numbers can stand for them, too. The columns that come out
are a pattern (`stepscope.metadata.stored.stored_pattern`), which a store keeps once.

A run is no such run where its columns have other times than readings: with spans of the user's, or
pauses for watched tensors; or where its memory was counted as it went.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stepscope.cached_property import cached_property
from stepscope.metadata import AllocationColumns, OpColumns, Shared
from stepscope.metadata.stored.stored_pattern import (
    NOTHING_STOOD,
    Readings,
    Standing,
    StorablePattern,
    pack_readings,
    pack_standing,
)
from stepscope.ops.resources import Holding
from stepscope.runtime.execute.trace import Trace
from stepscope.runtime.memory.record import MemoryRecord
from stepscope.runtime.memory.run_memory import NotedMemory

_STEP: Final = 1
"""Where the run's own step is among its values."""


class Stood:
    """What stood when runs began: what variables and queues held, and where the buffers lay.

    Runs that follow each other mostly find the same, and share this object. Equal are two of the
    same kinds of things, wherever these lie and since when.
    """

    def __init__(self, held: Sequence[Holding], buffers: Sequence[int]) -> None:
        self.held = held
        self.buffers = buffers
        self.standing = Standing(
            np.array([h.time_ns for h in held], np.int64),
            np.array([*(h.address for h in held), *(h.step for h in held), *buffers], np.uint64),
        )
        self.packed = Shared(lambda: pack_standing(self.standing))
        self._kinds = (*map(_kind, held), *map(bool, buffers))
        self._hash = hash(self._kinds)

    def is_of(self, held: Sequence[Holding], buffers: Sequence[int]) -> bool:
        """Whether it is these, all at the same place."""
        return self.held == held and self.buffers == buffers

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Stood) and self._kinds == other._kinds


_NOTHING: Final = Shared(lambda: pack_standing(NOTHING_STOOD))


def _kind(held: Holding) -> tuple[Any, ...]:
    return (
        held.op, held.slot, held.device, held.kind, held.bytes, held.dtype, held.shape,
        bool(held.address),
    )  # fmt: skip


@dataclass
class RunPattern:
    """One run as readings and values, and what it has in common with others."""

    trace: Trace
    memory: MemoryRecord | None

    @classmethod
    def of(cls, trace: Trace | None, memory: MemoryRecord | None) -> RunPattern | None:
        """The run as a pattern's; None where it cannot be."""
        if trace is None or trace.program is None or not trace.complete:
            return None
        if (
            trace.spans
            or trace.stages
            or trace.pauses
            or (memory is not None and not memory.follows_from_plan)
        ):
            return None
        return cls(trace, memory)

    @cached_property
    def _noted(self) -> NotedMemory | None:
        return None if self.memory is None else self.memory.noted

    @cached_property
    def _stood(self) -> Stood | None:
        noted = self._noted
        if noted is None:
            return None
        table = noted.table
        last = table.stood
        if last is None or not last.is_of(noted.opening, noted.view_addresses):
            last = table.stood = Stood(noted.opening, noted.view_addresses)
        return last

    @cached_property
    def readings(self) -> Readings:
        """The run's times, and its values: its step, and addresses in the order of `_over_ranks`"""
        trace, noted = self.trace, self._noted
        changed = noted.held_events if noted is not None else ()
        times = np.array(
            [trace.begin, *trace.marks, max(trace.end, trace.begin), *(e.time for e in changed)],
            np.int64,
        )
        times += trace.offset
        if noted is None or self._stood is None:
            return Readings(times, np.array([trace.step_id], np.uint64), NOTHING_STOOD)
        values = [noted.step_id, *(address for _, address in _own_values(noted))]
        return Readings(times, np.array(values, np.uint64), self._stood.standing)

    @cached_property
    def _ranks(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """From the earliest on where each distinct time is, and of each time its rank, from 1."""
        _, order, ranks = np.unique(self.readings.all_times, return_index=True, return_inverse=True)
        return order, ranks + 1

    @cached_property
    def key(self) -> Hashable:
        """Equal for runs that differ in nothing else than their readings, values and step."""
        trace, noted = self.trace, self._noted
        of_memory: Hashable = None
        if noted is not None:
            of_memory = (
                self._stood,
                tuple([(f.step, f.shape, f.bytes) for f in noted.feeds]),
                tuple([(p, n.bytes, n.shape, n.copied) for p, n in noted.notes.items()]),
                tuple([(e.event, e.ends, _kind(e.holding)) for e in noted.held_events]),
                tuple([(r.step, r.variable, r.bytes) for r in noted.replaced]),
                tuple([bool(address) for _, address in _own_values(noted)]),
            )
        return (
            trace.table_of().facts,
            trace.level,
            tuple(trace.thread_names.items()),
            trace.thread,
            tuple(trace.notes),
            tuple(trace.fed_shapes.items()),
            self._ranks[1].tobytes(),
            of_memory,
        )

    @property
    def ops(self) -> int:
        """How many executions there are: every node was executed, or has its value beforehand."""
        return self.trace.table_of().source_count + len(self.trace.plan.steps)

    @property
    def started_ns(self) -> int:
        return self.trace.begin + self.trace.offset

    @property
    def ended_ns(self) -> int:
        """When the last execution was over."""
        trace = self.trace
        ended = max(trace.end, trace.begin)
        if not len(trace.table_of().retvals):
            ended = trace.marks[-1] if len(trace.marks) else trace.begin
        return ended + trace.offset

    def columns(self) -> dict[str, bytes]:
        """What a store keeps of this run alone."""
        return {"readings": pack_readings(self.readings)}

    def parts(self) -> dict[str, Shared[bytes]]:
        """What it keeps of this run and those around it."""
        return {"standing": _NOTHING if self._stood is None else self._stood.packed}

    def storable(self, allocations: bool) -> StorablePattern:
        """The pattern, with its allocations or without, and what the run adds to it."""
        order, ranks = self._ranks
        return StorablePattern(
            ops=lambda: self._ranked_ops(ranks.tolist()),
            allocations=(lambda: self._ranked_allocations(ranks.tolist())) if allocations else None,
            order=order,
            readings=self.readings,
        )

    # -- the pattern ---------------------------------------------------------------------------

    def _ranked_trace(self, ranks: Sequence[int]) -> Trace:
        trace = copy.copy(self.trace)
        lines = len(trace.marks)
        trace.begin, trace.marks, trace.end = ranks[0], list(ranks[1 : 1 + lines]), ranks[1 + lines]
        trace.offset = 0
        # Runs that differ in nothing else are to have the same bytes.
        trace.step_id = _STEP
        return trace

    def _ranked_ops(self, ranks: Sequence[int]) -> OpColumns:
        return self._ranked_trace(ranks).columns()

    def _ranked_allocations(self, ranks: Sequence[int]) -> AllocationColumns:
        memory, noted = self.memory, self._noted
        assert memory is not None
        assert noted is not None
        trace = self._ranked_trace(ranks)
        return memory.over(trace, _numbered(noted, ranks[2 + len(trace.marks) :])).columns()


def _own_values(noted: NotedMemory) -> Iterable[tuple[str, int]]:
    """The values of a run that do not stand, with what each is: first feeds, then notes, ..."""
    for fed in noted.feeds:
        yield "fed", fed.address
    for note in noted.notes.values():
        yield "note", note.address
    for event in noted.held_events:
        yield "held", event.holding.address
        yield "step", event.holding.step
    for replaced in noted.replaced:
        yield "replaced", replaced.address


def _numbered(noted: NotedMemory, ranks: Sequence[int]) -> NotedMemory:
    """The notes with the places of values in place of them, and ranks in place of times."""
    place = _STEP

    def of(value: int) -> int:
        nonlocal place
        place += 1
        return place if value else 0

    feeds = [fed._replace(address=of(fed.address)) for fed in noted.feeds]
    notes = {port: note._replace(address=of(note.address)) for port, note in noted.notes.items()}
    events = []
    for event, rank in zip(noted.held_events, ranks, strict=False):
        held = event.holding
        held = replace(held, address=of(held.address), step=of(held.step))
        events.append(event._replace(time=rank, holding=held))
    again = [replace(found, address=of(found.address)) for found in noted.replaced]
    addresses = [of(held.address) for held in noted.opening]
    steps = [of(held.step) for held in noted.opening]
    opening = [
        replace(held, address=address, step=step, time_ns=rank)
        for held, address, step, rank in zip(
            noted.opening, addresses, steps, ranks[len(events) :], strict=True
        )
    ]
    return NotedMemory(
        table=noted.table,
        step_id=_STEP,
        opening=opening,
        feeds=feeds,
        notes=notes,
        held_events=events,
        replaced=again,
        view_addresses=[of(address) for address in noted.view_addresses],
    )
