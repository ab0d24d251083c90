"""Sorted tables of keys and values: the format of the `.index` files of checkpoints.

A table is a row of blocks and, at its end, a footer that says where the index block is; that one
says where the others are. In a block a key leaves out what it shares with the one before, except
at restart points. A block is followed by its kind (0: as it is) and the checksum of both. It is
the format of LevelDB's tables, and what is written here is byte for byte what TensorFlow writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import takewhile

from stepscope.errors import DataLossError
from stepscope.metadata.wire.checksums import masked_crc

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_BLOCK_BYTES = 262144
_RESTART_INTERVAL = 16
_NOT_PACKED = 0
_TRAILER = struct.Struct("<BI")


def varint(number: int) -> bytes:
    """A number as bytes of seven bits each, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that stands there, and where it ends; IndexError if the data end before."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


class _Block:
    """A block under construction."""

    def __init__(self, restart_interval: int) -> None:
        self._interval = restart_interval
        self.clear()

    def clear(self) -> None:
        self._data = bytearray()
        self._restarts = [0]
        self._since_restart = 0
        self.last = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since_restart < self._interval:
            shared = _shared(self.last, key)
        else:
            self._restarts.append(len(self._data))
            self._since_restart = 0
        self._data += varint(shared) + varint(len(key) - shared) + varint(len(value))
        self._data += key[shared:] + value
        self.last = key
        self._since_restart += 1

    def size(self) -> int:
        return len(self._data) + 4 * len(self._restarts) + 4

    def content(self) -> bytes:
        count = len(self._restarts)
        return bytes(self._data) + struct.pack(f"<{count + 1}I", *self._restarts, count)


def table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The bytes of a table of these keys and values, which come in the order of the keys."""
    out = bytearray()

    def write(block: _Block) -> bytes:
        content = block.content()
        handle = varint(len(out)) + varint(len(content))
        checksum = masked_crc(content + bytes([_NOT_PACKED]))
        out.extend(content + _TRAILER.pack(_NOT_PACKED, checksum))
        return handle

    index, block = _Block(1), _Block(_RESTART_INTERVAL)
    written: tuple[bytes, bytes] | None = None
    """The last key of a block that the index does not have yet, and where that block is."""
    for key, value in entries:
        if written is not None:
            index.add(_between(written[0], key), written[1])
            written = None
        block.add(key, value)
        if block.size() >= _BLOCK_BYTES:
            written = block.last, write(block)
            block.clear()
    if written is None:
        written = block.last, write(block)
    empty = write(_Block(_RESTART_INTERVAL))
    index.add(_after(written[0]), written[1])
    handles = empty + write(index)
    out.extend(handles.ljust(_FOOTER_BYTES - 8, b"\0") + struct.pack("<Q", _MAGIC))
    return bytes(out)


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _between(before: bytes, after: bytes) -> bytes:
    """A short key that is not less than `before`, and less than `after`."""
    at = _shared(before, after)
    if at < min(len(before), len(after)) and before[at] + 1 < after[at]:
        return before[:at] + bytes([before[at] + 1])
    return before


def _after(key: bytes) -> bytes:
    """A short key that is not less than `key`."""
    at = next((i for i, byte in enumerate(key) if byte != 0xFF), None)
    return key if at is None else key[:at] + bytes([key[at] + 1])


# -- reading -----------------------------------------------------------------------------------


def entries(data: bytes, path: str) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table, in order; DataLossError, naming `path`, if it is damaged."""
    if len(data) < _FOOTER_BYTES or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise DataLossError.without_op(
            f"{path} is no index of a checkpoint, or its end is missing: not an sstable (bad "
            f"magic number at the end of its {len(data)} bytes).",
        )
    try:
        footer = data[-_FOOTER_BYTES:]
        _, at = read_varint(footer, 0)
        _, at = read_varint(footer, at)
        for _, handle in _block_entries(_checked_block(data, footer, at, path)):
            yield from _block_entries(_checked_block(data, handle, 0, path))
    except (IndexError, struct.error):
        raise DataLossError.without_op(
            f"{path} is damaged: a block of the table is not where it should be."
        ) from None


def _checked_block(data: bytes, handle: bytes, at: int, path: str) -> bytes:
    start, at = read_varint(handle, at)
    size, _ = read_varint(handle, at)
    end = start + size
    content = data[start : end + 1]
    kind, checksum = _TRAILER.unpack_from(data, end)
    if masked_crc(content) != checksum:
        raise DataLossError.without_op(f"{path} is damaged: block checksum mismatch.")
    if kind != _NOT_PACKED:
        raise DataLossError.without_op(
            f"{path} holds compressed blocks (kind {kind}), which are not supported."
        )
    return content[:-1]


def _block_entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    (restarts,) = struct.unpack("<I", content[-4:])
    end = len(content) - 4 * (restarts + 1)
    key, at = b"", 0
    while at < end:
        shared, at = read_varint(content, at)
        fresh, at = read_varint(content, at)
        length, at = read_varint(content, at)
        key = key[:shared] + content[at : at + fresh]
        at += fresh
        yield key, content[at : at + length]
        at += length
