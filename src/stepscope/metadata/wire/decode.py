"""A `RunMetadata` message into columns, whoever wrote it."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepscope.metadata.columns import OpColumns
from stepscope.metadata.memory.memory_columns import MemoryColumns, TensorColumns
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.labels import parse_label
from stepscope.metadata.wire.step_stats import StepStatsTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["decode_many", "decode_ops"]


def decode_ops(message: Any, step_stats: bytes | None = None) -> OpColumns:
    """The executions in a `RunMetadata` message, in the order they stand there.

    `step_stats` is the bytes of that field, where somebody has them at hand.
    """
    data = message.step_stats.SerializeToString() if step_stats is None else step_stats
    table = StepStatsTable(data)
    return _Decoded(table).part(message, slice(0, len(table.devices)))


def decode_many(messages: Sequence[Any]) -> list[OpColumns]:
    """`decode_ops` of each message; of many small ones it takes a fraction of the time."""
    # Fields of a message that are repeated stand one after the other: so do those of several.
    table = StepStatsTable(b"".join(part.step_stats.SerializeToString() for part in messages))
    ends = np.cumsum([0, *(len(message.step_stats.dev_stats) for message in messages)]).tolist()
    decoded = _Decoded(table)
    return [
        decoded.part(message, slice(*devices))
        for message, devices in zip(messages, pairwise(ends), strict=True)
    ]


class _Decoded:
    """The columns of step stats, of which a part may be one run's."""

    def __init__(self, table: StepStatsTable) -> None:
        self._table = table
        self._times = table.times()
        self._threads = table.number("thread_id")
        self._tensors = table.outputs()
        self._memory = table.memory()

    def part(self, message: Any, devices: slice) -> OpColumns:
        """The executions on some of the devices, as those of this message."""
        table = self._table
        first, last = np.searchsorted(table.device_of, (devices.start, devices.stop)).tolist()
        rows = slice(first, last)
        idents = {entry.thread_id: entry.ident for entry in message.thread_idents}
        thread_names = {
            idents.get(wire, wire): name
            for threads in table.thread_names[devices]
            for wire, name in threads.items()
        }
        threads = self._threads[rows]
        if idents:
            wires, which = np.unique(threads, return_inverse=True)
            threads = np.array([idents.get(wire, wire) for wire in wires.tolist()], np.int64)[which]
        names, labels = _own(table.names, rows), _own(table.labels, rows)
        scheduled, start, op_start, op_end, end = (column[rows] for column in self._times)
        steps = message.row_steps
        return OpColumns.build(
            name=names,
            op=_types(names, labels, {entry.node: entry.op for entry in message.node_ops}),
            device=StringColumn.of(table.devices[devices])[table.device_of[rows] - devices.start],
            thread=threads,
            scheduled_ns=scheduled,
            start_ns=start,
            op_start_ns=op_start,
            op_end_ns=op_end,
            end_ns=end,
            step=list(steps) if len(steps) == last - first else message.step_id,
            label=labels,
            thread_names=thread_names,
            tensors=_of_rows(self._tensors, rows),
            memory=_of_rows(self._memory, rows),
        )


_Columns = TypeVar("_Columns", TensorColumns, MemoryColumns)


def _of_rows(columns: _Columns, rows: slice) -> _Columns:
    """The part that points at some of the ops, which become the first."""
    first, last = np.searchsorted(columns.op_index, (rows.start, rows.stop)).tolist()
    if last - first == len(columns) and not rows.start:
        return columns
    part = slice(first, last)
    chosen: dict[str, Any] = {
        name: _own(column, part) if isinstance(column, StringColumn) else column[part]
        for name in columns.__slots__
        if (column := getattr(columns, name)) is not None
    }
    return type(columns)(**{**chosen, "op_index": chosen["op_index"] - np.int32(rows.start)})


def _own(column: StringColumn, rows: slice) -> StringColumn:
    """Some rows of a column, with a table of their own strings in the order they come in."""
    part = column[rows]
    return column if len(part) == len(column) else part.compact()


def _types(names: StringColumn, labels: StringColumn, told: Mapping[str, str]) -> StringColumn:
    """The op type of every row, worked out once per distinct pair of name and label."""
    pairs = names.codes.astype(np.int64) * max(len(labels.table), 1) + labels.codes
    distinct, which = np.unique(pairs, return_inverse=True)
    of_name, of_label = (part.tolist() for part in np.divmod(distinct, max(len(labels.table), 1)))
    texts = zip(
        map(names.table.__getitem__, of_name), map(labels.table.__getitem__, of_label), strict=True
    )
    types = [told.get(name) or _type(name, label) for name, label in texts]
    return StringColumn.of(types)[which]


@lru_cache(maxsize=1 << 14)
def _type(name: str, label: str) -> str:
    """The op type of a label; runs of one program have the same ones again and again."""
    return parse_label(name, label)[0]
