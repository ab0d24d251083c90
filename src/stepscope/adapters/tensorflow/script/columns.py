"""Joining the columns of several stretches of a program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.metadata import OpColumns, TensorColumns


def joined(parts: Sequence[OpColumns]) -> OpColumns:
    """One after the other, as one."""
    if len(parts) == 1:
        return parts[0]
    rows = np.cumsum([0, *(len(part) for part in parts)])
    tensors = [part.tensors for part in parts]
    names: dict[int, str] = {}
    for part in parts:
        names.update(part.thread_names)
    return OpColumns.build(
        name=_strings(parts, "name"),
        op=_strings(parts, "op"),
        device=_strings(parts, "device"),
        label=_strings(parts, "label"),
        thread=np.concatenate([part.thread for part in parts]),
        scheduled_ns=np.concatenate([part.scheduled_ns for part in parts]),
        start_ns=np.concatenate([part.start_ns for part in parts]),
        end_ns=np.concatenate([part.end_ns for part in parts]),
        step=parts[0].step[0] if len(parts[0]) else 0,
        thread_names=names,
        tensors=TensorColumns.build(
            op_index=np.concatenate(
                [t.op_index + start for t, start in zip(tensors, rows, strict=False)]
            ),
            slot=np.concatenate([t.slot for t in tensors]),
            dtype=np.concatenate([t.dtype for t in tensors]),
            shape=[shape for t in tensors for shape in t.shape],
            bytes=np.concatenate([t.bytes for t in tensors]),
            allocator=[name for t in tensors for name in t.allocator.tolist()],
        ),
    )


def _strings(parts: Sequence[OpColumns], column: str) -> list[str]:
    return [text for part in parts for text in getattr(part, column).tolist()]
