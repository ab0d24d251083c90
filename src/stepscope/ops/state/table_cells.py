"""Lookup tables inside a session: keys, and the row of values that each of them has.

What a caller may rely on:

- One lock per table: a call sees all of an insertion or nothing of it.
- A table that is initialised once (`HashTable`) stays as it is: as many entries again change
  nothing (TensorFlow compares no more), more or fewer are a FailedPreconditionError.
- Values are kept in one array, so that looking up many keys is one selection of rows. Rows of keys
  that were removed are used again.

>>> import numpy as np
>>> from stepscope.graph.dtypes import int64, string
>>> from stepscope.graph.shapes import SCALAR
>>> table = TableCell("t", string, int64, SCALAR, changes=False)
>>> table.fill(np.array([b"a", b"b"], object), np.array([5, 7]))
>>> table.find(np.array([[b"b", b"?"]], object), np.array(-1))
array([[ 7, -1]])
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stepscope.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
)
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.shapes import TensorShape

__all__ = ["KIND", "TableCell"]

KIND: Final = "table"


class TableCell:
    """A table of one type of keys and one type and shape of values."""

    def __init__(
        self, name: str, keys: DType, values: DType, value_shape: TensorShape, changes: bool
    ) -> None:
        self.name = name
        self.key_dtype, self.value_dtype = keys, values
        self._inner = value_shape.known or ()
        self._changes = changes
        self._ready = changes
        self._lock = threading.Lock()
        self._rows: dict[Any, int] = {}
        self._values: Array = np.empty((0, *self._inner), values.numpy)
        self._free: list[int] = []

    @property
    def size(self) -> int:
        return len(self._rows)

    def check_types(self, keys: DType, values: DType | None = None) -> None:
        """InvalidArgumentError unless it is a table of these types."""
        wanted = (self.key_dtype, self.value_dtype if values is not None else None)
        if (keys, values) != wanted:
            raise InvalidArgumentError.without_op(
                f"Table {self.name!r} maps {self.key_dtype.name} to {self.value_dtype.name}, but "
                f"is used with {keys.name}{'' if values is None else f' and {values.name}'}."
            )

    def find(self, keys: Any, default: Any) -> Array:
        """The values of the keys, `default` (or its row of that place) where there is none."""
        keys, default = np.asarray(keys), np.asarray(default)
        with self._lock:
            if not self._ready:
                raise FailedPreconditionError.without_op("Table not initialized.")
            row_of = self._rows.get
            rows = np.fromiter((row_of(key, -1) for key in keys.ravel().tolist()), np.int64)
            found = np.empty((rows.size, *self._inner), self.value_dtype.numpy)
            known = rows >= 0
            found[known] = self._values[rows[known]]
        if default.shape == self._inner:
            found[~known] = default
        elif default.shape == keys.shape + self._inner:
            found[~known] = default.reshape(found.shape)[~known]
        else:
            raise InvalidArgumentError.without_op(
                f"Expected shape {list(self._inner)} for default value, got {list(default.shape)}"
            )
        return found.reshape(keys.shape + self._inner)

    def insert(self, keys: Any, values: Any) -> None:
        """Let the keys have these values, in place of any they had."""
        if not self._changes:
            raise UnimplementedError.without_op(
                "Insert not supported by InitializableLookupTable implementations"
            )
        listed, rows = self._entries(keys, values)
        with self._lock:
            self._put(listed, rows)

    def remove(self, keys: Any) -> None:
        """Forget the keys; those that are not there are let pass."""
        if not self._changes:
            raise UnimplementedError.without_op(
                "Remove not supported by InitializableLookupTable implementations"
            )
        with self._lock:
            gone = (self._rows.pop(key, None) for key in np.asarray(keys).ravel().tolist())
            self._free += [row for row in gone if row is not None]

    def fill(self, keys: Any, values: Any) -> None:
        """Make these all its entries. A table that is initialised once takes them once."""
        listed, rows = self._entries(keys, values)
        with self._lock:
            if self._changes:
                self._rows, self._free = {}, []
            else:
                listed, rows = _distinct(listed, rows)
                if self._ready:
                    if len(listed) != len(self._rows):
                        raise FailedPreconditionError.without_op(
                            "Table was already initialized with different data."
                        )
                    return
            self._put(listed, rows)
            self._ready = True

    def export(self) -> tuple[Array, Array]:
        """All keys and their values, in the order in which the keys came."""
        with self._lock:
            if not self._ready:
                raise AbortedError.without_op("HashTable is not initialized.")
            keys = np.empty(len(self._rows), self.key_dtype.numpy)
            keys[:] = list(self._rows)
            return keys, self._values[np.fromiter(self._rows.values(), np.int64)]

    def _entries(self, keys: Any, values: Any) -> tuple[list[Any], Array]:
        keys, values = np.asarray(keys), np.asarray(values)
        if values.shape != keys.shape + self._inner:
            raise InvalidArgumentError.without_op(
                f"Expected shape {list(keys.shape + self._inner)} for value, got "
                f"{list(values.shape)}"
            )
        return keys.ravel().tolist(), values.reshape(-1, *self._inner)

    def _put(self, keys: Sequence[Any], values: Array) -> None:
        places = []
        for key in keys:
            row = self._rows.get(key)
            if row is None:
                row = self._free.pop() if self._free else len(self._rows)
                self._rows[key] = row
            places.append(row)
        needed = max(places, default=-1) + 1
        if needed > len(self._values):
            old = self._values
            self._values = np.empty((max(needed, 2 * len(old)), *self._inner), old.dtype)
            self._values[: len(old)] = old
        for place, value in zip(places, values, strict=True):  # of equal keys the last one counts
            self._values[place] = value


def _distinct(keys: list[Any], values: Array) -> tuple[list[Any], Array]:
    """The entries without repetitions; FailedPreconditionError for two values of one key."""
    first: dict[Any, int] = {}
    for i, key in enumerate(keys):
        before = first.setdefault(key, i)
        if before != i and np.any(values[before] != values[i]):
            raise FailedPreconditionError.without_op(
                f"HashTable has different value for same key. Key {_shown(key)} has "
                f"{_shown(values[before])} and trying to add value {_shown(values[i])}"
            )
    return list(first), values[list(first.values())]


def _shown(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
