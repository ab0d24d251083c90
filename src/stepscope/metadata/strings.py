"""Columns of strings, each distinct string kept once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.metadata.readable import writable
from stepscope.metadata.row_groups import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["StringColumn"]

_CHUNK: Final = 1_000_000


class StringColumn:
    """Strings as codes into a table.

    `codes` (int32) and `table` may be read directly to group without comparing strings;
    `values` gives the plain strings and is built once.
    """

    __slots__ = ("_objects", "_values", "codes", "table")

    def __init__(self, codes: NDArray[np.int32], table: tuple[str, ...]) -> None:
        self.codes = codes
        self.table = table
        self._values: NDArray[Any] | None = None
        self._objects: NDArray[Any] | None = None

    @classmethod
    def of(cls, strings: Iterable[str] | StringColumn) -> StringColumn:
        """The column of a sequence of strings."""
        if isinstance(strings, StringColumn):
            return strings
        seen: dict[str, int] = {}
        give = seen.setdefault
        codes = [give(string, len(seen)) for string in strings]
        return cls(np.array(codes, dtype=np.int32), tuple(seen))

    @classmethod
    def repeated(cls, string: str, length: int) -> StringColumn:
        """One string in every row."""
        return cls(np.zeros(length, dtype=np.int32), (string,))

    @property
    def values(self) -> NDArray[Any]:
        """The strings, one per row, as an object array."""
        values = self._values
        if values is None:
            values = self._table()[self.codes] if len(self.table) else np.empty(0, dtype=object)
            values.flags.writeable = False
            self._values = values
        return values

    def _table(self) -> NDArray[Any]:
        objects = self._objects
        if objects is None:
            objects = np.empty(len(self.table), dtype=object)
            objects[:] = self.table
            self._objects = objects
        return objects

    def look_up(self, rows: NDArray[np.int32]) -> StringColumn:
        """As `column[rows]`, of a column that is asked for rows again and again.

        What their `values` need of the table is then made once for all of them.
        """
        found = self[rows]
        found._objects = self._table()
        return found

    def writable(self) -> StringColumn:
        """The column itself, or one with escapes for what UTF-8 cannot hold.

        Python has them in names of files, for example, that are not UTF-8.
        """
        if "".join(self.table).isascii():
            return self
        table = tuple([writable(text) for text in self.table])
        return self if table == self.table else StringColumn(self.codes, table)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"<StringColumn: {len(self)} rows, {len(self.table)} distinct>"

    def __getitem__(self, rows: Any) -> StringColumn:
        return StringColumn(self.codes[rows], self.table)

    def present(self) -> list[str]:
        """The strings that are in any row, in the order of their first rows.

        >>> StringColumn.of(["b", "a", "b", "c"])[1:].present()
        ['a', 'b', 'c']
        """
        first = np.full(len(self.table), -1, np.int64)
        for end in range(len(self.codes), 0, -_CHUNK):
            begin = max(0, end - _CHUNK)
            # Of rows with one code the last that is written stays, so they are written backwards.
            first[self.codes[begin:end][::-1]] = np.arange(begin, end)[::-1]
        codes = np.flatnonzero(first >= 0)
        return [self.table[code] for code in codes[np.argsort(first[codes])].tolist()]

    def compact(self) -> StringColumn:
        """The same strings, with a table of none but these in the order they come in."""
        codes = self.codes
        rows = len(codes)
        if rows == len(self.table) and (codes == np.arange(rows, dtype=np.int32)).all():
            return self
        groups = distinct(codes)
        used = codes[groups.examples].tolist()
        return StringColumn(groups.codes.astype(np.int32), tuple(map(self.table.__getitem__, used)))

    @staticmethod
    def joined(columns: Sequence[StringColumn]) -> StringColumn:
        """Columns one below the other."""
        if columns and all(column.table is columns[0].table for column in columns):
            codes = np.concatenate([column.codes for column in columns])
            return StringColumn(codes, columns[0].table)
        seen: dict[str, int] = {}
        parts = []
        for column in columns:
            mapping = [seen.setdefault(string, len(seen)) for string in column.table]
            parts.append(np.array(mapping, dtype=np.int32)[column.codes])
        codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
        return StringColumn(codes, tuple(seen))
