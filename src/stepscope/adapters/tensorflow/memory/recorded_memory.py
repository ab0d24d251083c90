"""What was recorded of one run's memory, as rows.

From the allocator's events where it leaves one of all it does, else as our executor counted it,
else from what ops put out (`op_outputs`). Memory that nobody is known to hold is one row per
device, so that rows of events always sum to the allocator's own count.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from stepscope.adapters.tensorflow.capture.capture import Capture, FindNodes
from stepscope.adapters.tensorflow.capture.events import Marked
from stepscope.adapters.tensorflow.memory import held_memory
from stepscope.adapters.tensorflow.memory.allocator_events import (
    AllocatorEvent,
    AllocatorProfile,
    Held,
    ledger,
)
from stepscope.adapters.tensorflow.memory.held_memory import InSession, ProgramMemory, as_held
from stepscope.adapters.tensorflow.memory.memory_events import allocator_tells, bytes_in_use
from stepscope.adapters.tensorflow.memory.op_outputs import of_calls, of_graph
from stepscope.adapters.tensorflow.memory.report import HOW_TO_RECORD
from stepscope.cached_property import cached_property
from stepscope.metadata import (
    MEMORY_OF_KERNELS,
    MEMORY_OF_THE_SYSTEM,
    AllocationColumns,
    Loss,
)
from stepscope.metadata.memory.allocations import ALLOCATE, FAILED, FREE, HELD
from stepscope.metadata.memory.out_of_memory import MemoryRequest

BEFORE: Final = "before recording"
OUTSIDE: Final = "outside of ops"
UNATTRIBUTED: Final = "unattributed"
_FROM_OUTPUTS: Final = Loss(
    MEMORY_OF_KERNELS, 0,
    "TensorFlow's allocator does not tell all it does, so allocations and peak_bytes are an "
    "estimate, by what ops put out: what kernels take for themselves is not in it, and a buffer "
    "that an op reuses for its output counts twice meanwhile; to have all of it to the byte: "
    f"{HOW_TO_RECORD}",
)  # fmt: skip
_COUNTED: Final = Loss(
    MEMORY_OF_THE_SYSTEM, 0,
    "allocations and peak_bytes count what ops took of TensorFlow's allocators; what kernels and "
    "libraries take of the system itself (their own scratch, the text of string tensors, Python's "
    "objects) goes past these and is in neither",
)  # fmt: skip
_SOME_OF_IT: Final = (
    "the allocator of the oneDNN library leaves events of tensors above 256 KiB only; smaller ones "
    "are neither among its allocations nor in its peak_bytes"
)
_NOT_OF_CPU: Final = Loss(
    "allocations on the CPU", 0,
    f"its allocator does not tell what it does; to have them: {HOW_TO_RECORD}",
)  # fmt: skip
_NOT_THE_RUN_S: Final = Loss(
    "memory from before the run", 0,
    "variables and other tensors that were there when the run began are in neither its allocations "
    "nor its peak_bytes, which count what its ops put out; a report of a run that is out of memory "
    "has them",
)  # fmt: skip
_NO_EVENTS: Final = Loss(
    "allocations", 0,
    "the allocator's events of this run could not be had; memory is told by what ops put out",
)  # fmt: skip

Row = tuple[Held, str, int, int]
"""What, the event, its time, the step of ours."""


class RecordedMemory:
    """What was recorded of one run's memory."""

    def __init__(self, capture: Capture, nodes: FindNodes, step_id: int) -> None:
        memory = capture.batch.memory if capture.batch is not None else None
        self._capture = capture
        self._told = memory is not None
        self._memory = memory if memory is not None else AllocatorProfile([])
        self._nodes = nodes
        self._step_id = step_id
        self._made_ns = time.time_ns()

    # The run's own events are decoded when somebody looks, so nothing here asks for them at once.

    @cached_property
    def _marked(self) -> Marked | None:
        return self._capture.marked()

    @cached_property
    def from_allocator(self) -> bool:
        return self._told and self._marked is not None

    @property
    def start_ns(self) -> int:
        return self._marked.start_ns if self._marked is not None else 0

    @property
    def end_ns(self) -> int:
        return self._marked.end_ns if self._marked is not None else self._made_ns

    @property
    def _line(self) -> int:
        return self._marked.line if self._marked is not None else -1

    @cached_property
    def _steps(self) -> set[int]:
        marked = self._marked
        return _with_children(self._capture.profile(), marked.steps if marked is not None else [])

    @cached_property
    def _alone(self) -> bool:
        return self._marked is not None and self._capture.profile().is_alone(self._marked)

    # -- the run ---------------------------------------------------------------------------

    @cached_property
    def events(self) -> list[AllocatorEvent]:
        """The run's own allocations and frees."""
        if not self.from_allocator:
            rows = self._capture.rows()
            nodes = self._nodes()
            end = rows[-1].end_ns if rows else self.end_ns
            events = of_graph(rows, nodes, end, self._step_id)
            called = self._capture.called
            if called is not None:
                events += of_calls(self._capture.calls(), called.freed())
            return sorted(events, key=lambda event: event.time_ns)
        own: list[AllocatorEvent] = []
        mine: set[tuple[str, int]] = set()
        for event in self._memory.events:
            if not self.start_ns <= event.time_ns <= self.end_ns:
                continue
            where = (event.held.device, event.held.address)
            made_here = event.line == self._line or event.held.step in self._steps
            if self._alone or made_here or (event.freed and where in mine):
                own.append(event)
                (mine.discard if event.freed else mine.add)(where)
        return own

    def columns(self, program: ProgramMemory, refused: MemoryRequest | None) -> AllocationColumns:
        """All rows of the run: what was alive before it, and its own events."""
        logged = self._capture.logged_alone()
        if logged is not None and refused is None and logged.tells_allocations:
            ops = self._capture.columns(self._step_id, self._nodes)
            return logged.allocations(ops, self._step_id)
        rows: list[Row] = []
        if self.from_allocator:
            alive, in_use = self._memory.at(self.start_ns)
            found = named(alive.values(), program, self._steps, self._capture.done())
            known = {(held.device, held.address) for held in found}
            for event in self.events:
                where = (event.held.device, event.held.address)
                if event.freed and where not in known:
                    # Alive before, and nobody saw it being allocated.
                    found.append(event.held._replace(time_ns=0, name=BEFORE, kind=UNATTRIBUTED))
                known.add(where)
            found += _rest(found, in_use)
            rows += [(held, HELD, held.time_ns or self.start_ns, 0) for held in found]
        made = {(row[0].device, row[0].address): row[0] for row in rows if row[0].address}
        done = self._capture.done()
        for event in self.events:
            where = (event.held.device, event.held.address)
            held = made.pop(where, None) if event.freed else None
            if held is None:
                held = self._own(event, program, done)
            if not event.freed and event.held.address:
                made[where] = held
            rows.append((held, FREE if event.freed else ALLOCATE, event.time_ns, self._step_id))
        if refused is not None:
            held = Held(
                address=0, bytes=refused.bytes, requested=refused.bytes, time_ns=refused.time_ns,
                name=refused.op, device=refused.device, dtype=refused.dtype, shape=refused.shape,
            )  # fmt: skip
            rows.append((held, FAILED, refused.time_ns, self._step_id))
        return columns_of(rows)

    def _own(self, event: AllocatorEvent, program: ProgramMemory, done: Collection[str]) -> Held:
        held = event.held
        if ledger.still_alive(held):
            held = program.name(held, self._steps, done)
        return _or_outside(held)

    def peaks(self) -> dict[str, int]:
        """The most bytes in use during the run, by device, and on all of them under ""."""
        _, now = self._memory.at(self.start_ns)
        peaks = dict(now)
        together = sum(now.values())
        for event in self._memory.events:
            if self.start_ns <= event.time_ns <= self.end_ns:
                device = event.held.device
                now[device] = event.in_use
                peaks[device] = max(peaks.get(device, 0), event.in_use)
                together = max(together, sum(now.values()))
        return {**peaks, "": together}

    def losses(self, *, refused: bool) -> list[Loss]:
        """What is not known of the run's memory, which was `refused` more or not."""
        if not self.from_allocator:
            return [*self._without_events(refused=refused), _NOT_THE_RUN_S]
        alive, in_use = self._memory.at(self.start_ns)
        missing = sum(in_use.values()) - sum(held.bytes for held in alive.values() if held.certain)
        losses = [] if allocator_tells() else [_NOT_OF_CPU]
        partly = self._memory.partly_told()
        losses += [Loss(f"allocations on {device}", 0, _SOME_OF_IT) for device in partly]
        if missing <= 0:
            return losses
        reason = (
            f"{missing:,} bytes were allocated while nothing was recorded; what is not found among "
            f"the program's own tensors is one row {BEFORE!r}. To record from the start: "
            f"{HOW_TO_RECORD}"
        )
        return [*losses, Loss("owners of memory from before recording", 0, reason)]

    def _without_events(self, *, refused: bool) -> list[Loss]:
        logged = self._capture.logged_alone()
        if logged is None or refused or not logged.counts_memory:
            return [_NO_EVENTS if allocator_tells() else _FROM_OUTPUTS]
        elsewhere = logged.made_elsewhere
        if not elsewhere:
            return [_COUNTED]
        reason = (
            f"{', '.join(elsewhere)}: of what these ops run inside it is known what they put out, "
            "and that counts from their start to their last reader's end; what they take for "
            "themselves does not, so allocations and peak_bytes are an estimate; to have all of "
            f"it to the byte: {HOW_TO_RECORD}"
        )
        return [Loss(MEMORY_OF_KERNELS, 0, reason), _COUNTED]

    # -- out of memory ---------------------------------------------------------------------

    def limit(self, device: str) -> int | None:
        return self._memory.limit(device)

    def refused_at(self, op: str, failed_ns: int) -> int:
        """When the request was refused."""
        if self.from_allocator:
            return self._memory.refused_at(op, min(failed_ns, self.end_ns))
        ends = [row.end_ns for row in self._capture.unfinished() if row.name == op]
        return min(failed_ns, max(ends, default=failed_ns))

    def alive_at(
        self, time_ns: int, program: ProgramMemory, session: InSession | None
    ) -> list[Held]:
        """Everything that was alive, summing to the allocator's own count where it tells one."""
        if not self.from_allocator:
            return self._outputs_alive(time_ns, program)
        alive, in_use = self._memory.at(time_ns)
        found = named(alive.values(), program, self._steps, self._capture.done())
        known = {(held.device, held.address) for held in found}
        room = _missing(found, in_use)
        unseen = [as_held(owned) for address, owned in program.owned.items()]
        # Variables first: eager tensors may be views of memory that is not the allocator's.
        unseen.sort(key=lambda held: (held.kind != "variable", -held.bytes))
        for held in unseen:
            if (held.device, held.address) in known or room.get(held.device, 0) < held.bytes:
                continue
            found.append(held)
            room[held.device] -= held.bytes
        if session is not None and any(room.values()):
            names = {held.name for held in found if held.kind == "variable"}
            for owned in held_memory.variables_inside(session, names):
                held = as_held(owned)
                if room.get(held.device, 0) >= held.bytes:
                    found.append(held)
                    room[held.device] -= held.bytes
        return found + _rest(found, in_use)

    def _outputs_alive(self, time_ns: int, program: ProgramMemory) -> list[Held]:
        alive: dict[Any, Held] = {}
        for event in self.events:
            if event.time_ns > time_ns:
                break
            held = event.held
            where: Any = held.address or (held.name, held.slot, held.time_ns)
            if event.freed:
                alive.pop(where, None)
            else:
                alive[where] = held
        found = [program.name(held) for held in alive.values()]
        for address, owned in program.owned.items():
            if address not in alive:
                held = as_held(owned)._replace(bytes=owned.bytes)
                found.append(held if held.name else held._replace(name=held_memory.FROM_PYTHON))
        in_use = bytes_in_use()
        return found + (_rest(found, in_use) if in_use else [])


def named(
    alive: Iterable[Held], program: ProgramMemory, own_steps: Collection[int] = (),
    done: Collection[str] = (),
) -> list[Held]:  # fmt: skip
    """Under the program's own names; what may be gone only if the program still holds it.

    `own_steps` and `done` are of a run that is not over (see `ProgramMemory.name`).
    """
    found = []
    for held in alive:
        item = program.name(held, own_steps, done) if ledger.still_alive(held) else held
        if held.certain or item is not held:
            found.append(_or_outside(item))
    return found


def _or_outside(held: Held) -> Held:
    return held if held.name else held._replace(name=OUTSIDE, kind=UNATTRIBUTED)


def _with_children(profile: Any, steps: Iterable[int]) -> set[int]:
    """These steps of the executor and all that they started."""
    found: set[int] = set()
    stack = list(steps)
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            step = profile.steps.get(number)
            stack.extend(step.children if step is not None else ())
    return found


def _missing(found: Iterable[Held], in_use: Mapping[str, int]) -> dict[str, int]:
    missing = dict(in_use)
    for held in found:
        if held.device in missing:
            missing[held.device] -= held.bytes
    return missing


def _rest(found: Iterable[Held], in_use: Mapping[str, int]) -> list[Held]:
    """One row per device for what nobody is known to hold."""
    return [
        Held(0, size, size, 0, BEFORE, device, kind=UNATTRIBUTED)
        for device, size in _missing(found, in_use).items()
        if size > 0
    ]


def columns_of(rows: list[Row]) -> AllocationColumns:
    return AllocationColumns.build(
        name=[held.name for held, *_ in rows],
        device=[held.device for held, *_ in rows],
        time_ns=[time_ns for _, _, time_ns, _ in rows],
        bytes=[-held.bytes if event == FREE else held.bytes for held, event, *_ in rows],
        address=[held.address for held, *_ in rows],
        event=[event for _, event, *_ in rows],
        slot=[held.slot for held, *_ in rows],
        dtype=[held.dtype for held, *_ in rows],
        shape=[held.shape for held, *_ in rows],
        kind=[held.kind for held, *_ in rows],
        step=[step for *_, step in rows],
    )
