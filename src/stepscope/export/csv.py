"""Runs as CSV: one row per execution of an op, or per allocation and free."""

from __future__ import annotations

import csv as plain_csv
import io
from itertools import islice
from typing import TYPE_CHECKING, Any

from stepscope.analysis.runs import Runs, iter_named_runs
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.tables import TableName, table_of
from stepscope.whole_files import write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

_ROWS_PER_CHUNK = 4096


def csv(runs: Runs, path: str | os.PathLike[str], *, table: TableName = "ops") -> Path:
    """Write a table of runs to `path` and return the path.

    The first column is the run's name; times are nanoseconds since the epoch; a shape is written
    as `2x3`, an unknown dimension as `?`. `runs` may be an iterator that loads them: one at a time
    is in memory. A name that ends in `.gz` is compressed. The file is complete or not there.
    """
    return write_whole(path, _chunks(runs, table))


def _chunks(runs: Runs, table: TableName) -> Iterator[bytes]:
    header: list[str] | None = None
    for run in iter_named_runs(runs):
        columns = table_of(run.metadata, table)
        if header is None:
            header = ["run", *columns]
            yield _lines([header])
        rows = zip(*(_values(column) for column in columns.values()), strict=True)
        while batch := list(islice(rows, _ROWS_PER_CHUNK)):
            yield _lines([(run.name, *row) for row in batch])


def _values(column: Any) -> list[Any]:
    if isinstance(column, StringColumn):
        column = column.values
    elif column.dtype == object:
        return [_shape(value) for value in column]
    values: list[Any] = column.tolist()
    return values


def _shape(dimensions: tuple[int, ...] | None) -> str:
    if dimensions is None:
        return ""
    return "x".join("?" if size < 0 else str(size) for size in dimensions) or "scalar"


def _lines(rows: list[Any]) -> bytes:
    text = io.StringIO()
    plain_csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
