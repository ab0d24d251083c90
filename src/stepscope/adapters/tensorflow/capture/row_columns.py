"""From the profiler's rows to a run's columns, with what its graphs say of the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.tensors import output_tensors
from stepscope.metadata import OpColumns
from stepscope.metadata.xplane import Row, op_types

LOCAL_CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
_NO_ROWS: Final[tuple[tuple[Any, ...], ...]] = ((),) * len(Row._fields)


def row_columns(
    rows: Sequence[Row], nodes: Mapping[str, NodeInfo], step_id: int, threads: Mapping[int, int],
    thread_names: Mapping[int, str], *, outputs: bool,
) -> OpColumns:  # fmt: skip
    """The rows as columns; `threads` are the numbers of threads by the profiler's lines.

    With `outputs`, also what they put out, as far as the graphs tell.
    """
    columns = zip(*rows, strict=True) if rows else _NO_ROWS
    names, said, starts, ends, lines, _, devices, ready, _ = columns
    known = [nodes.get(name) for name in names] if nodes else [None] * len(names)
    ops = _op_types(names, said, known)
    return OpColumns.build(
        name=names,
        op=ops,
        device=[
            device or (info.device if info is not None else "") or LOCAL_CPU
            for device, info in zip(devices, known, strict=True)
        ],
        label=[
            f"{name} = {op}()" if info is None else f"{name} = {info.call}"
            for name, op, info in zip(names, ops, known, strict=True)
        ],
        thread=[threads.get(line, 0) for line in lines],
        scheduled_ns=np.minimum(
            ready if all(ready) else _ready_times(names, starts, ends, known), starts
        ),
        start_ns=starts,
        end_ns=ends,
        step=step_id,
        thread_names=thread_names,
        tensors=output_tensors(rows, nodes) if outputs else None,
    )


def _op_types(
    names: Sequence[str], said: Sequence[str], known: Sequence[NodeInfo | None]
) -> Sequence[str]:
    """The op types, by the events, else by the graphs, else by the names."""
    if all(said):
        return said
    pairs = zip(said, known, strict=True)
    return op_types(names, [op or (info.op if info else "") for op, info in pairs], ())


def _ready_times(
    names: Sequence[str], starts: Sequence[int], ends: Sequence[int],
    known: Sequence[NodeInfo | None],
) -> Sequence[int]:  # fmt: skip
    """When each execution had its inputs: the end of the last of them, as far as it is known."""
    ended: dict[str, int] = {}
    ready = []
    for name, start, end, info in zip(names, starts, ends, known, strict=True):
        latest = 0
        if info is not None:
            for source, _ in info.inputs:
                latest = max(latest, ended.get(source, 0))
            for source in info.controls:
                latest = max(latest, ended.get(source, 0))
        ready.append(latest or start)
        ended[name] = end
    return ready
