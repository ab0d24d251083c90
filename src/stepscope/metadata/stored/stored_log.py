"""A run that an executor logged, packed for a store: as it was logged, before columns are made.

What such runs share are their graphs (facts, constants, edges) and what their tensors are, both by
the numbers that the log has. The run's own are the rows. The columns that come back are those that
the program would have seen.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.metadata.graph_facts import GraphFacts
from stepscope.metadata.logged_nodes import (
    OUTPUT,
    ROW,
    InputRows,
    Log,
    LoggedGraphs,
    LoggedNodes,
    nodes_of,
)
from stepscope.metadata.memory.logged_memory import CHANGE, LoggedMemory
from stepscope.metadata.stored.packing import Column, Packed, PackedDamageError, pack
from stepscope.metadata.stored.stored_columns import (
    pack_facts,
    shape_columns,
    unpack_facts,
    unpack_shapes,
)

__all__ = [
    "StorableLog",
    "described_numbers",
    "pack_descriptions",
    "pack_graphs",
    "pack_log",
    "unpack_descriptions",
    "unpack_graphs",
    "unpack_log",
]

_LENGTH: Final = struct.Struct("<q")
_CHANGE: Final = ("row", "allocator", "later", "time_us", "bytes")
"""The columns of what executions took of memory, in the order in which they are packed."""


@dataclass(frozen=True, slots=True)
class StorableLog:
    """A run that its log has all of, so that it can be stored as it is."""

    nodes: LoggedNodes
    thread_names: Mapping[int, str]
    outputs: bool
    """Whether the run's columns have them."""
    allocations: bool
    """Whether the run's allocations are those that its log tells."""


# -- graphs ------------------------------------------------------------------------------------


class StoredGraphs(NamedTuple):
    """The graphs of runs as a store has them: nodes are in another order than in the log."""

    facts: GraphFacts
    numbers: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    place: NDArray[np.int32]
    constants: NDArray[np.uint32]
    edges: InputRows

    def nodes(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Per row of a log its node, as a row of the facts."""
        node = nodes_of(self.numbers, self.lengths, rows)
        if len(node) and not 0 <= node.min() <= node.max() < len(self.place):
            raise PackedDamageError("rows of nodes that their graphs do not have")
        return self.place[node]


def pack_graphs(graphs: LoggedGraphs) -> bytes:
    """The graphs, as `unpack_graphs` reads them."""
    facts, place = pack_facts(graphs.facts)
    producer, slot, consumer = graphs.edges
    constants = np.empty(len(place), np.uint32)
    constants[place] = graphs.constants
    numbers, lengths = graphs.numbers, graphs.lengths
    own = pack([numbers, lengths, place, constants, place[producer], slot, place[consumer]])
    return _LENGTH.pack(len(facts)) + facts + own


def unpack_graphs(data: bytes) -> StoredGraphs:
    """What `pack_graphs` packed."""
    if len(data) < _LENGTH.size:
        raise PackedDamageError("graphs that are cut")
    (length,) = _LENGTH.unpack_from(data)
    facts = unpack_facts(data[_LENGTH.size : _LENGTH.size + length])
    packed = Packed(data[_LENGTH.size + length :])
    numbers, lengths = packed.numbers(np.uint32), packed.numbers()
    place, constants = packed.numbers(np.int32), packed.numbers(np.uint32)
    edges = InputRows(*_columns(packed, 3, np.int32))
    if not len(facts) == len(place) == len(constants) == int(lengths.sum()):
        raise PackedDamageError("graphs with other facts than theirs")
    for rows in (place, edges.producer, edges.consumer):
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(facts):
            raise PackedDamageError("graphs with nodes that they do not have")
    return StoredGraphs(facts, numbers, lengths, place, constants, edges)


# -- what tensors are --------------------------------------------------------------------------


class StoredDescriptions(NamedTuple):
    """What tensors are, by numbers in order."""

    numbers: NDArray[np.uint32]
    dtypes: NDArray[np.int32]
    shapes: NDArray[Any]
    sizes: NDArray[np.int64]

    def of(
        self, numbers: NDArray[Any]
    ) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[np.int64]]:
        """Dtype, shape and bytes of each."""
        place = np.searchsorted(self.numbers, numbers)
        if (place >= len(self.numbers)).any() or (self.numbers[place] != numbers).any():
            raise PackedDamageError("outputs that are described nowhere")
        return self.dtypes[place], self.shapes[place], self.sizes[place]


def described_numbers(nodes: LoggedNodes) -> NDArray[np.uint32]:
    """The numbers of what a run of these graphs put out, each once, and of their constants."""
    log = nodes.log
    numbers = (log.rows["output"], log.outputs["output"], nodes.graphs.constants)
    found = np.unique(np.concatenate(numbers))
    return found[found > 0]


def pack_descriptions(nodes: LoggedNodes, numbers: NDArray[np.uint32]) -> bytes:
    """What is known under these numbers."""
    dtypes, shapes, sizes = nodes.described.of(numbers)
    return pack([numbers, dtypes, *shape_columns(shapes), sizes])


def unpack_descriptions(data: bytes) -> StoredDescriptions:
    """What `pack_descriptions` packed."""
    packed = Packed(data)
    found = StoredDescriptions(
        packed.numbers(np.uint32), packed.numbers(np.int32), unpack_shapes(packed), packed.numbers()
    )
    if len({*map(len, found)}) != 1 or (found.numbers[1:] <= found.numbers[:-1]).any():
        raise PackedDamageError("descriptions of which some parts are missing")
    return found


# -- rows --------------------------------------------------------------------------------------


def pack_log(log: Log) -> bytes:
    """The rows of a log, as `unpack_log` reads them."""
    rows, outputs, memory = log
    start = rows["start"]
    counted: list[Column] = [None]
    if memory is not None:
        counted = [*(memory.changes[name] for name in _CHANGE), memory.allocators]
    return pack(
        [
            rows["graph"], rows["node"], rows["thread"], rows["state"], rows["output"], start,
            start - rows["scheduled"], rows["end"] - start,
            *(outputs[name] for name in ("row", "slot", "output")),
            *counted,
        ]
    )  # fmt: skip


def unpack_log(data: bytes) -> Log:
    """What `pack_log` packed."""
    packed = Packed(data)
    graph, node, thread, state, output, start, before, after = _columns(packed, 8)
    rows = np.zeros(len(start), ROW)
    columns = {
        "graph": graph, "node": node, "thread": thread, "state": state, "output": output,
        "start": start, "scheduled": start - before, "end": start + after,
    }  # fmt: skip
    for name, column in columns.items():
        rows[name] = column
    row, slot, output = _columns(packed, 3)
    outputs = np.zeros(len(row), OUTPUT)
    outputs["row"], outputs["slot"], outputs["output"] = row, slot, output
    if len(row) and not 0 <= row.min() <= row.max() < len(rows):
        raise PackedDamageError("outputs of rows that are not there")
    return Log(rows, outputs, None if packed.at_end else _unpack_memory(packed, len(rows)))


def _unpack_memory(packed: Packed, rows: int) -> LoggedMemory | None:
    """What executions took of memory; None where nobody counted it."""
    row = packed.optional_numbers()
    if row is None:
        return None
    changes = np.zeros(len(row), CHANGE)
    for name, column in zip(_CHANGE[1:], _columns(packed, len(_CHANGE) - 1), strict=True):
        if len(column) != len(row):
            raise PackedDamageError("columns of different lengths")
        changes[name] = column
    changes["row"] = row
    allocators = packed.strings()
    for places, count in ((row, rows), (changes["allocator"], len(allocators))):
        if len(row) and not 0 <= places.min() <= places.max() < count:
            raise PackedDamageError("memory of rows or allocators that are not there")
    return LoggedMemory(changes, allocators)


def _columns(packed: Packed, count: int, dtype: Any = np.int64) -> Iterator[NDArray[Any]]:
    """The next columns, which are equally long."""
    length = None
    for _ in range(count):
        column = packed.numbers(dtype)
        if length is not None and len(column) != length:
            raise PackedDamageError("columns of different lengths")
        length = len(column)
        yield column
