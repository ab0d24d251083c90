"""Columns of single allocations and frees: who held which memory, from when until when."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from stepscope.metadata.memory.memory_columns import check_lengths, object_column, times_in_range
from stepscope.metadata.readable import number
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["ALLOCATE", "FAILED", "FREE", "HELD", "PERSISTENT_KINDS", "AllocationColumns"]

ALLOCATE: Final = "allocate"
FREE: Final = "free"
HELD: Final = "held"
"""Was live already when recording began."""
FAILED: Final = "failed"
"""A request that was refused; its bytes were never live."""

PERSISTENT_KINDS: Final = frozenset({"variable", "queue", "feed"})
"""The kinds of memory that outlive the ops of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class AllocationColumns:
    """One row per event, in order of time.

    `event` is "allocate", "free", "held" (was live when recording began) or "failed" (a request
    that was refused). `bytes` is negative for a free. `kind` is "temporary", "output" (fetched),
    "variable", "queue", "feed" or "unattributed". Not recorded: `address` 0, `slot` -1, `dtype` 0
    (a number of TensorFlow's `DataType`), `shape` None.
    """

    names: StringColumn
    devices: StringColumn
    events: StringColumn
    kinds: StringColumn
    time_ns: NDArray[np.int64]
    bytes: NDArray[np.int64]
    address: NDArray[np.uint64]
    slot: NDArray[np.int32]
    dtype: NDArray[np.int32]
    shape: NDArray[Any]
    step: NDArray[np.int64]

    @classmethod
    def build(
        cls,
        *,
        name: Sequence[str] | StringColumn,
        device: Sequence[str] | StringColumn,
        time_ns: ArrayLike,
        bytes: ArrayLike,
        address: ArrayLike | None = None,
        event: Sequence[str] | StringColumn | None = None,
        slot: ArrayLike | None = None,
        dtype: ArrayLike | None = None,
        shape: Iterable[tuple[int, ...] | None] | None = None,
        kind: Sequence[str] | StringColumn | str = "temporary",
        step: ArrayLike = 0,
    ) -> Self:
        """From plain sequences, in any order; rows of the same time keep theirs.

        Without `event`, the sign of `bytes` tells an allocation from a free.
        """
        times = times_in_range(time_ns)
        count = len(times)
        size = np.asarray(bytes, dtype=np.int64)
        if event is None:
            event = StringColumn((size < 0).astype(np.int32), (ALLOCATE, FREE))
        columns = cls(
            StringColumn.of(name),
            StringColumn.of(device),
            StringColumn.of(event),
            StringColumn.repeated(kind, count) if isinstance(kind, str) else StringColumn.of(kind),
            times,
            size,
            np.zeros(count, np.uint64) if address is None else np.asarray(address, np.uint64),
            np.full(count, -1, np.int32) if slot is None else np.asarray(slot, np.int32),
            np.zeros(count, np.int32) if dtype is None else np.asarray(dtype, np.int32),
            object_column([None] * count if shape is None else shape),
            np.broadcast_to(np.asarray(step, dtype=np.int64), (count,)),
        )
        check_lengths(columns)
        if count > 1 and bool(np.any(times[1:] < times[:-1])):
            return columns.select(np.argsort(times, kind="stable"))
        return columns

    @classmethod
    def empty(cls) -> Self:
        """No rows."""
        return cls.build(name=[], device=[], time_ns=[], bytes=[])

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of several, in order of time."""
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else cls.empty()

        def column(name: str) -> Any:
            found = [getattr(part, name) for part in filled]
            texts = isinstance(found[0], StringColumn)
            return StringColumn.joined(found) if texts else np.concatenate(found)

        whole = cls(*(column(field.name) for field in fields(cls)))
        if bool(np.any(whole.time_ns[1:] < whole.time_ns[:-1])):
            return whole.select(np.argsort(whole.time_ns, kind="stable"))
        return whole

    def at_step(self, step: int) -> Self:
        """The same rows, as those of another step."""
        return replace(self, step=np.full(len(self), step, np.int64))

    @property
    def name(self) -> NDArray[Any]:
        """The op that owns the memory, per row."""
        return self.names.values

    @property
    def device(self) -> NDArray[Any]:
        """The device, per row."""
        return self.devices.values

    @property
    def event(self) -> NDArray[Any]:
        """What happened, per row."""
        return self.events.values

    @property
    def kind(self) -> NDArray[Any]:
        """What the memory is for, per row."""
        return self.kinds.values

    def __repr__(self) -> str:
        devices = len(np.unique(self.devices.codes))
        return f"<AllocationColumns: {number(len(self), 'event')} on {number(devices, 'device')}>"

    def __len__(self) -> int:
        return len(self.time_ns)

    def select(self, rows: Any) -> Self:
        """Some of the rows: positions, a slice or a mask."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    # -- what was live ---------------------------------------------------------------------

    def _counted(self, device: str | None) -> NDArray[np.int64]:
        """What each row adds to the live bytes."""
        counted = np.where(self.event == FAILED, 0, self.bytes)
        return counted if device is None else np.where(self.device == device, counted, 0)

    def live(self, device: str | None = None) -> NDArray[np.int64]:
        """The bytes live after each row, on one device or on all of them."""
        return np.cumsum(self._counted(device))

    def peak_row(self, device: str | None = None) -> int:
        """The row after which the most bytes were live; -1 if nothing ever was."""
        live = self.live(device)
        if not len(live) or live.max() <= 0:
            return -1
        return int(live.argmax())

    def peak_bytes(self, device: str | None = None) -> int:
        """The most bytes that were live at once, on one device or on all of them."""
        row = self.peak_row(device)
        return 0 if row < 0 else int(self.live(device)[row])

    def device_peaks(self) -> dict[str, int]:
        """`peak_bytes` of every device that has a row, all of them in one pass."""
        if not len(self):
            return {}
        codes = self.devices.codes
        order = np.argsort(codes, kind="stable")
        first = np.flatnonzero(np.diff(codes[order], prepend=-1))
        live = np.cumsum(self._counted(None)[order])
        before = np.repeat(
            np.concatenate([[0], live[first[1:] - 1]]), np.diff(first, append=len(order))
        )
        highest = np.maximum(np.maximum.reduceat(live - before, first), 0)
        names = self.devices.table
        found = zip(codes[order[first]].tolist(), highest.tolist(), strict=True)
        return {names[code]: peak for code, peak in found}

    def freed_by(self) -> NDArray[np.int64]:
        """Per row of an allocation the row that freed it; -1 where none did, and of other rows."""
        freed = np.full(len(self), -1, np.int64)
        alive: dict[tuple[int, ...], deque[int]] = {}
        frees = np.array([event == FREE for event in self.events.table], bool)
        failed = np.array([event == FAILED for event in self.events.table], bool)
        codes = self.events.codes.tolist()
        names, slots = self.names.codes.tolist(), self.slot.tolist()
        places, addresses = self.devices.codes.tolist(), self.address.tolist()
        sizes = np.abs(self.bytes).tolist()
        for row, event in enumerate(codes):
            if failed[event]:
                continue
            # Where addresses are known they tell two executions of one op apart (loops); where not,
            # sizes tell an output from what the op had for itself.
            own: tuple[int, ...] = places[row], addresses[row]
            if not addresses[row]:
                own = places[row], names[row], slots[row], sizes[row]
            if not frees[event]:
                alive.setdefault(own, deque()).append(row)
            elif waiting := alive.get(own):
                freed[waiting.popleft()] = row
        return freed

    def alive_at(self, row: int, device: str | None = None) -> Self:
        """The rows of the allocations that were live after a row (-1: none)."""
        first = self.select(slice(row + 1))
        alive = (first.event != FREE) & (first.event != FAILED) & (first.freed_by() < 0)
        if device is not None:
            alive &= first.device == device
        return first.select(np.flatnonzero(alive))
