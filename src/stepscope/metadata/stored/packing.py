"""Columns as bytes: whole numbers in as few bytes as the largest of them needs, text as UTF-8.

Packed is a sequence of columns, each on its own: a head (what it is, how many rows, the least
number) and then how far each row is above the least, in 1, 2, 4 or 8 bytes; nothing where all rows
are equal. Times of a run so take 4 bytes a row, threads 1. Byte order is little-endian everywhere.

>>> data = pack([np.array([70_000, 70_003]), None, ["a", "bc"]])
>>> reader = Packed(data)
>>> reader.numbers().tolist(), reader.optional_numbers(), reader.strings()
([70000, 70003], None, ('a', 'bc'))
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Column", "Packed", "PackedDamageError", "pack"]

Column: TypeAlias = "NDArray[Any] | Sequence[str] | StringColumn | None"
"""What can be packed: whole numbers of up to 64 bits, text, or that there is no such column."""

_HEAD: Final = struct.Struct("<BIq")
_ABSENT, _EQUAL, _TEXT = 0, 1, 6
_WIDTHS: Final[dict[int, np.dtype[Any]]] = {
    2: np.dtype("<u1"),
    3: np.dtype("<u2"),
    4: np.dtype("<u4"),
    5: np.dtype("<u8"),
}


class PackedDamageError(ValueError):
    """Bytes that `pack` did not write."""


def pack(columns: Iterable[Column]) -> bytes:
    """The columns one after the other, as `Packed` reads them."""
    parts: list[bytes] = []
    for column in columns:
        if column is None:
            parts.append(_HEAD.pack(_ABSENT, 0, 0))
        elif isinstance(column, np.ndarray):
            _pack_numbers(column, parts)
        elif isinstance(column, StringColumn):
            # The table of a graph's facts, say, is the same for all its runs as it is.
            own = column.compact() if len(column.table) > 2 * len(column) + 16 else column
            _pack_numbers(own.codes, parts)
            parts.append(_packed_table(own.table))
        else:
            _pack_strings(column, parts)
    return b"".join(parts)


@functools.lru_cache(64)
def _packed_table(table: tuple[str, ...]) -> bytes:
    """Tables come again with every run of a graph."""
    parts: list[bytes] = []
    _pack_strings(table, parts)
    return b"".join(parts)


def _pack_numbers(values: NDArray[Any], parts: list[bytes]) -> None:
    rows = len(values)
    if values.dtype == np.uint64:
        values = values.view(np.int64)
    if not rows:
        parts.append(_HEAD.pack(_EQUAL, 0, 0))
        return
    least, most = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
    if least == most:
        parts.append(_HEAD.pack(_EQUAL, rows, least))
        return
    span = most - least
    kind = 2 if span < 1 << 8 else 3 if span < 1 << 16 else 4 if span < 1 << 32 else 5
    # Arithmetic of 64 bits wraps around, here and when it is undone.
    above = values.astype(np.int64, copy=False).view(np.uint64) - np.uint64(least % (1 << 64))
    parts.append(_HEAD.pack(kind, rows, least))
    parts.append(above.astype(_WIDTHS[kind]).tobytes())


def _pack_strings(strings: Sequence[str], parts: list[bytes]) -> None:
    texts = [text.encode(errors="surrogatepass") for text in strings]
    _pack_numbers(np.fromiter(map(len, texts), np.int64, len(texts)), parts)
    joined = b"".join(texts)
    parts.append(_HEAD.pack(_TEXT, len(joined), 0))
    parts.append(joined)


class Packed:
    """Reads columns in the order in which they were packed; `PackedDamageError` where it cannot."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def at_end(self) -> bool:
        """Whether there is no further column."""
        return self._place == len(self._data)

    def numbers(self, dtype: Any = np.int64) -> NDArray[Any]:
        """The next column, of whole numbers."""
        found = self.optional_numbers(dtype)
        if found is None:
            raise PackedDamageError(f"there is no column before byte {self._place}")
        return found

    def optional_numbers(self, dtype: Any = np.int64) -> NDArray[Any] | None:
        """The next column, of whole numbers; None where None was packed."""
        kind, rows, least = self._head()
        if kind == _ABSENT:
            return None
        if kind == _EQUAL:
            # No memory for each row: damaged bytes may say that there are a billion.
            return np.broadcast_to(np.int64(least).astype(dtype), (rows,))
        width = _WIDTHS.get(kind)
        if width is None:
            raise PackedDamageError(f"a column of kind {kind} before byte {self._place}")
        above = np.frombuffer(self._bytes(rows * width.itemsize), width).astype(np.uint64)
        above += np.uint64(least % (1 << 64))
        values: NDArray[Any] = above.view(np.int64).astype(dtype, copy=False)
        return values

    def strings(self) -> tuple[str, ...]:
        """The next column, of text."""
        lengths = self.numbers()
        kind, size, _ = self._head()
        if kind != _TEXT or (lengths < 0).any() or int(lengths.sum()) != size:
            raise PackedDamageError(f"text of another length before byte {self._place}")
        text = self._bytes(size)
        ends = np.cumsum(lengths).tolist()
        places = zip([0, *ends], ends, strict=False)
        if text.isascii():
            whole = text.decode()
            return tuple([whole[begin:end] for begin, end in places])
        try:
            return tuple([text[b:e].decode(errors="surrogatepass") for b, e in places])
        except UnicodeDecodeError as error:
            raise PackedDamageError(f"text that is none before byte {self._place}") from error

    def string_column(self) -> StringColumn:
        """The next column, of strings of which each distinct one is there once."""
        codes = self.numbers(np.int32)
        table = self.strings()
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(table):
            raise PackedDamageError(f"rows without their text before byte {self._place}")
        return StringColumn(codes, table)

    def _head(self) -> tuple[int, int, int]:
        head: tuple[int, int, int] = _HEAD.unpack(self._bytes(_HEAD.size))
        return head

    def _bytes(self, size: int) -> bytes:
        end = self._place + size
        if end > len(self._data):
            raise PackedDamageError(f"cut at byte {len(self._data)} of at least {end}")
        found = self._data[self._place : end]
        self._place = end
        return found
