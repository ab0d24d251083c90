"""Many protobuf messages of one type as bytes, written by columns.

A message object per row takes ten times as long as what is in it. Here each field is a column: of
numbers, or of bytes that rows alike have in common and that are encoded once.

Example. Two messages, with a number in field 1 and a string in field 2, as field 3 of another:

    >>> rows = MessageRows(2)
    >>> rows.numbers(1, [5, 300])
    >>> rows.texts(2, ["a"], [0, 0])
    >>> rows.as_field(3).hex(" ")
    '1a 05 08 05 12 01 61 1a 06 08 ac 02 12 01 61'

Fields are to be added in the order of their numbers, which is the order that protobuf writes. As it
does, numbers that are 0 are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["MessageRows", "bytes_field", "number_field", "text_field", "varint"]

_LIMITS: Final = [np.uint64(1) << np.uint64(7 * size) for size in range(1, 10)]
_NUMBER, _BYTES = 0, 2
_Write = Callable[[NDArray[np.uint8], NDArray[np.int64]], None]


def varint(number: int) -> bytes:
    """A number as protobuf has it; of a negative one its 64 bits."""
    number &= 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def number_field(field: int, number: int) -> bytes:
    """A field that is a number; nothing of one that is 0."""
    return varint(field << 3 | _NUMBER) + varint(number) if number else b""


def bytes_field(field: int, data: bytes) -> bytes:
    """A field that is bytes, or a message: there also if it is empty."""
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def text_field(field: int, text: str) -> bytes:
    """A field that is a string; nothing of an empty one."""
    return bytes_field(field, text.encode()) if text else b""


class MessageRows:
    """Messages of one type, written field by field; the i-th row becomes the i-th message."""

    def __init__(self, count: int) -> None:
        self._lengths = np.zeros(count, np.int64)
        self._parts: list[tuple[NDArray[np.int64], _Write]] = []

    def numbers(self, field: int, values: ArrayLike) -> None:
        """A number per row."""
        column = np.asarray(values, np.int64).view(np.uint64)
        tag = np.frombuffer(varint(field << 3 | _NUMBER), np.uint8)
        there = column != 0
        sizes = _varint_lengths(column)
        lengths = np.where(there, sizes + len(tag), 0)

        def write(data: NDArray[np.uint8], at: NDArray[np.int64]) -> None:
            rows = at[there]
            for place, byte in enumerate(tag):
                data[rows + place] = byte
            _write_varints(data, rows + len(tag), column[there], sizes[there])

        self._add(lengths, write)

    def texts(self, field: int, table: Sequence[str], codes: ArrayLike) -> None:
        """Per row the string at this place of the table; nothing of an empty one."""
        rows = np.asarray(codes, np.int64)
        encoded = [text.encode() for text in table]
        tag = np.frombuffer(varint(field << 3 | _BYTES), np.uint8)
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))[rows].view(np.uint64)
        there = sizes != 0
        heads = np.where(there, len(tag) + _varint_lengths(sizes), 0)

        def write(data: NDArray[np.uint8], at: NDArray[np.int64]) -> None:
            places = at[there]
            for place, byte in enumerate(tag):
                data[places + place] = byte
            _write_varints(data, places + len(tag), sizes[there], heads[there] - len(tag))

        self._add(heads, write)
        self.pieces(encoded, rows)

    def pieces(self, table: Sequence[bytes], codes: ArrayLike) -> None:
        """Fields that are encoded already: per row those at this place of the table."""
        rows = np.asarray(codes, np.int64)
        sizes = np.fromiter(map(len, table), np.int64, len(table))
        starts = np.cumsum(sizes) - sizes
        content = np.frombuffer(b"".join(table), np.uint8)
        lengths = sizes[rows]

        def write(data: NDArray[np.uint8], at: NDArray[np.int64]) -> None:
            inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            taken = content[np.repeat(starts[rows], lengths) + inside]
            data[np.repeat(at, lengths) + inside] = taken

        self._add(lengths, write)

    def _add(self, lengths: NDArray[np.int64], write: _Write) -> None:
        self._parts.append((lengths, write))
        self._lengths = self._lengths + lengths

    def as_field(self, field: int) -> bytes:
        """All rows, each as that field of a message around them."""
        tag = np.frombuffer(varint(field << 3 | _BYTES), np.uint8)
        sizes = self._lengths.view(np.uint64)
        heads = len(tag) + _varint_lengths(sizes)
        ends = np.cumsum(heads + self._lengths)
        at = ends - heads - self._lengths
        data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        for place, byte in enumerate(tag):
            data[at + place] = byte
        _write_varints(data, at + len(tag), sizes, heads - len(tag))
        at = at + heads
        for lengths, write in self._parts:
            write(data, at)
            at = at + lengths
        return data.tobytes()


def _varint_lengths(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    lengths = np.ones(len(values), np.int64)
    most = values.max(initial=0)
    for limit in _LIMITS:
        if most < limit:
            break
        lengths += values >= limit
    return lengths


def _write_varints(
    data: NDArray[np.uint8],
    at: NDArray[np.int64],
    values: NDArray[np.uint64],
    lengths: NDArray[np.int64],
) -> None:
    """Write each value at its place, in so many bytes."""
    seven, low, more = np.uint64(7), np.uint64(0x7F), np.uint8(0x80)
    for place in range(int(lengths.max(initial=0))):
        longer = lengths > place
        if not longer.all():
            at, values, lengths = at[longer], values[longer], lengths[longer]
        byte = (values & low).astype(np.uint8)
        data[at + place] = np.where(lengths > place + 1, byte | more, byte)
        values = values >> seven
