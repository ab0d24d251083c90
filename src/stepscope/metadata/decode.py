"""A `RunMetadata` message into columns, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.metadata.columns import OpColumns
from stepscope.metadata.labels import parse_label
from stepscope.metadata.step_stats import StepStatsTable
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["decode_ops"]


def decode_ops(message: Any, step_stats: bytes | None = None) -> OpColumns:
    """The executions in a `RunMetadata` message, in the order they stand there.

    `step_stats` is the bytes of that field, where somebody has them at hand.
    """
    data = message.step_stats.SerializeToString() if step_stats is None else step_stats
    table = StepStatsTable(data)
    idents = {entry.thread_id: entry.ident for entry in message.thread_idents}
    thread_names = {
        idents.get(wire, wire): name
        for threads in table.thread_names
        for wire, name in threads.items()
    }
    threads = table.number("thread_id")
    if idents:
        wires, which = np.unique(threads, return_inverse=True)
        threads = np.array([idents.get(wire, wire) for wire in wires.tolist()], np.int64)[which]
    devices = StringColumn.of(table.devices)
    scheduled, start, op_start, op_end, end = table.times()
    steps = message.row_steps
    return OpColumns.build(
        name=table.names,
        op=_types(table, {entry.node: entry.op for entry in message.node_ops}),
        device=devices[table.device_of],
        thread=threads,
        scheduled_ns=scheduled,
        start_ns=start,
        op_start_ns=op_start,
        op_end_ns=op_end,
        end_ns=end,
        step=list(steps) if len(steps) == len(table) else message.step_id,
        label=table.labels,
        thread_names=thread_names,
        tensors=table.outputs(),
        memory=table.memory(),
    )


def _types(table: StepStatsTable, told: Mapping[str, str]) -> StringColumn:
    """The op type of every row, worked out once per distinct pair of name and label."""
    names, labels = table.names, table.labels
    pairs = names.codes.astype(np.int64) * max(len(labels.table), 1) + labels.codes
    distinct, which = np.unique(pairs, return_inverse=True)
    types = []
    for pair in distinct.tolist():
        name_code, label_code = divmod(pair, max(len(labels.table), 1))
        name = names.table[name_code]
        types.append(told.get(name) or parse_label(name, labels.table[label_code])[0])
    return StringColumn.of(types)[which]
