"""`StepStats` as columns, straight from its bytes.

Rules that real files taught: nanoseconds count wherever they are there, the relative microseconds
beside them are often 0; rows of transfers have microseconds only; several `dev_stats` may have
the same device; a thread id of 0 means that nobody recorded it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.wire_scan import (
    BYTES,
    NUMBER,
    REPEATED,
    Field,
    Wire,
    WireDamageError,
    entries_of,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.metadata.wire.wire_scan import Scanned

    Ints = NDArray[np.int64]

__all__ = ["ALLOCATION_FIELDS", "DESCRIPTION_FIELDS", "OUTPUT_FIELDS", "StepStatsTable"]

_DEV_STATS = 1
_DEVICE, _NODE_STATS, _THREAD_NAMES = 1, 2, 3
_LENGTH = 2

_NODE = (
    Field("node_name", 1, BYTES),
    Field("all_start_micros", 2, NUMBER),
    Field("op_start_rel_micros", 3, NUMBER),
    Field("op_end_rel_micros", 4, NUMBER),
    Field("all_end_rel_micros", 5, NUMBER),
    Field("memory", 6, REPEATED),
    Field("output", 7, REPEATED),
    Field("timeline_label", 8, BYTES),
    Field("scheduled_micros", 9, NUMBER),
    Field("thread_id", 10, NUMBER),
    Field("memory_stats", 12, BYTES),
    Field("all_start_nanos", 13, NUMBER),
    Field("op_start_rel_nanos", 14, NUMBER),
    Field("op_end_rel_nanos", 15, NUMBER),
    Field("all_end_rel_nanos", 16, NUMBER),
    Field("scheduled_nanos", 17, NUMBER),
)
OUTPUT_FIELDS = (Field("slot", 1, NUMBER), Field("tensor_description", 3, BYTES))
DESCRIPTION_FIELDS = (
    Field("dtype", 1, NUMBER),
    Field("shape", 2, BYTES),
    Field("allocation_description", 4, BYTES),
)
ALLOCATION_FIELDS = (
    Field("requested_bytes", 1, NUMBER),
    Field("allocated_bytes", 2, NUMBER),
    Field("allocator_name", 3, BYTES),
    Field("allocation_id", 4, NUMBER),
    Field("has_single_reference", 5, NUMBER),
    Field("ptr", 6, NUMBER),
)
_MEMORY = (
    Field("allocator_name", 1, BYTES),
    Field("total_bytes", 2, NUMBER),
    Field("peak_bytes", 3, NUMBER),
    Field("live_bytes", 4, NUMBER),
    Field("allocator_bytes_in_use", 5, NUMBER),
    Field("allocation_records", 6, REPEATED),
)
_RECORD = (Field("alloc_micros", 1, NUMBER), Field("alloc_bytes", 2, NUMBER))
_SHAPE_DIM, _SHAPE_UNKNOWN_RANK, _DIM_SIZE = 2, 3, 1

# Bytes per element of TensorFlow's DataType numbers, for outputs without an allocation.
_ITEM_BYTES: Mapping[int, int] = {
    number: size
    for size, numbers in {
        1: (4, 6, 10, 11, 12, 24, 25),
        2: (5, 14, 15, 16, 17, 19),
        4: (1, 3, 13, 22),
        8: (2, 8, 9, 23),
        16: (18,),
    }.items()
    for number in numbers
}
_REFERENCE_OFFSET = 100
_INT64 = np.iinfo(np.int64)
_DAY_NS = 86_400_000_000_000
_LIMIT_US = int(_INT64.max) // 1000
# Rows whose strings are in memory as often as they are in the bytes.
_AT_ONCE = 1 << 16


class StepStatsTable:
    """The nodes of all `dev_stats`, one row each, in the order of the bytes.

    `number(field)` is a column of a numeric field of `NodeExecStats` (0 where absent), `names` and
    `labels` its strings, `device_of` the position of each row's device in `devices`, and
    `thread_names` what each device's entry says of its threads. Bytes that are no `StepStats`, or
    hold text that is not UTF-8, raise `WireDamageError`.
    """

    def __init__(self, data: bytes) -> None:
        self.wire = wire = Wire(data)
        self.devices: list[str] = []
        self.thread_names: list[dict[int, str]] = []
        begins, ends, counts = [], [], []
        for number, kind, _, start, stop in fields_of(wire.data, 0, wire.size):
            if number != _DEV_STATS or kind != _LENGTH:
                continue
            nodes_begin, nodes_end, others = entries_of(wire.data, start, stop, _NODE_STATS)
            begins.append(nodes_begin)
            ends.append(nodes_end)
            counts.append(len(nodes_begin))
            self._read_device(others)
        self.device_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        empty = np.empty(0, np.int64)
        self._nodes = wire.scan(
            np.concatenate([empty, *begins]), np.concatenate([empty, *ends]), _NODE
        )
        self.names = _strings(wire, *self._nodes.spans["node_name"])
        self.labels = _strings(wire, *self._nodes.spans["timeline_label"])

    def _read_device(self, fields: list[Any]) -> None:
        device = ""
        threads: dict[int, str] = {}
        for number, kind, _, start, stop in fields:
            if kind != _LENGTH:
                continue
            if number == _DEVICE:
                device = _text(self.wire.data[start:stop], start)
            elif number == _THREAD_NAMES:
                ident, name = 0, ""
                for part, part_kind, value, first, last in fields_of(self.wire.data, start, stop):
                    if part == 1 and part_kind == 0:
                        ident = value & 0xFFFFFFFF
                    elif part == 2 and part_kind == _LENGTH:
                        name = _text(self.wire.data[first:last], first)
                threads[ident] = name
        self.devices.append(device)
        self.thread_names.append(threads)

    def __len__(self) -> int:
        return len(self.device_of)

    def number(self, field: str) -> Ints:
        """A numeric field of every node."""
        column = self._nodes.numbers[field]
        return column & 0xFFFFFFFF if field == "thread_id" else column

    def entries(self, field: str) -> tuple[Ints, Ints, Ints]:
        """A repeated field of the nodes: for each entry its row, and where it begins and ends."""
        return self._nodes.entries[field]

    def outputs(self) -> TensorColumns:
        """The output tensors of all nodes."""
        wire = self.wire
        row, begin, end = self._nodes.entries["output"]
        output = wire.scan(begin, end, OUTPUT_FIELDS)
        description = wire.scan(*output.spans["tensor_description"], DESCRIPTION_FIELDS)
        allocation = wire.scan(*description.spans["allocation_description"], ALLOCATION_FIELDS)
        dtype = description.numbers["dtype"].astype(np.int32)
        shapes = _shapes(wire, description)
        size = allocation.numbers["requested_bytes"]
        for place in np.flatnonzero(~description.present("allocation_description")).tolist():
            size[place] = _size_of(int(dtype[place]), shapes[place])
        return TensorColumns(
            row.astype(np.int32),
            output.numbers["slot"].astype(np.int32),
            dtype,
            shapes,
            size,
            allocation.numbers["allocated_bytes"],
            allocation.numbers["ptr"].view(np.uint64),
            _strings(wire, *allocation.spans["allocator_name"]),
        )

    def memory(self) -> MemoryColumns:
        """What each node used of each allocator."""
        wire = self.wire
        row, begin, end = self._nodes.entries["memory"]
        used = wire.scan(begin, end, _MEMORY)
        of, record_begin, record_end = used.entries["allocation_records"]
        record = wire.scan(record_begin, record_end, _RECORD)
        at = _nanoseconds(record.numbers["alloc_micros"])
        pairs = list(zip(at.tolist(), record.numbers["alloc_bytes"].tolist(), strict=True))
        cuts = np.searchsorted(of, np.arange(len(row) + 1)).tolist()
        records = np.empty(len(row), object)
        for place, (first, last) in enumerate(pairwise(cuts)):
            records[place] = tuple(pairs[first:last])
        return MemoryColumns(
            row.astype(np.int32),
            _strings(wire, *used.spans["allocator_name"]),
            used.numbers["total_bytes"],
            used.numbers["peak_bytes"],
            used.numbers["live_bytes"],
            records,
        )

    def times(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Scheduled, start, kernel start, kernel end and end of every row, in nanoseconds.

        Sums of damaged numbers stop at what a column holds.
        """
        nanos = self.number("all_start_nanos")
        exact = nanos != 0
        start = np.where(exact, nanos, _nanoseconds(self.number("all_start_micros")))
        relative = []
        for part in ("op_start_rel", "op_end_rel", "all_end_rel"):
            rough = _nanoseconds(self.number(f"{part}_micros"))
            relative.append(np.where(exact, self.number(f"{part}_nanos"), rough))
        op_start, op_end, end = relative
        scheduled = self.number("scheduled_nanos")
        scheduled = np.where(
            scheduled != 0, scheduled, _nanoseconds(self.number("scheduled_micros"))
        )
        scheduled = _unwrapped(scheduled, start)
        # A kernel that has no end of its own ended when the row did.
        kernel_end = np.where(op_end >= op_start, op_end, end)
        return (
            np.where(scheduled != 0, scheduled, start),
            start,
            _add(start, op_start),
            _add(start, kernel_end),
            _add(start, end),
        )


def _nanoseconds(micros: Ints) -> Ints:
    nanos: Ints = micros * 1000
    beyond = (micros > _LIMIT_US) | (micros < -_LIMIT_US)
    if beyond.any():
        nanos[beyond] = np.where(micros[beyond] < 0, _INT64.min, _INT64.max)
    return nanos


def _unwrapped(scheduled: Ints, start: Ints) -> Ints:
    """The times at which rows were ready, where a version of TensorFlow multiplied them too often.

    TensorFlow 2.15 writes nanoseconds times a thousand, cut to 64 bits. How far that lies before
    the start, times a thousand, is what is left when both are cut alike.
    """
    late = (scheduled - _DAY_NS > start) | (scheduled < 0)
    if not late.any():
        return scheduled
    before = start.astype(np.uint64) * np.uint64(1000) - scheduled.astype(np.uint64)
    meant = late & (before % 1000 == 0) & (before < 1000 * _DAY_NS)
    return np.where(meant, start - (before // 1000).astype(np.int64), scheduled)


def _add(left: Ints, right: Ints) -> Ints:
    total: Ints = left + right
    overflown = ((left ^ total) & (right ^ total)) < 0
    if overflown.any():
        total[overflown] = np.where(left[overflown] < 0, _INT64.min, _INT64.max)
    return total


def _text(data: bytes, offset: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WireDamageError(offset) from None


def _strings(wire: Wire, begins: Ints, ends: Ints) -> StringColumn:
    code_of: dict[bytes, int] = {}
    codes = np.empty(len(begins), np.int32)
    for first in range(0, len(begins), _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        pieces = wire.slices(begins[block], ends[block])
        for piece in dict.fromkeys(pieces):
            code_of.setdefault(piece, len(code_of))
        codes[block] = np.fromiter(map(code_of.__getitem__, pieces), np.int32, len(pieces))
    try:
        table = tuple([piece.decode() for piece in code_of])
    except UnicodeDecodeError as error:
        row = np.flatnonzero(codes == code_of[error.object])[0]
        raise WireDamageError(int(begins[row])) from None
    return StringColumn(codes, table)


def _shapes(wire: Wire, description: Scanned) -> NDArray[Any]:
    """The shapes as tuples, equal ones the same object."""
    known: dict[bytes, tuple[int, ...] | None] = {}
    begins, ends = description.spans["shape"]
    pieces = wire.slices(begins, ends)
    for piece in set(pieces):
        known[piece] = _shape(piece)
    column = np.empty(len(pieces), object)
    # One by one: NumPy would take a list of tuples for a table.
    for row, piece in enumerate(pieces):
        column[row] = known[piece]
    return column


def _shape(data: bytes) -> tuple[int, ...] | None:
    sizes = []
    unknown_rank = 0
    for number, kind, value, start, stop in fields_of(data, 0, len(data)):
        if number == _SHAPE_DIM and kind == _LENGTH:
            size = 0
            for part, part_kind, dim, _, _ in fields_of(data, start, stop):
                if part == _DIM_SIZE and part_kind == 0:
                    size = dim - (1 << 64) if dim >> 63 else dim
            sizes.append(size)
        elif number == _SHAPE_UNKNOWN_RANK and kind == 0:
            unknown_rank = value
    return None if unknown_rank else tuple(sizes)


def _size_of(dtype: int, shape: tuple[int, ...] | None) -> int:
    item = _ITEM_BYTES.get(dtype - _REFERENCE_OFFSET if dtype > _REFERENCE_OFFSET else dtype, 0)
    if shape is None or any(size < 0 for size in shape):
        return 0
    elements = item
    for size in shape:
        # Cut as it grows: a damaged shape may multiply to a number of any length.
        elements = min(elements * size, int(_INT64.max))
    return elements
