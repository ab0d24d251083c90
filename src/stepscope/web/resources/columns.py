"""Rows of analyses as columns: less to send, and what tables and charts want."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["columns_of"]


def columns_of(rows: Sequence[Any], fields: Sequence[str] | None = None) -> dict[str, Any]:
    """The fields of rows that are dataclasses, numbers as arrays, all else as lists."""
    if not rows:
        return {name: [] for name in fields or ()}
    names = fields or [field.name for field in dataclasses.fields(rows[0])]
    return {name: _column([getattr(row, name) for row in rows]) for name in names}


def _column(values: list[Any]) -> Any:
    if all(isinstance(value, int | float | np.number) for value in values):
        return np.array(values)
    return values
