"""Runs as Parquet: two tables, `ops` and `allocations`, each partitioned by run.

    directory/ops/run=<name>/part-0.parquet
    directory/allocations/run=<name>/part-0.parquet

pandas, Polars, DuckDB, Spark and pyarrow read either folder as one table with a column `run`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stepscope.analysis.runs import Runs, iter_named_runs
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.tables import TABLES, table_of
from stepscope.whole_files import whole_file

if TYPE_CHECKING:
    import os


def parquet(runs: Runs, directory: str | os.PathLike[str]) -> Path:
    """Write runs below `directory` and return it.

    Times are nanoseconds since the epoch, shapes lists. `runs` may be an iterator that loads them:
    one at a time is in memory. Names of runs are escaped as in a URL; a second run of a name gets
    a number. What is there of a run of that name is replaced, other runs stay. Every file is
    complete or not there. Needs pyarrow (the extra `parquet`); `ImportError` says so.
    """
    arrow, writer = _pyarrow()
    root = Path(directory)
    seen: Counter[str] = Counter()
    for run in iter_named_runs(runs):
        seen[run.name] += 1
        name = run.name if seen[run.name] == 1 else f"{run.name} ({seen[run.name]})"
        for table in TABLES:
            columns = table_of(run.metadata, table)
            arrays = {key: _array(arrow, column) for key, column in columns.items()}
            folder = root / table / f"run={quote(name, safe='') or '_'}"
            with whole_file(folder / "part-0.parquet") as file:
                writer.write_table(arrow.table(arrays), file)
    return root


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet needs pyarrow, which is not installed: `pip install 'stepscope[parquet]'`, "
            "or write CSV"
        ) from error
    return pyarrow, pyarrow.parquet


def _array(arrow: Any, column: Any) -> Any:
    if isinstance(column, StringColumn):
        return arrow.DictionaryArray.from_arrays(
            arrow.array(column.codes, arrow.int32()), arrow.array(column.table, arrow.string())
        )
    if column.dtype == object:
        return arrow.array(column, arrow.list_(arrow.int64()))
    return arrow.array(column)
