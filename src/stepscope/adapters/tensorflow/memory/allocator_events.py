"""What TensorFlow's allocator did, from the profiler's events, and what is alive at any moment.

The BFC allocator leaves an event per allocation and free: address, size, the bytes in use after
it, and for an allocation the op, the shape and the type. That allocator serves every GPU, and the
CPU where `TF_CPU_ALLOCATOR_USE_BFC` was set before TensorFlow was imported. The oneDNN library's
allocator, which serves the CPU otherwise, leaves events of large tensors only (above 256 KiB).

Guarantees.
- Events count as what a device did only where its allocator leaves all of them: a profile with
  none but those of an allocator that leaves some is one whose allocator does not tell.
- The *ledger* of the process follows all profiles in order, so that what one run allocated is
  still known by name when a later one runs out of memory.
- Events are lost while the profiler does not record. Every event says how much is in use, so such
  a gap is noticed; what the ledger had from before it is from then on not *certain*.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from stepscope.metadata.xplane import HOST, EventLine, Space

CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
_ALLOCATION: Final = "MemoryAllocation"
_FREE: Final = "MemoryDeallocation"
_CPU_ALLOCATOR: Final = "bfc_cpu_allocator_for_gpu"
_WHOLE: Final = "bfc"
"""In the names of the allocators that leave an event of all they do."""
_GPU: Final = re.compile(r"^GPU_(\d+)_bfc$")
_NOTHING: Final = "(null)"
"""What older versions write where there is nothing to say."""
_UNSIGNED: Final = (1 << 64) - 1
_LONG_PS: Final = 9_500_000_000_000
"""An op this long may have waited for memory: the allocator gives others ten seconds to free."""


class Held(NamedTuple):
    """Memory that is allocated."""

    address: int
    bytes: int
    """What the allocator gave, which it rounds up."""
    requested: int
    time_ns: int
    name: str
    """The op; "" where it was allocated outside of any."""
    device: str = CPU
    dtype: int = 0
    shape: tuple[int, ...] | None = None
    kind: str = "temporary"
    step: int = 0
    """The executor's own number of its step."""
    slot: int = -1
    certain: bool = True


class AllocatorEvent(NamedTuple):
    """An allocation or a free, and the allocator's own count after it."""

    time_ns: int
    held: Held
    freed: bool
    in_use: int
    available: int
    line: int


class AllocatorWait(NamedTuple):
    """An execution that took as long as the allocator waits for memory."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class AllocatorProfile:
    """The allocator's events of one profile, and what was alive when it began."""

    events: list[AllocatorEvent]
    waits: list[AllocatorWait] = field(default_factory=list)
    alive: dict[tuple[str, int], Held] = field(default_factory=dict)
    """By device and address; what the ledger knew."""
    in_use: dict[str, int] = field(default_factory=dict)
    """By device, as the allocator counts."""

    def at(self, time_ns: int) -> tuple[dict[tuple[str, int], Held], dict[str, int]]:
        """What was alive then, and the bytes in use by device."""
        alive, in_use = dict(self.alive), dict(self.in_use)
        for event in self.events:
            if event.time_ns > time_ns:
                break
            follow(alive, event)
            in_use[event.held.device] = event.in_use
        return alive, in_use

    def at_peak(self, start_ns: int, end_ns: int) -> dict[tuple[str, int], Held]:
        """What was alive when the most bytes were in use between two times."""
        inside = [event for event in self.events if start_ns <= event.time_ns <= end_ns]
        if not inside:
            return self.at(start_ns)[0]
        return self.at(max(inside, key=lambda event: event.in_use).time_ns)[0]

    def partly_told(self) -> list[str]:
        """The devices whose allocator leaves events of some of its allocations only."""
        devices = dict.fromkeys(event.held.device for event in self.events)
        return [device for device in devices if not _is_whole(device)]

    def limit(self, device: str) -> int | None:
        """How much the allocator may give in all; None where it has no event."""
        for event in self.events:
            if event.held.device == device:
                return event.in_use + event.available
        return None

    def refused_at(self, op: str, before_ns: int) -> int:
        """When a request of that op was refused at last, for a run that failed before that time."""
        waits = [wait for wait in self.waits if wait.end_ns <= before_ns]
        of_op = [wait for wait in waits if wait.name.rpartition(":")[0] == op]
        if of_op or waits:
            # The innermost span is the one that began last.
            return max(of_op or waits, key=lambda wait: wait.start_ns).end_ns
        return before_ns


def follow(alive: dict[tuple[str, int], Held], event: AllocatorEvent) -> None:
    """Bring what is alive up to after an event."""
    where = (event.held.device, event.held.address)
    if event.freed:
        alive.pop(where, None)
    else:
        alive[where] = event.held


class LiveBlocks:
    """What is alive in the process, as far as it was recorded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: dict[tuple[str, int], Held] = {}
        self._tells = False

    def take(self, data: bytes) -> AllocatorProfile | None:
        """What the allocator did in a profile that was just read; None if it never tells."""
        told = _ALLOCATION.encode() in data or _FREE.encode() in data
        if not self._tells and not (told and _WHOLE.encode() in data):
            return None
        profile = _decode(data) if told else AllocatorProfile([])
        if not self._tells and not any(_is_whole(event.held.device) for event in profile.events):
            return None
        with self._lock:
            self._tells = True
            self._begin(profile)
            for event in profile.events:
                follow(self._alive, event)
        return profile

    def _begin(self, profile: AllocatorProfile) -> None:
        """Compare the first counts with what is known; what may be gone is no longer certain."""
        for event in profile.events:
            device = event.held.device
            if device not in profile.in_use:
                size = event.held.bytes
                profile.in_use[device] = event.in_use + (size if event.freed else -size)
        for device, in_use in profile.in_use.items():
            known = [held for held in self._alive.values() if held.device == device]
            if sum(held.bytes for held in known) != in_use:
                for held in known:
                    self._alive[device, held.address] = held._replace(certain=False)
        for device in {device for device, _ in self._alive} - profile.in_use.keys():
            # Nothing happened there: what was known still is.
            profile.in_use[device] = sum(
                held.bytes for held in self._alive.values() if held.device == device
            )
        profile.alive = dict(self._alive)

    def still_alive(self, held: Held) -> bool:
        """Whether this very allocation was not freed, as far as it was recorded."""
        return self._alive.get((held.device, held.address), held).time_ns == held.time_ns


ledger: Final = LiveBlocks()


# -- decoding ----------------------------------------------------------------------------------


def _decode(data: bytes) -> AllocatorProfile:
    space = Space(data)
    events: list[AllocatorEvent] = []
    waits: list[AllocatorWait] = []
    plane = space.plane(HOST)
    if plane is None:
        return AllocatorProfile(events)
    kinds = {name: key for key, name in plane.names.items() if name in (_ALLOCATION, _FREE)}
    for number, line in enumerate(plane.lines):
        base = space.origin_ns(line)
        events += _events(line, number, base, list(kinds.values()), kinds.get(_FREE, -1))
        for place in np.flatnonzero(line.duration_ps > _LONG_PS).tolist():
            start = int(line.offset_ps[place])
            end = start + int(line.duration_ps[place])
            name = plane.names.get(int(line.metadata_id[place]), "")
            waits.append(AllocatorWait(name, base + start // 1000, base + end // 1000))
    events.sort(key=lambda event: event.time_ns)
    return AllocatorProfile(_described_frees(events), waits)


def _events(
    line: EventLine, number: int, base_ns: int, kinds: list[int], free: int
) -> Iterator[AllocatorEvent]:
    """The allocations and frees of one line."""
    places = np.flatnonzero(np.isin(line.metadata_id, kinds))
    if not len(places):
        return

    stats = line.stats(places)

    def numbers(stat: str) -> list[int]:
        found: list[int] = stats.numbers(stat).tolist()
        return found

    def texts(stat: str) -> list[str]:
        return ["" if text == _NOTHING else text for text in stats.texts(stat).tolist()]

    times = (base_ns + line.offset_ps[places] // 1000).tolist()
    freed = (line.metadata_id[places] == free).tolist()
    for time_ns, is_free, address, size, asked, name, allocator, dtype, shape, step, used, left in (
        zip(
            times, freed, numbers("addr"), numbers("allocation_bytes"), numbers("requested_bytes"),
            texts("tf_op"), texts("allocator_name"), numbers("data_type"), texts("shape"),
            numbers("id"), numbers("bytes_allocated"), numbers("bytes_available"), strict=True,
        )
    ):  # fmt: skip
        held = Held(
            address & _UNSIGNED, size, asked, time_ns, name, _device(allocator), dtype,
            _shape(shape), step=step,
        )  # fmt: skip
        yield AllocatorEvent(time_ns, held, is_free, used, left, number)


@functools.cache
def _device(allocator: str) -> str:
    """The device that an allocator serves. What is beside it, with a count of its own, is named."""
    if allocator == _CPU_ALLOCATOR:
        return CPU
    gpu = _GPU.match(allocator)
    return CPU.replace("CPU:0", f"GPU:{gpu[1]}") if gpu else f"{CPU} ({allocator})"


def _is_whole(device: str) -> bool:
    """Whether the events that stand under this device are all there are."""
    _, _, beside = device.partition(" (")
    return not beside or _WHOLE in beside


def _described_frees(events: Iterable[AllocatorEvent]) -> list[AllocatorEvent]:
    """The events, where each free carries what its allocation said."""
    open_: dict[tuple[str, int], Held] = {}
    found = []
    for event in events:
        where = (event.held.device, event.held.address)
        if event.freed:
            made = open_.pop(where, None)
            if made is not None:
                event = event._replace(held=made)
        else:
            open_[where] = event.held
        found.append(event)
    return found


def _shape(text: str) -> tuple[int, ...] | None:
    if not text.startswith("["):
        return None
    sizes = text[1:-1].split(",") if text != "[]" else []
    return tuple(int(size) if size.isdigit() else -1 for size in sizes)
