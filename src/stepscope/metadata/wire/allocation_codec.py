"""Allocations to and from our `AllocationLog` message, and from what step stats tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.metadata.columns import OpColumns

__all__ = ["allocations_of", "decode_allocations", "encode_allocations"]

_STRINGS = {"node": "names", "device": "devices", "event": "events", "kind": "kinds"}
_NUMBERS = ("time_ns", "bytes", "address", "slot", "dtype", "step")
_UNKNOWN_RANK = -1


def encode_allocations(allocations: AllocationColumns, log: Any) -> None:
    """Fill an `AllocationLog`; strings are positions in its table of them."""
    log.SetInParent()
    columns = {field: getattr(allocations, column) for field, column in _STRINGS.items()}
    table = dict.fromkeys(string for column in columns.values() for string in column.table)
    position = {string: index for index, string in enumerate(table)}
    log.strings.extend(table)
    for field, column in columns.items():
        places = np.array([position[string] for string in column.table], dtype=np.int32)
        getattr(log, field).extend(places[column.codes].tolist() if len(places) else ())
    for field in _NUMBERS:
        getattr(log, field).extend(getattr(allocations, field).tolist())
    shapes = allocations.shape.tolist()
    log.rank.extend([_UNKNOWN_RANK if shape is None else len(shape) for shape in shapes])
    log.dims.extend([size for shape in shapes for size in shape or ()])


def decode_allocations(log: Any) -> AllocationColumns:
    """What an `AllocationLog` holds; of a damaged one, the rows that are whole."""
    table = tuple(log.strings)
    count = min(len(log.node), len(log.device), len(log.time_ns), len(log.bytes), len(log.address))
    whole = np.ones(count, dtype=bool)
    strings: dict[str, StringColumn | None] = {}
    for field in _STRINGS:
        codes = np.array(getattr(log, field)[:count], dtype=np.int32)
        if len(codes) < count:
            strings[field] = None
            continue
        whole &= (codes >= 0) & (codes < len(table))
        strings[field] = StringColumn(codes, table)
    shapes = list(_shapes(log.rank, log.dims))
    rows = np.flatnonzero(whole)

    def strings_of(field: str) -> StringColumn | None:
        column = strings[field]
        return None if column is None else _own_table(column[rows])

    def numbers_of(field: str, kind: Any, missing: int) -> NDArray[Any]:
        values = np.full(count, missing, dtype=kind)
        found = np.array(getattr(log, field)[:count], dtype=kind)
        values[: len(found)] = found
        return values[rows]

    kinds = strings_of("kind")
    return AllocationColumns.build(
        name=strings_of("node") or (),
        device=strings_of("device") or (),
        event=strings_of("event"),
        kind="temporary" if kinds is None else kinds,
        time_ns=numbers_of("time_ns", np.int64, 0),
        bytes=numbers_of("bytes", np.int64, 0),
        address=numbers_of("address", np.uint64, 0),
        slot=numbers_of("slot", np.int32, -1),
        dtype=numbers_of("dtype", np.int32, 0),
        step=numbers_of("step", np.int64, 0),
        shape=[shapes[row] if row < len(shapes) else None for row in rows.tolist()],
    )


def _own_table(column: StringColumn) -> StringColumn:
    """The column with a table of its own strings alone: a log has one table for all columns."""
    used, codes = np.unique(column.codes, return_inverse=True)
    return StringColumn(codes.astype(np.int32), tuple(column.table[code] for code in used.tolist()))


def _shapes(ranks: Sequence[int], dims: Sequence[int]) -> Iterator[tuple[int, ...] | None]:
    """Shapes as long as there are dimensions for them."""
    place = 0
    for rank in ranks:
        if place + max(rank, 0) > len(dims):
            return
        yield None if rank < 0 else tuple(dims[place : place + rank])
        place += max(rank, 0)


def allocations_of(ops: OpColumns) -> AllocationColumns:
    """The allocations that step stats tell: the records of each op's memory."""
    memory = ops.memory
    rows = [
        (row, time_ns, size)
        for row, records in zip(memory.op_index.tolist(), memory.records, strict=True)
        for time_ns, size in records
    ]
    index = np.array([row for row, _, _ in rows], dtype=np.int64)
    return AllocationColumns.build(
        name=ops.names[index],
        device=ops.devices[index],
        time_ns=[time_ns for _, time_ns, _ in rows],
        bytes=[size for _, _, size in rows],
        step=ops.step[index],
    )
