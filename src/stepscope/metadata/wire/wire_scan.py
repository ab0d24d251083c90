"""Protobuf bytes into columns: many messages of one type taken apart at once.

Generated classes make one Python object per message and one call per field. Here the messages of
a type stand as rows, and one NumPy operation reads a field of all of them. It rests on what every
writer does: fields come in ascending order, each singular one at most once. Rows that are not like
that (unknown fields, another order, long lists) are walked one by one, so the result is the same
for any bytes that protobuf would read. What protobuf would refuse raises `WireDamageError`.

The scanner knows nothing of TensorFlow: a `Layout` names the fields to read.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = [
    "BYTES",
    "NUMBER",
    "REPEATED",
    "Field",
    "Scanned",
    "Wire",
    "WireDamageError",
    "entries_by_number",
    "entries_of",
    "fields_of",
]

NUMBER, BYTES, REPEATED = "number", "bytes", "repeated"
"""A varint; text, bytes or a message at most once; the same any number of times."""

_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)
_PADDING = 16
# Rows of one pass: what they need at once stays in the processor's cache.
_BLOCK = 1 << 14
# Entries of a repeated field that are read side by side; a row with more is walked alone.
_SIDE_BY_SIDE = 12
# Fewer rows than this are done one by one before NumPy has begun.
_FEW = 32
_GROUP_DEPTH = 100
_UINT64 = 0xFFFFFFFFFFFFFFFF


class WireDamageError(ValueError):
    """The bytes are no protobuf message; `offset` is where that shows."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"no protobuf message at byte {offset}")
        self.offset = offset


class Field(NamedTuple):
    """A field to read: its name in the result, its number, and `NUMBER`, `BYTES` or `REPEATED`."""

    name: str
    number: int
    kind: str


@dataclass(slots=True)
class Scanned:
    """What `Wire.scan` found, one entry per message.

    `numbers[name]` is 0 where the field is absent. `spans[name]` is where the content begins and
    ends, and (0, 0) where it is absent; `present[name]` tells an absent one from an empty one.
    `entries[name]` is the row, the begin and the end of every entry of a repeated field, in order.
    """

    numbers: dict[str, Ints] = field(default_factory=dict)
    spans: dict[str, tuple[Ints, Ints]] = field(default_factory=dict)
    entries: dict[str, tuple[Ints, Ints, Ints]] = field(default_factory=dict)

    def present(self, name: str) -> NDArray[np.bool_]:
        """Whether a field of kind `BYTES` is there, per message."""
        return self.spans[name][0] > 0


class Wire:
    """Bytes to scan. They are copied once, with some room behind them."""

    __slots__ = ("_bytes", "_windows", "data", "size")

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.data = b"".join((data, bytes(_PADDING)))
        self._bytes = np.frombuffer(self.data, np.uint8)
        # Eight bytes from every position on.
        self._windows: NDArray[np.uint64] = np.ndarray(
            (len(self.data) - 7,), dtype="<u8", buffer=self.data, strides=(1,)
        )

    def varints(self, at: Ints) -> tuple[Ints, Ints]:
        """The numbers that begin at these places, and where they end.

        A number longer than ten bytes is damage; one that runs beyond its message shows in its end.
        """
        window = self._windows[at]
        stops = ~window & np.uint64(0x8080808080808080)
        lowest = stops & (~stops + np.uint64(1))
        length = (lowest >> np.uint64(7)) * np.uint64(0x0102030405060708) >> np.uint64(56)
        value = window & ((lowest - np.uint64(1)) | lowest) & np.uint64(0x7F7F7F7F7F7F7F7F)
        value = (value & np.uint64(0x007F007F007F007F)) | (
            (value & np.uint64(0x7F007F007F007F00)) >> np.uint64(1)
        )
        value = (value & np.uint64(0x00003FFF00003FFF)) | (
            (value & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)
        )
        value = (value & np.uint64(0x000000000FFFFFFF)) | (
            (value & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4)
        )
        after = at + length.astype(np.int64)
        long = np.flatnonzero(lowest == 0)
        if len(long):
            place = at[long]
            ninth, tenth = self._bytes[place + 8], self._bytes[place + 9]
            ends_at_ninth = ninth < 0x80
            if (~ends_at_ninth & (tenth >= 0x80)).any():
                bad = np.flatnonzero(~ends_at_ninth & (tenth >= 0x80))[0]
                raise WireDamageError(int(place[bad]))
            value[long] |= (ninth.astype(np.uint64) & np.uint64(0x7F)) << np.uint64(56)
            top = np.where(ends_at_ninth, 0, tenth & 1).astype(np.uint64)
            value[long] |= top << np.uint64(63)
            after[long] = place + np.where(ends_at_ninth, 9, 10)
        return value.view(np.int64), after

    def scan(self, begins: Ints, ends: Ints, layout: Sequence[Field]) -> Scanned:
        """Read the fields of `layout`, in ascending order of number, of the messages that stand
        between `begins` and `ends`. Other fields are passed over.
        """
        rows = len(begins)
        found = Scanned()
        for item in layout:
            if item.kind == NUMBER:
                found.numbers[item.name] = np.zeros(rows, np.int64)
            elif item.kind == BYTES:
                found.spans[item.name] = (np.zeros(rows, np.int64), np.zeros(rows, np.int64))
        pieces: dict[str, list[tuple[Ints, Ints, Ints]]] = {
            item.name: [] for item in layout if item.kind == REPEATED
        }
        if rows < _FEW:
            for row, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
                self._walk_row(begin, end, row, layout, found, pieces)
        for first in range(0, rows if rows >= _FEW else 0, _BLOCK):
            block = slice(first, min(first + _BLOCK, rows))
            self._scan_block(begins[block], ends[block], first, layout, found, pieces)
        for name, parts in pieces.items():
            found.entries[name] = _in_order(parts)
        return found

    def _scan_block(
        self,
        begins: Ints,
        ends: Ints,
        first: int,
        layout: Sequence[Field],
        found: Scanned,
        pieces: dict[str, list[tuple[Ints, Ints, Ints]]],
    ) -> None:
        cursor = begins.copy()
        block = slice(first, first + len(begins))
        fresh: dict[str, list[tuple[Ints, Ints, Ints]]] = {name: [] for name in pieces}
        for item in layout:
            for _ in range(_SIDE_BY_SIDE if item.kind == REPEATED else 1):
                rows, at = self._rows_at(cursor, ends, item)
                if rows is None:
                    break
                value, after = self.varints(at)
                if item.kind == NUMBER:
                    found.numbers[item.name][block][rows] = value
                    cursor[rows] = after
                    continue
                limit = ends[rows]
                # Unsigned, so that a length beyond 63 bits is too long as well.
                fits = value.view(np.uint64) <= np.maximum(limit - after, 0).view(np.uint64)
                if not fits.all():
                    raise WireDamageError(int(at[~fits][0]))
                stop = after + value
                if item.kind == BYTES:
                    begin, end = found.spans[item.name]
                    begin[block][rows] = after
                    end[block][rows] = stop
                else:
                    of_rows = np.arange(len(begins)) if isinstance(rows, slice) else rows
                    fresh[item.name].append((of_rows, after, stop))
                cursor[rows] = stop
        odd = np.flatnonzero(cursor != ends)
        for name, parts in fresh.items():
            for of_rows, after, stop in parts:
                if len(odd):
                    keep = ~np.isin(of_rows, odd)
                    of_rows, after, stop = of_rows[keep], after[keep], stop[keep]
                pieces[name].append((of_rows + first, after, stop))
        for row in odd.tolist():
            self._walk_row(int(begins[row]), int(ends[row]), first + row, layout, found, pieces)

    def _rows_at(self, cursor: Ints, ends: Ints, item: Field) -> tuple[Any, Ints]:
        """The messages whose next field is this one, and where its value or length stands."""
        tag = _tag_bytes(item)
        hit = self._bytes[cursor] == tag[0]
        for place, byte in enumerate(tag[1:], 1):
            hit &= self._bytes[cursor + place] == byte
        hit &= cursor < ends
        count = int(np.count_nonzero(hit))
        if not count:
            return None, cursor
        if count == len(cursor):
            return slice(None), cursor + len(tag)
        rows = np.flatnonzero(hit)
        return rows, cursor[rows] + len(tag)

    def _walk_row(
        self,
        begin: int,
        end: int,
        row: int,
        layout: Sequence[Field],
        found: Scanned,
        pieces: dict[str, list[tuple[Ints, Ints, Ints]]],
    ) -> None:
        known = {item.number: item for item in layout}
        numbers = {item.name: 0 for item in layout if item.kind == NUMBER}
        spans = {item.name: (0, 0) for item in layout if item.kind == BYTES}
        lists: dict[str, list[tuple[int, int]]] = {name: [] for name in pieces}
        for number, wire_type, value, start, stop in fields_of(self.data, begin, end):
            item = known.get(number)
            if item is None:
                continue
            if wire_type == _VARINT and item.kind == NUMBER:
                numbers[item.name] = value
            elif wire_type == _LENGTH and item.kind == BYTES:
                spans[item.name] = (start, stop)
            elif wire_type == _LENGTH and item.kind == REPEATED:
                lists[item.name].append((start, stop))
        for name, value in numbers.items():
            found.numbers[name][row] = value - (1 << 64) if value >> 63 else value
        for name, (start, stop) in spans.items():
            found.spans[name][0][row] = start
            found.spans[name][1][row] = stop
        for name, places in lists.items():
            if places:
                both = np.array(places, np.int64)
                pieces[name].append((np.full(len(places), row), both[:, 0], both[:, 1]))

    def slices(self, begins: Ints, ends: Ints) -> list[bytes]:
        """The bytes between these places."""
        data = self.data
        return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _tag_bytes(item: Field) -> bytes:
    tag = item.number << 3 | (_VARINT if item.kind == NUMBER else _LENGTH)
    return bytes((tag,)) if tag < 0x80 else bytes((tag & 0x7F | 0x80, tag >> 7))


def _in_order(parts: list[tuple[Ints, Ints, Ints]]) -> tuple[Ints, Ints, Ints]:
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    rows, begins, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    # By place in the bytes is by row, and within a row in its order.
    order = np.argsort(begins, kind="stable")
    return rows[order], begins[order], ends[order]


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(at, min(at + 10, end)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64, place + 1
        shift += 7
    raise WireDamageError(at)


def fields_of(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields between two places: number, wire type, value, and begin and end of the content.

    The value is that of a varint and 0 for other types. Groups are passed over.
    """
    at = begin
    groups: list[int] = []
    while at < end:
        tag, start = _varint(data, at, end)
        wire_type = tag & 7
        value = 0
        if tag >> 3 == 0 or tag >> 32:
            raise WireDamageError(at)
        if wire_type == _VARINT:
            value, stop = _varint(data, start, end)
        elif wire_type == _LENGTH:
            length, start = _varint(data, start, end)
            stop = start + length
        elif wire_type == _FIXED64:
            stop = start + 8
        elif wire_type == _FIXED32:
            stop = start + 4
        elif wire_type == _GROUP and len(groups) < _GROUP_DEPTH:
            groups.append(tag >> 3)
            stop = start
        elif wire_type == _END_GROUP and groups and groups[-1] == tag >> 3:
            groups.pop()
            stop = start
        else:
            raise WireDamageError(at)
        if stop > end:
            raise WireDamageError(at)
        if not groups and wire_type != _END_GROUP:
            yield tag >> 3, wire_type, value, start, stop
        at = stop
    if groups:
        raise WireDamageError(end)


def entries_of(data: bytes, begin: int, end: int, number: int) -> tuple[Ints, Ints, list[Any]]:
    """Begin and end of the entries of a repeated field, and all other fields as in `fields_of`."""
    found, others = entries_by_number(data, begin, end, (number,))
    return *found[number], others


def entries_by_number(
    data: bytes, begin: int, end: int, numbers: Sequence[int]
) -> tuple[dict[int, tuple[Ints, Ints]], list[Any]]:
    """Begins and ends of the entries of repeated fields, and all other fields as in `fields_of`.

    For the fields of a message that may have a million entries: one short step for each. Their
    numbers are below 16. `data` goes on for at least two bytes behind `end`.
    """
    # Plain numbers: a list of them takes five times as much.
    tags = {number: array("q") for number in numbers}
    unusual: list[tuple[int, int, int]] = []
    others: list[Any] = []
    by_tag = {number << 3 | _LENGTH: places.append for number, places in tags.items()}
    at = begin
    while at < end:
        tag = data[at]
        note = by_tag.get(tag)
        if note is not None:
            while data[at] == tag and at < end:
                last = at
                note(at)
                length = data[at + 1]
                if length < 0x80:
                    at += length + 2
                elif data[at + 2] < 0x80:
                    # Lengths of two bytes are the common case and worth a path of their own.
                    at += length + (data[at + 2] << 7) - 0x7D
                else:
                    length, start = _varint(data, at + 1, end)
                    at = start + length
                if at > end:
                    raise WireDamageError(last)
            continue
        other = next(fields_of(data, at, end), None)
        if other is None:
            break
        at = other[4]
        if other[0] in tags and other[1] == _LENGTH:
            unusual.append((other[0], other[3], at))
        else:
            others.append(other)
    found = {number: _contents(data, np.array(places)) for number, places in tags.items()}
    for number, start, stop in unusual:
        begins, ends = found[number]
        place = int(np.searchsorted(begins, start))
        found[number] = np.insert(begins, place, start), np.insert(ends, place, stop)
    return found, others


def _contents(data: bytes, tags: Ints) -> tuple[Ints, Ints]:
    """Where the contents of entries begin and end, from where their tags of one byte are."""
    everything = np.frombuffer(data, np.uint8)
    begins = tags + 2
    byte = everything[tags + 1].astype(np.int64)
    lengths = byte & 0x7F
    longer = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(longer):
        byte = everything[begins[longer]].astype(np.int64)
        lengths[longer] |= (byte & 0x7F) << shift
        begins[longer] += 1
        longer = longer[byte >= 0x80]
        shift += 7
    return begins, begins + lengths
