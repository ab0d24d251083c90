"""A run as clock readings over a pattern that runs have in common, packed for a store.

Runs of one plan that go well execute the same nodes in the same order. Each time in their columns
is then one of the clock's readings, and which one is the same for all of them. A *pattern* is the
columns of such a run with ranks in the place of times: 1 is the earliest of the run's readings. In
the place of the addresses and steps of allocations it has places among the run's `values`, from 1
on; 0 stays 0. What a run adds are its readings and values, and of these it shares what *stood* when
it began (what variables and queues held, where the buffers lay) with the runs around it.

>>> from stepscope.metadata.graph_facts import GraphFacts
>>> facts = GraphFacts.build(name=["a", "b"], op=["Const", "Neg"], device=["/cpu:0"] * 2)
>>> ranks = OpColumns.over(
...     facts, node=[0, 1], thread=[7, 7], scheduled_ns=[1, 2], start_ns=[1, 2], end_ns=[2, 3]
... )
>>> order = np.arange(3)
>>> pattern = unpack_pattern(pack_pattern(facts, ranks, ranks.node, None, order), facts)
>>> run = Readings(np.array([500, 510, 540]), np.array([], np.uint64), NOTHING_STOOD)
>>> pattern.ops(run, step_id=3).end_ns.tolist()
[510, 540]
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson

from stepscope.cached_property import cached_property
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.memory.memory_columns import MemoryColumns, object_column
from stepscope.metadata.stored import stored_columns as columns
from stepscope.metadata.stored.packing import Packed, PackedDamageError, pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata.graph_facts import GraphFacts
    from stepscope.metadata.memory.allocations import AllocationColumns

__all__ = [
    "NOTHING_STOOD",
    "Pattern",
    "Readings",
    "Standing",
    "StorablePattern",
    "pack_pattern",
    "pack_readings",
    "pack_standing",
    "unpack_pattern",
    "unpack_readings",
    "unpack_standing",
]

_LENGTH: Final = struct.Struct("<q")
_NO_TIMES: Final = np.empty(0, np.int64)
_NO_VALUES: Final = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What stood when a run began: when it came there (ns since the epoch), and its values."""

    times: NDArray[np.int64]
    values: NDArray[np.uint64]


NOTHING_STOOD: Final = Standing(_NO_TIMES, _NO_VALUES)


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """What is a run's own: the clock's readings, in nanoseconds since the epoch, and its values.

    What stood when it began comes after them, in `all_times` and `all_values`.
    """

    times: NDArray[np.int64]
    values: NDArray[np.uint64]
    standing: Standing

    @property
    def all_times(self) -> NDArray[np.int64]:
        """Every time, in the order in which they were noted."""
        return np.concatenate([self.times, self.standing.times])

    @property
    def all_values(self) -> NDArray[np.uint64]:
        """Every value; the first is the 0 that a pattern has where there is none."""
        return np.concatenate([np.zeros(1, np.uint64), self.values, self.standing.values])


@dataclass(frozen=True, slots=True)
class StorablePattern:
    """A run that can be stored as readings over a pattern.

    `ops` and `allocations` make the pattern's columns; `order` is, from the earliest reading on,
    where each is in `readings.all_times`.
    """

    ops: Callable[[], OpColumns]
    allocations: Callable[[], AllocationColumns] | None
    order: NDArray[np.int64]
    readings: Readings


# -- what a run adds ---------------------------------------------------------------------------


def pack_readings(readings: Readings) -> bytes:
    """What is the run's own, as `unpack_readings` reads it."""
    return pack([readings.times, readings.values])


def pack_standing(standing: Standing) -> bytes:
    """What it shares with the runs around it, as `unpack_standing` reads it."""
    return pack([standing.times, standing.values])


def unpack_readings(own: bytes, standing: Standing) -> Readings:
    """What `pack_readings` packed."""
    packed = Packed(own)
    return Readings(packed.numbers(), packed.numbers(np.uint64), standing)


def unpack_standing(content: bytes) -> Standing:
    """What `pack_standing` packed."""
    packed = Packed(content)
    return Standing(packed.numbers(), packed.numbers(np.uint64))


# -- the pattern -------------------------------------------------------------------------------


class Pattern:
    """What runs that are alike have in common; makes the columns of each from its readings."""

    def __init__(
        self, ops: OpColumns, allocations: AllocationColumns | None, order: NDArray[np.int64]
    ) -> None:
        self._ops = ops
        self._allocations = allocations
        self._order = order
        self._times = [_ranked(ops.scheduled_ns), _ranked(ops.start_ns), _ranked(ops.end_ns)]
        ranks = [*self._times, self._memory_ranks]
        if allocations is not None:
            ranks.append(_ranked(allocations.time_ns))
        self._ranks = 1 + max([int(rank.max()) for rank in ranks if len(rank)], default=-1)

    def ops(self, readings: Readings, step_id: int) -> OpColumns:
        """The executions of a run with these readings."""
        times, ops = self._in_order(readings), self._ops
        scheduled, start, end = (times[rank] for rank in self._times)
        return OpColumns.over(
            ops.facts,
            node=ops.node,
            thread=ops.thread,
            scheduled_ns=scheduled,
            start_ns=start,
            end_ns=end,
            step=step_id,
            thread_names=ops.thread_names,
            tensors=ops.tensors,
            memory=(lambda: self._memory(times)) if len(ops.memory) else None,
        )

    def allocations(self, readings: Readings) -> AllocationColumns:
        """The allocations of a run with these readings."""
        found = self._allocations
        if found is None:
            raise PackedDamageError("a pattern without the allocations that are asked for")
        values = readings.all_values
        for places in (found.address, found.step):
            if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(values):
                raise PackedDamageError("allocations without their values")
        return replace(
            found,
            time_ns=self._in_order(readings)[_ranked(found.time_ns)],
            address=values[found.address.astype(np.intp)],
            step=values[found.step].astype(np.int64),
        )

    @property
    def has_allocations(self) -> bool:
        """Whether a run's allocations are known by it."""
        return self._allocations is not None

    def _in_order(self, readings: Readings) -> NDArray[np.int64]:
        """The distinct readings from the earliest on."""
        times, order = readings.all_times, self._order
        if len(order) < self._ranks or (len(order) and not int(order.max()) < len(times)):
            raise PackedDamageError("a run with fewer readings than its pattern has ranks")
        return times[order]

    @cached_property
    def _memory_ranks(self) -> NDArray[np.intp]:
        records = self._ops.memory.records.tolist()
        return _ranked(np.array([rank for pairs in records for rank, _ in pairs], np.int64))

    def _memory(self, times: NDArray[np.int64]) -> MemoryColumns:
        memory = self._ops.memory
        found = iter(times[self._memory_ranks].tolist())
        records = [
            tuple([(next(found), size) for _, size in pairs]) for pairs in memory.records.tolist()
        ]
        return replace(memory, records=object_column(records))


def _ranked(ranks: NDArray[np.int64]) -> NDArray[np.intp]:
    """Ranks, from 1, as places."""
    if len(ranks) and int(ranks.min()) < 1:
        raise PackedDamageError("a pattern with times that are no ranks")
    return ranks.astype(np.intp) - 1


def pack_pattern(
    facts: GraphFacts,
    ops: OpColumns,
    node: NDArray[np.int32],
    allocations: AllocationColumns | None,
    order: NDArray[np.int64],
) -> bytes:
    """A pattern as `unpack_pattern` reads it; `node` are the nodes of its ops in packed facts."""
    halves = {"times": columns.pack_times(ops, node)}
    if len(ops.tensors):
        halves["tensors"] = columns.pack_tensors(ops.tensors, node)
    if len(ops.memory):
        halves["memory"] = columns.pack_memory(ops.memory, node, ops.start_ns)
    if allocations is not None:
        halves["allocations"] = columns.pack_allocations(allocations)
    contents = {
        # Patterns of different graphs are never the same content.
        "facts": facts.key.encode(),
        "order": pack([order]),
        **{
            f"{name} {half}": getattr(found, half)
            for name, found in halves.items()
            for half in ("shared", "own")
        },
    }
    head = orjson.dumps({name: len(content) for name, content in contents.items()})
    return _LENGTH.pack(len(head)) + head + b"".join(contents.values())


def unpack_pattern(content: bytes, facts: GraphFacts) -> Pattern:
    """What `pack_pattern` packed, over the same facts."""
    contents = _unframed(content)
    try:
        order = Packed(contents["order"]).numbers()
        times = columns.unpack_times(contents["times shared"], contents["times own"])
        tensors = memory = allocations = None
        if "tensors own" in contents:
            shared = columns.unpack_shared_tensors(contents["tensors shared"])
            tensors = columns.unpack_tensors(shared, contents["tensors own"], times.node)
        if "memory own" in contents:
            shared = columns.unpack_shared_memory(contents["memory shared"])
            memory = columns.unpack_memory(
                shared, contents["memory own"], times.node, times.columns["start_ns"]
            )
        if "allocations own" in contents:
            allocations = columns.unpack_allocations(
                columns.unpack_shared_allocations(contents["allocations shared"]),
                contents["allocations own"],
            )
    except KeyError as error:
        raise PackedDamageError(f"a pattern without its {error}") from error
    ops = OpColumns.over(facts, **times.columns, tensors=tensors, memory=memory)
    return Pattern(ops, allocations, order)


def _unframed(content: bytes) -> Mapping[str, bytes]:
    if len(content) < _LENGTH.size:
        raise PackedDamageError("a pattern that is cut")
    (length,) = _LENGTH.unpack_from(content)
    place = _LENGTH.size + length
    try:
        lengths = orjson.loads(content[_LENGTH.size : place])
    except ValueError as error:
        raise PackedDamageError("a pattern that does not say what it has") from error
    found = {}
    for name, size in lengths.items():
        found[name] = content[place : place + size]
        place += size
    return found
