"""What one run does to memory, while it runs.

A run has a `RunMemory` only where somebody needs it. It *counts* when each op has to be charged as
it runs (a limit it may not fit, or a pool, whose order nobody knows beforehand); otherwise it only
notes what the plan could not know, and the rest is worked out from the plan afterwards.

Guarantees. The methods may be called by any thread of the run (one that only takes notes has one
thread, and takes no lock). A request that does not fit raises `Refused` before its kernel runs, or
right after it where only the kernel can tell the size. After `close` nothing is charged any more,
whatever an abandoned op still does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepscope.metadata.memory.allocations import ALLOCATE, FREE
from stepscope.ops.resources import Holding, address_of
from stepscope.ops.state.variable_cells import VariableCell
from stepscope.runtime.execute.trace import clock
from stepscope.runtime.memory.accountant import Accountant, FoundOutput, OwnedMemory
from stepscope.runtime.memory.allocator import Allocator, RunAccount
from stepscope.runtime.memory.curve import Replaced
from stepscope.runtime.plan.memory_table import MemoryTable, Port, StepOutput


class Refused(MemoryError):  # noqa: N818 - becomes an OpError
    """A request that a device's limit has no room for."""

    def __init__(self, request: Request) -> None:
        super().__init__(f"{request.bytes} bytes for {request.name} are above the limit")
        self.request = request


class Request(NamedTuple):
    """What was asked for."""

    name: str
    slot: int
    device: str
    dtype: int
    shape: tuple[int, ...] | None
    bytes: int
    limit: int | None
    time: int
    """A clock reading."""


class Fed(NamedTuple):
    """An array that was fed."""

    step: int
    shape: tuple[int, ...]
    bytes: int
    address: int


class HeldEvent(NamedTuple):
    """A change of what variables and queues hold."""

    time: int
    event: str
    holding: Holding
    ends: int = -1
    """The step whose end it is part of."""


class NotedMemory(NamedTuple):
    """What a run noted of memory: all that its plan does not know."""

    table: MemoryTable
    step_id: int
    opening: Sequence[Holding]
    """What variables and queues held when the run began, where somebody asked."""
    feeds: Sequence[Fed]
    """What was fed, each array once."""
    notes: Mapping[Port, FoundOutput]
    held_events: Sequence[HeldEvent]
    replaced: Sequence[Replaced]
    view_addresses: Sequence[int]
    """Where the views of the program's buffers lay, if it had them all from the start."""


class Before(NamedTuple):
    """A variable as it was when a step that changes it began."""

    time: int
    holdings: list[Holding]
    array: Any
    """A weak reference to its array, or None."""
    charged: int


class RunMemory:
    """Counts or notes the memory of one run, as much as somebody needs."""

    # A run that only takes notes comes between large ops, which leave no cache behind: it is to
    # touch as little memory as it can, and has nothing of what counting needs.
    __slots__ = (
        "_account", "_accountant", "_allocator", "_before", "_begun", "_closed", "_copied", "_fed",
        "_lock", "counts", "forwards", "held_events", "notes", "opening", "refused", "replaced",
        "step_id", "table", "view_addresses",
    )  # fmt: skip

    def __init__(
        self,
        table: MemoryTable,
        allocator: Allocator,
        *,
        step_id: int,
        counts: bool,
        forwards: Mapping[int, Port],
    ) -> None:
        self.table = table
        self.counts = counts
        self.forwards = forwards
        self.step_id = step_id
        self.notes: dict[Port, FoundOutput] = {}
        self.held_events: list[HeldEvent] = []
        self.replaced: list[Replaced] = []
        self.opening: list[Holding] = []
        self._fed: list[tuple[tuple[int, ...], int, int]] = []
        """Shape, bytes and address of what was fed, in the order of the table's feeds."""
        self.view_addresses: Sequence[int] = ()
        self.refused: Request | None = None
        self._allocator = allocator
        self._account: RunAccount | None = None
        self._closed = False
        self._copied: dict[int, list[Holding]] = {}
        """By thread, what its op took out of a queue and copies."""
        if counts:
            self._lock = threading.RLock()
            self._before: dict[int, Before] = {}
            self._accountant: Accountant | None = None

    @property
    def accountant(self) -> Accountant:
        """Counts what the ops make, where the run counts."""
        if self._accountant is None:
            self._accountant = Accountant(self.table, self.forwards, self._charge, self._release)
        return self._accountant

    @property
    def feeds(self) -> Sequence[Fed]:
        """What was fed, each array once."""
        fed = [Fed(step, *facts) for step, facts in zip(self.table.feeds, self._fed, strict=False)]
        return list({(f.address, f.bytes): f for f in reversed(fed)}.values())[::-1]

    def noted(self) -> NotedMemory:
        """What was noted so far."""
        return NotedMemory(
            self.table, self.step_id, self.opening, self.feeds, self.notes, self.held_events,
            self.replaced, self.view_addresses,
        )  # fmt: skip

    # -- the run as a whole --------------------------------------------------------------------

    def open(self, arrays: Sequence[Any], account: RunAccount | None, *, opening: bool) -> None:
        """The run begins with these fed arrays, in the order of the table's feeds."""
        self._account = account
        if opening:
            self.opening = self._allocator.holdings()
        fed = [(array.shape, array.nbytes, address_of(array)) for array in arrays]
        if account is None:
            self._fed = fed
            return
        charged = set()
        for step, (shape, size, address) in zip(self.table.feeds, fed, strict=True):
            if (address, size) not in charged:
                charged.add((address, size))
                name, slot, dtype = self.table.feeds[step]
                device = self.table.plan.nodes[step].device
                self._request(name, slot, device, dtype, shape, size)
            self._fed.append((shape, size, address))

    def finish(self) -> None:
        """Every step is done."""
        if self.counts:
            with self._lock:
                self.accountant.finish(clock())

    def close(self) -> None:
        """The run is over, one way or the other: nothing of it counts any more."""
        if not self.counts:
            self._closed = True
            return
        with self._lock:
            self._closed = True
            if self._account is not None:
                self._account.close()

    # -- steps ---------------------------------------------------------------------------------

    def before(self, i: int, arguments: Sequence[Any] = ()) -> None:
        """Where the run counts: a step begins; `arguments` if it changes a variable or a queue."""
        with self._lock:
            if self._closed:
                return
            now = clock()
            if arguments:
                charged = self._special(i, arguments)
                if self.table.specials[i] == "variable":
                    self._remember(i, arguments[0], now, charged)
                else:
                    self._before[i] = Before(now, [], None, charged)
            self.accountant.start(i, now)

    def seen(
        self, i: int, outputs: Sequence[Any], source: Any = None, cell: VariableCell | None = None
    ) -> None:
        """A step is done, and this is what it made (`source`: what its views are views of)."""
        if not self.counts:
            self._note(i, outputs, source, cell)
            return
        with self._lock:
            if self._closed:
                return
            now = clock()
            found = self._look(i, outputs, source) if self.table.looks[i] else {}
            before = self._before.pop(i, None)
            if before is not None:
                if before.charged:
                    self._release(self.table.plan.nodes[i].device, before.charged)
                if cell is not None:
                    self._compare(i, cell, before, now)
            self.accountant.end(i, now, found or self._addresses(i, outputs))
            self._let_copied_go(i)

    def remember(self, cell: VariableCell) -> list[Holding]:
        """Where the run does not count: a step that changes this variable begins.

        What the variable holds. If it holds the same list when the step is done, the step changed
        it in place or not at all, and there is nothing to be seen.
        """
        array = cell.stored
        holdings = cell.holdings()
        self._begun = clock(), holdings, None if array is None else weakref.ref(array)
        return holdings

    def _note(self, i: int, outputs: Sequence[Any], source: Any, cell: VariableCell | None) -> None:
        """What the plan does not know of a step that is done; the run has one thread."""
        if self._closed:
            return
        for slot, what in self._look(i, outputs, source).items():
            self.notes[i, slot] = what
        if cell is not None:
            self._compare(i, cell, Before(*self._begun, 0), clock())
        if self._copied:
            self._let_copied_go(i)

    def _let_copied_go(self, i: int) -> None:
        for holding in self._copied.pop(threading.get_ident(), ()):
            self.held_events.append(HeldEvent(clock(), FREE, holding, i))

    def _look(self, i: int, outputs: Sequence[Any], source: Any) -> dict[int, FoundOutput]:
        found = {}
        for output in self.table.made[i]:
            if output.source is not None and not output.may_copy:
                continue
            value = outputs[output.slot]
            copied = output.may_copy and not _shares(value, source)
            if output.source is not None and not copied:
                continue
            if isinstance(value, np.ndarray):
                what = FoundOutput(value.nbytes, value.shape, address_of(value), copied)
            else:
                what = FoundOutput(int(getattr(value, "nbytes", 0)), np.shape(value), 0, copied)
            found[output.slot] = what
        return found

    def _addresses(self, i: int, outputs: Sequence[Any]) -> dict[int, FoundOutput]:
        return {
            o.slot: FoundOutput(o.bytes, o.shape or (), address_of(outputs[o.slot]))
            for o in self.table.made[i]
            if o.source is None
        }

    # -- variables and queues ------------------------------------------------------------------

    def _special(self, i: int, arguments: Sequence[Any]) -> int:
        """Charge what a variable or a queue is going to take, for as long as the op runs."""
        if self._account is None:
            return 0
        node = self.table.plan.nodes[i]
        size, value = 0, arguments[-1]
        if self.table.specials[i] == "enqueue":
            size = sum(int(np.asarray(a).nbytes) for a in arguments[1:])
        elif self.table.assigns(i):
            cell: VariableCell = arguments[0]
            stored = cell.stored
            if stored is None or stored.shape != np.shape(value):
                size = int(np.asarray(value).nbytes)
        if size:
            name, dtype = node.name, node.inputs[1][0].output_dtypes[node.inputs[1][1]]
            if self.table.specials[i] == "variable":
                name = arguments[0].op
            self._request(
                name, 0, node.device, dtype.base_dtype.as_datatype_enum, np.shape(value), size
            )
        return size

    def _remember(self, i: int, cell: VariableCell, now: int, charged: int) -> None:
        array = cell.stored
        reference = weakref.ref(array) if array is not None else None
        del array
        self._before[i] = Before(now, cell.holdings(), reference, charged)

    def _compare(self, i: int, cell: VariableCell, before: Before, now: int) -> None:
        old = before.array() if before.array is not None else None
        if old is not None and cell.stored is old:
            return
        current = cell.holdings()
        if not current:
            return
        self.held_events.append(HeldEvent(before.time, ALLOCATE, current[0]))
        if not before.holdings:
            return
        was = before.holdings[0]
        self.held_events.append(HeldEvent(now, FREE, was, i))
        if old is not None:
            source, slot = self.table.plan.nodes[i].inputs[0]
            variable = self.table.variable_of[source.index, slot]
            self.replaced.append(Replaced(i, variable, was.bytes, was.address))
            if self.counts:
                self.accountant.replaced(variable, was.bytes, was.address, now)

    def put(self, holdings: Sequence[Holding]) -> None:
        """A queue took these in."""
        now = clock()
        self.held_events += [HeldEvent(now, ALLOCATE, h) for h in holdings]

    def taken(self, holdings: Sequence[Holding], copied: bool) -> None:
        """A queue gave these out; `copied` ones are held until the op of this thread ends."""
        if copied:
            self._copied.setdefault(threading.get_ident(), []).extend(holdings)
            return
        now = clock()
        self.held_events += [HeldEvent(now, FREE, h) for h in holdings]

    # -- the limit -----------------------------------------------------------------------------

    def _charge(self, output: StepOutput, size: int, shape: tuple[int, ...] | None) -> None:
        self._request(output.name, output.slot, output.device, output.dtype, shape, size)

    def _request(
        self,
        name: str,
        slot: int,
        device: str,
        dtype: int,
        shape: tuple[int, ...] | None,
        size: int,
    ) -> None:
        if self._account is None or self._account.charge(device, size):
            return
        limit = self._allocator.limits[device]
        self.refused = Request(name, slot, device, dtype, shape, size, limit, clock())
        raise Refused(self.refused)

    def _release(self, device: str, size: int) -> None:
        if self._account is not None and not self._closed:
            self._account.release(device, size)

    def withdraw(self, i: int) -> None:
        """A step failed because the machine had no memory for it."""
        with self._lock:
            self.accountant.withdraw(i)

    def alive(self) -> list[OwnedMemory]:
        """The temporaries that are live now, where the run counts them."""
        with self._lock:
            return list(self.accountant.alive())


def _shares(value: Any, source: Any) -> bool:
    return isinstance(source, np.ndarray) and np.may_share_memory(value, source)
