"""The memory of an inline run, from its plan: its order is fixed, so its curve is, too.

A run that fits needs no counting, and one that is traced records no allocations: what each step
allocates and frees follows from the plan, and the times from the clock readings of the trace. Only
what the plan could not know is taken from the run's notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.metadata.memory.allocations import ALLOCATE
from stepscope.runtime.execute.program import GeneratedProgram
from stepscope.runtime.memory.accountant import Accountant, FoundOutput, MemoryEvent, OwnedMemory
from stepscope.runtime.plan.memory_table import MemoryTable, Port

_NOTHING: Mapping[int, FoundOutput] = {}


@dataclass(frozen=True, slots=True)
class Replaced:
    """A variable's array that ops still read when step `step` replaced it."""

    step: int
    variable: int
    bytes: int
    address: int


class MemoryCurve:
    """What ops of an inline run hold at each moment, by the plan alone.

    Times are places in the order: 2n where line n of the program begins,
    2n + 1 where it ends.
    """

    def __init__(self, table: MemoryTable, program: GeneratedProgram) -> None:
        self._table = table
        self._steps = [s.node.index for s in program.steps]
        self._line_of = {i: n for n, i in enumerate(self._steps)}
        self._forwards = program.buffers.forwarded
        self._fixed: list[MemoryEvent] | None = None
        self._peaks: dict[str, int] | None = None

    def line_of(self, step: int) -> int:
        return self._line_of[step]

    def events(
        self,
        notes: Mapping[Port, FoundOutput],
        replaced: Sequence[Replaced] = (),
        lines: int | None = None,
    ) -> list[MemoryEvent]:
        """What happens in a run that ends well, or one that ends before line `lines` does."""
        if self._table.fixed and not replaced and lines is None:
            if self._fixed is None:
                self._fixed = self._replay({}, (), None).events
            return self._fixed
        return self._replay(notes, replaced, lines).events

    def alive_before(
        self, lines: int, notes: Mapping[Port, FoundOutput], replaced: Sequence[Replaced] = ()
    ) -> list[OwnedMemory]:
        """What is live when line `lines` begins, its own outputs not among it."""
        return list(self._replay(notes, replaced, lines).alive())

    def begun(self, line: int) -> list[MemoryEvent]:
        """What a line allocates that begins and does not end."""
        accountant = Accountant(self._table, {})
        if line < len(self._steps):
            accountant.start(self._steps[line], 2 * line)
        return accountant.events

    def _replay(
        self, notes: Mapping[Port, FoundOutput], replaced: Sequence[Replaced], lines: int | None
    ) -> Accountant:
        accountant = Accountant(self._table, self._forwards)
        by_step: dict[int, list[Replaced]] = {}
        for found in replaced:
            by_step.setdefault(found.step, []).append(found)
        last = len(self._steps) if lines is None else lines
        for n, i in enumerate(self._steps[:last]):
            accountant.start(i, 2 * n)
            for found in by_step.get(i, ()):
                accountant.replaced(found.variable, found.bytes, found.address, 2 * n + 1)
            seen = _NOTHING
            if notes and self._table.looks[i]:
                seen = {o.slot: notes[o.port] for o in self._table.made[i] if o.port in notes}
            accountant.end(i, 2 * n + 1, seen)
        if lines is None:
            accountant.finish(2 * last)
        return accountant

    # -- before a run --------------------------------------------------------------------------

    def bound(self) -> dict[str, int] | None:
        """By device, the most a run can need beside its feeds; None if the plan cannot know."""
        if self._peaks is None and self._table.known:
            growth = self._table.growth_bound()
            if growth is not None:
                peaks = dict(self.peaks())
                for more in (growth, self._table.conditional_bytes()):
                    for device, size in more.items():
                        peaks[device] = peaks.get(device, 0) + size
                self._peaks = peaks
        return self._peaks

    def peaks(self) -> dict[str, int]:
        """By device, the most bytes of temporaries and outputs at once."""
        live: dict[str, int] = {}
        peaks: dict[str, int] = {}
        for _, event, owner in self.events({}):
            device = owner.output.device
            live[device] = live.get(device, 0) + owner.bytes * (1 if event == ALLOCATE else -1)
            peaks[device] = max(peaks.get(device, 0), live[device])
        return peaks

    def at_peak(self, device: str | None = None) -> list[OwnedMemory]:
        """What is live when the most is, on one device or on all of them."""
        return at_peak(self.events({}), device)


def at_peak(events: Sequence[MemoryEvent], device: str | None = None) -> list[OwnedMemory]:
    """What is live when the most is, on one device or on all of them."""
    sizes = np.array(
        [
            owner.bytes * (1 if event == ALLOCATE else -1)
            if device in (None, owner.output.device)
            else 0
            for _, event, owner in events
        ],
        dtype=np.int64,
    )
    if not len(sizes):
        return []
    last = int(np.cumsum(sizes).argmax())
    alive: dict[int, OwnedMemory] = {}
    for _, event, owner in events[: last + 1]:
        if event == ALLOCATE:
            alive[id(owner)] = owner
        else:
            alive.pop(id(owner), None)
    return [o for o in alive.values() if device in (None, o.output.device)]
