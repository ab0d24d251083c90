"""Runs as CSV: one row per execution of an op, or per allocation and free."""

from __future__ import annotations

import csv as plain_csv
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from stepscope.analysis.runs import Runs, iter_named_runs
from stepscope.metadata.readable import writable
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.tables import TableName, table_of
from stepscope.whole_files import write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["csv", "csv_lines"]

_ROWS_PER_CHUNK = 4096
_END = "\r\n"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv(runs: Runs, path: str | os.PathLike[str], *, table: TableName = "ops") -> Path:
    """Write a table of runs to `path` and return the path.

    The first column is the run's name; times are nanoseconds since the epoch; a shape is written
    as `2x3`, an unknown dimension as `?`. Text that a spreadsheet would take for a formula has an
    apostrophe before it (see `csv_lines`). `runs` may be an iterator that loads them: one at a time
    is in memory. A name that ends in `.gz` is compressed. The file is complete or not there.
    """
    return write_whole(path, _chunks(runs, table))


def _chunks(runs: Runs, table: TableName) -> Iterator[bytes]:
    header: list[str] | None = None
    for run in iter_named_runs(runs):
        columns = table_of(run.metadata, table)
        if header is None:
            header = ["run", *columns]
            yield csv_lines([header]).encode()
        rows = zip(*(_values(column) for column in columns.values()), strict=True)
        while batch := list(islice(rows, _ROWS_PER_CHUNK)):
            yield csv_lines([(run.name, *row) for row in batch]).encode()


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


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    r"""Rows as lines of CSV that are safe to open in a spreadsheet.

    Excel, LibreOffice and Google Sheets execute a cell that begins as a formula does, and the name
    of an op or of a file may be anything. As OWASP advises, text that begins with `=`, `+`, `-`,
    `@` (also in their wide forms), a tab or a line break gets an apostrophe before it, which they
    take for "this is text". Numbers, negative ones too, stay numbers.

    >>> csv_lines([("=1+1", "mul", -5)])
    "'=1+1,mul,-5\n"
    """
    lines: list[str] = []
    # The writer quotes what is in its line's end, and hands over one line at a time.
    writer = plain_csv.writer(SimpleNamespace(write=lines.append), lineterminator=_END)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return "".join(f"{line[: -len(_END)]}\n" for line in lines)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return writable(f"'{value}" if value.startswith(_FORMULA) else value)
