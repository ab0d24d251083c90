"""The columns of a run, packed for a store: what repeats from run to run apart from what does not.

A step that runs a thousand times has the same nodes, output shapes and sizes each time, and other
times, threads and addresses. So each kind of column is packed into two: `shared`, the same bytes
for runs that are alike, which a store keeps once, and `own`. Rows of a run come in the order in
which its ops ran, which varies; `shared` has them by node, and `own` is enough to put them back.

Everything comes back equal: values, order of rows, types. Tables of strings may be ordered
otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from stepscope.metadata.columns import OpColumns
from stepscope.metadata.graph_facts import GraphFacts
from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns, object_column
from stepscope.metadata.stored.packing import Packed, PackedDamageError, pack
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = [
    "Halves",
    "Times",
    "pack_allocations",
    "pack_facts",
    "pack_memory",
    "pack_tensors",
    "pack_times",
    "unpack_allocations",
    "unpack_facts",
    "unpack_memory",
    "unpack_shared_allocations",
    "unpack_shared_memory",
    "unpack_shared_tensors",
    "unpack_tensors",
    "unpack_times",
]


class Halves(NamedTuple):
    """What runs that are alike have in common, and what is this run's."""

    shared: bytes
    own: bytes


# -- the graph's facts -------------------------------------------------------------------------


def pack_facts(facts: GraphFacts) -> tuple[bytes, NDArray[np.int32]]:
    """The facts with their nodes in order of name, and where each node went.

    Facts that were made of a run's rows have nodes in the order in which they ran; in order of
    name they are the same for all runs of the graph.
    """
    names = facts.names.compact()
    by_name = sorted(range(len(names.table)), key=names.table.__getitem__)
    rank = np.empty(len(by_name), np.int64)
    rank[by_name] = np.arange(len(by_name))
    order = np.argsort(rank[names.codes], kind="stable")
    place = np.empty(len(facts), np.int32)
    place[order] = np.arange(len(facts), dtype=np.int32)
    texts = [
        None if text is None else text[order].compact()
        for text in (facts.names, facts.ops, facts.devices, facts.labels, facts.sources)
    ]
    columns: list[Any] = []
    for text in texts:
        columns += [None] if text is None else [np.ones(1, np.int64), text]
    outputs = facts.outputs
    if outputs is None:
        columns.append(None)
    else:
        moved = replace(outputs, op_index=place[outputs.op_index]).in_order()
        columns += [moved.op_index, *_described(moved), moved.address]
    return pack(columns), place


def unpack_facts(data: bytes) -> GraphFacts:
    """What `pack_facts` packed."""
    packed = Packed(data)
    texts = [None if packed.optional_numbers() is None else packed.string_column() for _ in "nodls"]
    names, ops, devices, labels, sources = texts
    if names is None or ops is None or devices is None:
        raise PackedDamageError("facts without names, types or devices")
    node = packed.optional_numbers(np.int32)
    outputs = None
    if node is not None:
        described = _unpack_described(packed)
        outputs = TensorColumns.build(op_index=node, **described, address=packed.numbers(np.uint64))
    return GraphFacts.build(
        name=names, op=ops, device=devices, label=labels, source=sources, outputs=outputs
    )


# -- when each op ran --------------------------------------------------------------------------


class Times(NamedTuple):
    """The columns of `OpColumns.over`, but for tensors and memory."""

    columns: dict[str, Any]

    @property
    def node(self) -> NDArray[np.int32]:
        """The node of each row."""
        node: NDArray[np.int32] = self.columns["node"]
        return node


def pack_times(ops: OpColumns, node: NDArray[np.int32]) -> Halves:
    """When and on which thread each op ran, of which `node` is the node; the names of threads."""
    threads, which = np.unique(ops.thread, return_inverse=True)
    start = ops.start_ns
    own = pack(
        [
            node,
            which,
            threads,
            start,
            start - ops.scheduled_ns,
            ops.end_ns - start,
            None if ops.op_start_ns is start else ops.op_start_ns - start,
            None if ops.op_end_ns is ops.end_ns else ops.end_ns - ops.op_end_ns,
            ops.step,
        ]
    )
    names = {str(thread): ops.thread_names[thread] for thread in sorted(ops.thread_names)}
    return Halves(orjson.dumps(names), own)


def unpack_times(shared: bytes, own: bytes) -> Times:
    """What `pack_times` packed."""
    packed = Packed(own)
    node, which, threads = packed.numbers(np.int32), packed.numbers(), packed.numbers()
    start = packed.numbers()
    scheduled, end = start - packed.numbers(), start + packed.numbers()
    op_start, before_end = packed.optional_numbers(), packed.optional_numbers()
    return Times(
        {
            "node": node,
            "thread": threads[which],
            "scheduled_ns": scheduled,
            "start_ns": start,
            "end_ns": end,
            "op_start_ns": None if op_start is None else start + op_start,
            "op_end_ns": None if before_end is None else end - before_end,
            "step": packed.numbers(),
            "thread_names": {int(thread): name for thread, name in orjson.loads(shared).items()},
        }
    )


# -- what belongs to ops: tensors and memory ---------------------------------------------------


class _ByNode(NamedTuple):
    """Rows that belong to ops, in order of the node and of its executions."""

    order: Ints
    """Which row comes there."""
    columns: tuple[Ints, Ints]
    """Of each row the node, and the how-manieth of its executions it belongs to."""
    back: Ints | None
    """Where each row was; None where that follows, as rows were in order of their ops."""


def _executions(node: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """The rows of ops in order of node, and of each op the how-manieth execution of it it is."""
    order = _by_number(node)
    ordered = node[order]
    places = np.arange(len(node))
    begins = np.ones(len(node), bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    which = np.empty(len(node), np.int64)
    which[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return order, which


def _by_number(node: NDArray[np.int32]) -> Ints:
    order: Ints = np.argsort(node, kind="stable")
    return order


def _by_node(op_index: NDArray[np.int32], node: NDArray[np.int32]) -> _ByNode:
    of_row = node[op_index]
    # Most graphs have no loops: each node runs once.
    execution = np.zeros(len(node), np.int64)
    if len(node) and np.bincount(node).max() > 1:
        _, execution = _executions(node)
    order = np.argsort(of_row, kind="stable")
    in_order = bool((op_index[1:] >= op_index[:-1]).all())
    back = None if in_order else np.argsort(order)
    places = of_row[order].astype(np.int64), execution[op_index][order]
    return _ByNode(order, places, back)


def _rows_again(
    columns: tuple[Ints, Ints], back: Ints | None, node: NDArray[np.int32]
) -> tuple[Ints, NDArray[np.int32]]:
    """Which row of those by node comes where, and the op that each belongs to."""
    of_row, execution = columns
    order = _by_number(node)
    place = np.searchsorted(node[order], of_row)
    place += execution
    if len(place) and not 0 <= place.min() <= place.max() < len(node):
        raise PackedDamageError("rows that belong to no op")
    op_index = order[place].astype(np.int32)
    rows = np.argsort(op_index, kind="stable") if back is None else back
    return rows, op_index[rows]


def _described(tensors: TensorColumns) -> list[Any]:
    """What tensors are, without the op and the address of each."""
    return [
        tensors.slot,
        tensors.dtype,
        *shape_columns(tensors.shape),
        tensors.bytes,
        None if tensors.allocated_bytes is tensors.bytes else tensors.allocated_bytes,
        tensors.allocators,
    ]


def _unpack_described(packed: Packed) -> dict[str, Any]:
    return {
        "slot": packed.numbers(np.int32),
        "dtype": packed.numbers(np.int32),
        "shape": unpack_shapes(packed),
        "bytes": packed.numbers(),
        "allocated_bytes": packed.optional_numbers(),
        "allocator": packed.string_column(),
    }


def pack_tensors(tensors: TensorColumns, node: NDArray[np.int32]) -> Halves:
    """The outputs of ops, of which `node` is the node."""
    rows = _by_node(tensors.op_index, node)
    shared = pack([*rows.columns, *_described(tensors.select(rows.order))])
    return Halves(shared, pack([rows.back, tensors.address[rows.order]]))


class SharedRows(NamedTuple):
    """Rows by node that runs have in common, decoded once for all of them."""

    places: tuple[Ints, Ints]
    columns: dict[str, Any]


def unpack_shared_tensors(data: bytes) -> SharedRows:
    """The half that runs have in common."""
    packed = Packed(data)
    return SharedRows((packed.numbers(), packed.numbers()), _unpack_described(packed))


def unpack_tensors(shared: SharedRows, own: bytes, node: NDArray[np.int32]) -> TensorColumns:
    """What `pack_tensors` packed."""
    packed = Packed(own)
    back, address = packed.optional_numbers(), packed.numbers(np.uint64)
    rows, op_index = _rows_again(shared.places, back, node)
    columns: dict[str, Any] = {
        name: None if column is None else _in_rows(column, rows)
        for name, column in shared.columns.items()
    }
    return TensorColumns.build(op_index=op_index, **columns, address=_in_rows(address, rows))


def _in_rows(column: Any, rows: Ints) -> Any:
    """A column in the order of its rows; one of equal values takes no memory for each of them."""
    if isinstance(column, StringColumn):
        return StringColumn(_in_rows(column.codes, rows), column.table)
    if column.strides == (0,) and len(column):
        return np.broadcast_to(column[:1], rows.shape)
    return column[rows]


def pack_memory(memory: MemoryColumns, node: NDArray[np.int32], start_ns: Ints) -> Halves:
    """The memory of ops, of which `node` is the node and `start_ns` when they began."""
    rows = _by_node(memory.op_index, node)
    order = rows.order
    records = memory.records[order].tolist()
    count = np.fromiter(map(len, records), np.int64, len(records))
    flat = list(chain.from_iterable(records))
    times = np.array([time for time, _ in flat], np.int64)
    sizes = np.array([size for _, size in flat], np.int64)
    shared = pack(
        [
            *rows.columns,
            memory.allocators[order],
            memory.total_bytes[order],
            memory.peak_bytes[order],
            memory.live_bytes[order],
            count,
            sizes,
        ]
    )
    began = np.repeat(start_ns[memory.op_index[order]], count)
    return Halves(shared, pack([rows.back, times - began]))


def unpack_shared_memory(data: bytes) -> SharedRows:
    """The half that runs have in common."""
    packed = Packed(data)
    places = packed.numbers(), packed.numbers()
    return SharedRows(
        places,
        {
            "allocator": packed.string_column(),
            "total_bytes": packed.numbers(),
            "peak_bytes": packed.numbers(),
            "live_bytes": packed.numbers(),
            "count": packed.numbers(),
            "sizes": packed.numbers(),
        },
    )


def unpack_memory(
    shared: SharedRows, own: bytes, node: NDArray[np.int32], start_ns: Ints
) -> MemoryColumns:
    """What `pack_memory` packed."""
    packed = Packed(own)
    back, times = packed.optional_numbers(), packed.numbers()
    rows, op_index = _rows_again(shared.places, back, node)
    columns = dict(shared.columns)
    count, sizes = columns.pop("count"), columns.pop("sizes")
    if not int(count.sum()) == len(sizes) == len(times):
        raise PackedDamageError("records of memory without their times")
    unsorted = np.empty(len(rows), np.int32)
    unsorted[rows] = op_index
    times = times + np.repeat(start_ns[unsorted], count)
    pairs = list(zip(times.tolist(), sizes.tolist(), strict=True))
    ends = np.cumsum(count).tolist()
    records = object_column(
        [tuple(pairs[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]
    )
    return MemoryColumns.build(
        op_index=op_index,
        records=records[rows],
        **{name: column[rows] for name, column in columns.items()},
    )


# -- allocations -------------------------------------------------------------------------------


def pack_allocations(allocations: AllocationColumns) -> Halves:
    """Allocations and frees; when and where each was is the run's own."""
    texts = (allocations.names, allocations.devices, allocations.events, allocations.kinds)
    columns = (allocations.bytes, allocations.slot, allocations.dtype)
    shared = pack([*texts, *columns, *shape_columns(allocations.shape)])
    own = pack([allocations.time_ns, allocations.address, allocations.step])
    return Halves(shared, own)


def unpack_shared_allocations(data: bytes) -> dict[str, Any]:
    """The half that runs have in common."""
    packed = Packed(data)
    return {
        "name": packed.string_column(),
        "device": packed.string_column(),
        "event": packed.string_column(),
        "kind": packed.string_column(),
        "bytes": packed.numbers(),
        "slot": packed.numbers(np.int32),
        "dtype": packed.numbers(np.int32),
        "shape": unpack_shapes(packed),
    }


def unpack_allocations(shared: dict[str, Any], own: bytes) -> AllocationColumns:
    """What `pack_allocations` packed."""
    packed = Packed(own)
    return AllocationColumns.build(
        **shared,
        time_ns=packed.numbers(),
        address=packed.numbers(np.uint64),
        step=packed.numbers(),
    )


# -- shapes ------------------------------------------------------------------------------------


def shape_columns(shapes: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    """Each shape as a position among the distinct ones; of these the rank, and all dimensions.

    A shape that is not known has rank -1.
    """
    listed = shapes.tolist()
    known = dict(zip(dict.fromkeys(listed), range(len(listed)), strict=False))
    which = np.fromiter(map(known.__getitem__, listed), np.int64, len(listed))
    rank = np.array([-1 if shape is None else len(shape) for shape in known], np.int64)
    dims = np.array(list(chain.from_iterable(filter(None, known))), np.int64)
    return which, rank, dims


def unpack_shapes(packed: Packed) -> NDArray[Any]:
    which, rank, dims = packed.numbers(), packed.numbers(), packed.numbers().tolist()
    ends = np.cumsum(np.maximum(rank, 0)).tolist()
    known = [
        None if length < 0 else tuple(dims[end - length : end])
        for length, end in zip(rank.tolist(), ends, strict=True)
    ]
    if (ends[-1:] or [0]) != [len(dims)] or ((which < 0) | (which >= len(known))).any():
        raise PackedDamageError("shapes without their dimensions")
    shapes = object_column(known)
    if which.strides == (0,) and len(which):
        return np.broadcast_to(shapes[which[:1]], which.shape)
    return np.asarray(shapes[which])
