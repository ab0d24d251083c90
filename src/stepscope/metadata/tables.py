"""A run as plain tables: the columns of data frames, CSV and Parquet, under the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TABLES", "Columns", "TableName", "table_of"]

TableName: TypeAlias = Literal["ops", "allocations"]
TABLES: tuple[TableName, ...] = ("ops", "allocations")

Columns: TypeAlias = "dict[str, StringColumn | NDArray[Any]]"


def table_of(metadata: Any, table: TableName) -> Columns:
    """The columns of a run: a row per execution of an op, or per allocation and free.

    Text is in `StringColumn`s; the shapes of allocations are tuples, or None.
    """
    if table == "ops":
        return _ops(metadata.ops)
    if table == "allocations":
        return _allocations(metadata.allocations)
    raise ValueError(f"there is no table {table!r} of a run; there are {', '.join(TABLES)}")


def _ops(ops: Any) -> Columns:
    idents, which = np.unique(ops.thread, return_inverse=True)
    names = [ops.thread_names.get(ident, "") for ident in idents.tolist()]
    return {
        "name": ops.names,
        "op": ops.ops,
        "device": ops.devices,
        "thread": ops.thread,
        "thread_name": StringColumn.of(names)[which],
        "scheduled_ns": ops.scheduled_ns,
        "start_ns": ops.start_ns,
        "end_ns": ops.end_ns,
        "output_bytes": ops.output_bytes,
        "step": ops.step,
    }


def _allocations(allocations: Any) -> Columns:
    numbers, which = np.unique(allocations.dtype, return_inverse=True)
    dtypes = StringColumn.of([dtype_name(number) for number in numbers.tolist()])
    return {
        "name": allocations.names,
        "slot": allocations.slot,
        "device": allocations.devices,
        "event": allocations.events,
        "time_ns": allocations.time_ns,
        "bytes": allocations.bytes,
        "address": allocations.address,
        "dtype": dtypes[which],
        "shape": allocations.shape,
        "kind": allocations.kinds,
        "step": allocations.step,
    }
