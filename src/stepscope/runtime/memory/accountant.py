"""Counts the memory of one run's ops: what each output holds, from when, until when.

The rules, in one place for every executor:

- An output is live from the moment its op starts (inputs and output are both live while an op
  works); one whose size only the op can tell, from the moment it is known.
- It is freed when the last op that reads it, or a view of it, has ended; at once if nothing does.
  What is fetched is live until the run ends.
- Where the executor writes an output over an input that dies, the memory passes on: the old owner
  frees it and the new one allocates it at the same instant.
- When a variable is given a new array while ops of the run still read the old one, the old one is
  theirs until they have ended.

`start` and `end` are called once per step each, in the order of events; an `Accountant` does no
locking. It serves a run as it goes (with clock readings) and afterwards (with places in the order).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from stepscope.metadata.memory.allocations import ALLOCATE, FREE
from stepscope.runtime.plan.memory_table import MemoryTable, Port, StepOutput


class OwnedMemory:
    """One piece of memory and the output it was made for."""

    __slots__ = ("address", "bytes", "output", "remaining", "shape")

    def __init__(self, output: StepOutput, size: int, shape: tuple[int, ...] | None) -> None:
        self.output = output
        self.bytes = size
        self.shape = shape
        self.address = 0
        self.remaining = 0
        """Reads still to come, and one for each fetch."""


class FoundOutput(NamedTuple):
    """What a run saw of an output."""

    bytes: int
    shape: tuple[int, ...]
    address: int
    copied: bool = False
    """A view that turned out to be a copy."""


class MemoryEvent(NamedTuple):
    """Something that happened to a piece of memory."""

    time: int
    event: str
    owner: OwnedMemory


def _free_of_charge(_output: StepOutput, _size: int, _shape: tuple[int, ...] | None) -> None:
    return None


class Accountant:
    """Counts what the ops of one run hold.

    `charge` is asked before memory is counted, and may raise.
    """

    def __init__(
        self,
        table: MemoryTable,
        forwards: Mapping[int, Port],
        charge: Callable[[StepOutput, int, tuple[int, ...] | None], None] = _free_of_charge,
        release: Callable[[str, int], None] = lambda _device, _size: None,
    ) -> None:
        self._table = table
        self._forwards = forwards
        self._charge = charge
        self._release = release
        self._owner_of: dict[Port, OwnedMemory] = {}
        self._reading: dict[Port, int] = {}
        """Views of variables, and how many reads of each are still to come."""
        self._alive: dict[int, OwnedMemory] = {}
        self.events: list[MemoryEvent] = []

    def alive(self) -> Iterator[OwnedMemory]:
        """The memory that is live now."""
        return iter(list(self._alive.values()))

    def start(self, i: int, time: int) -> None:
        """A step begins."""
        for output in self._table.made[i]:
            if output.source is None and output.bytes >= 0 and not output.late:
                self._make(output, output.bytes, output.shape, time, self._forwards.get(i))

    def end(self, i: int, time: int, found: Mapping[int, FoundOutput]) -> None:
        """A step is done; `found` is what was seen of its outputs, by slot."""
        for output in self._table.made[i]:
            seen = found.get(output.slot)
            owner: OwnedMemory | None
            if output.source is None or (seen is not None and seen.copied):
                owner = self._owner_of.get(output.port)
                if owner is None:
                    size = seen.bytes if seen is not None else max(0, output.bytes)
                    shape = seen.shape if seen is not None else output.shape
                    owner = self._make(output, size, shape, time, None)
                if seen is not None:
                    owner.address = seen.address
            else:
                owner = self._owner_of.get(output.source)
                if owner is None:
                    if output.port in self._table.variable_of and output.readers:
                        self._reading[output.port] = output.readers
                    continue
                self._owner_of[output.port] = owner
            owner.remaining += output.readers + output.fetched
        for port in self._table.reads[i]:
            self._read(port, time)
        for output in self._table.made[i]:
            owner = self._owner_of.get(output.port)
            if owner is not None and owner.remaining == 0:
                self._free(owner, time)

    def _read(self, port: Port, time: int) -> None:
        owner = self._owner_of.get(port)
        if owner is not None:
            owner.remaining -= 1
            if owner.remaining == 0:
                self._free(owner, time)
        elif port in self._reading:
            self._reading[port] -= 1

    def replaced(self, variable: int, size: int, address: int, time: int) -> None:
        """A variable got a new array; whoever still reads the old one has it now."""
        reading = [
            port
            for port, left in self._reading.items()
            if left > 0 and self._table.variable_of[port] == variable
        ]
        if not reading:
            return
        output = self._table.outputs[reading[0]]
        owner = self._make(output, size, output.shape, time, None)
        owner.address = address
        for port in reading:
            self._owner_of[port] = owner
            owner.remaining += self._reading.pop(port)

    def withdraw(self, i: int) -> None:
        """A step did not get the memory it was about to write to: it never held it."""
        mine = {id(o) for o in self._alive.values() if o.output in self._table.made[i]}
        for owner in self.alive():
            if id(owner) in mine:
                del self._alive[id(owner)]
                self._owner_of.pop(owner.output.port, None)
                self._release(owner.output.device, owner.bytes)
        self.events = [e for e in self.events if id(e.owner) not in mine]

    def finish(self, time: int) -> None:
        """The run is over: what was fetched is the caller's."""
        for owner in self.alive():
            self._free(owner, time)

    def _make(
        self,
        output: StepOutput,
        size: int,
        shape: tuple[int, ...] | None,
        time: int,
        forwarded: Port | None,
    ) -> OwnedMemory:
        old = self._owner_of.get(forwarded) if forwarded is not None else None
        if old is not None:
            self._free(old, time)
        self._charge(output, size, shape)
        owner = OwnedMemory(output, size, shape)
        self._owner_of[output.port] = owner
        self._alive[id(owner)] = owner
        self.events.append(MemoryEvent(time, ALLOCATE, owner))
        return owner

    def _free(self, owner: OwnedMemory, time: int) -> None:
        if self._alive.pop(id(owner), None) is None:
            return
        self.events.append(MemoryEvent(time, FREE, owner))
        self._release(owner.output.device, owner.bytes)
