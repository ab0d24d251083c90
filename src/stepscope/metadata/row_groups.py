"""Rows that are alike in all of some columns, so that work is done once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["RowGroups", "distinct", "numbered", "rows_alike"]


class RowGroups(NamedTuple):
    """`codes` is the group of each row, `examples` a row of each group."""

    codes: Ints
    examples: list[int]


def rows_alike(columns: Sequence[NDArray[Any]]) -> RowGroups:
    """Group rows that have the same values in all columns; only columns that vary are looked at."""
    rows = len(columns[0])
    varying = [column.tolist() for column in columns if rows and (column != column[0]).any()]
    if not varying:
        return RowGroups(np.zeros(rows, np.int64), [0] if rows else [])
    keys = varying[0] if len(varying) == 1 else list(zip(*varying, strict=True))
    example = dict(zip(keys, range(rows), strict=True))
    code_of = dict(zip(example, range(len(example)), strict=True))
    codes = np.fromiter(map(code_of.__getitem__, keys), np.int64, rows)
    return RowGroups(codes, list(example.values()))


def distinct(numbers: NDArray[Any]) -> RowGroups:
    """Group rows that have the same number; groups come in order of their first row.

    >>> distinct(np.array([7, 3, 7, 5]))
    RowGroups(codes=array([0, 1, 0, 2]), examples=[0, 1, 3])
    """
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return RowGroups(rank[which], first[order].tolist())


def numbered(values: NDArray[Any]) -> Ints:
    """A column of objects as numbers: equal objects have the same one."""
    known: dict[Any, int] = {}
    give = known.setdefault
    return np.array([give(value, len(known)) for value in values.tolist()], np.int64)
