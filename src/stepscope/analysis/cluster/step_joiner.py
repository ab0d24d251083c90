"""Putting the parts of a step, recorded by different workers, together as one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscope.analysis.cluster.tasks import is_local, task_of
from stepscope.analysis.runs import NamedRun
from stepscope.metadata import (
    Completeness,
    Loss,
    OpColumns,
    Recording,
    RunMetadata,
    StringColumn,
    TensorColumns,
)
from stepscope.metadata.combined import worst_status

if TYPE_CHECKING:
    from stepscope.metadata import Status

__all__ = ["Calls", "Joiner", "StepPart"]

_TIMES = ("scheduled_ns", "start_ns", "end_ns", "op_start_ns", "op_end_ns")


class _Strings:
    """Strings of all steps and workers, each kept once."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._table: tuple[str, ...] = ()

    def codes(self, column: StringColumn, renamed: Iterable[str] | None = None) -> Any:
        table = column.table if renamed is None else tuple(renamed)
        try:
            numbers = list(map(self._codes.__getitem__, table))
        except KeyError:
            give = self._codes.setdefault
            numbers = [give(text, len(self._codes)) for text in table]
        return np.array(numbers, np.int32)[column.codes]

    def column(self, parts: list[Any]) -> StringColumn:
        if len(self._table) != len(self._codes):
            self._table = tuple(self._codes)
        return StringColumn(np.concatenate(parts), self._table)


class StepPart(NamedTuple):
    """A worker's part of a step: what is needed of its rows, without the run they came from."""

    codes: tuple[Any, Any, Any, Any]
    times: Any
    thread: Any
    tensors: tuple[Any, Any]
    losses: tuple[Loss, ...]
    status: Status
    engine: str


class Joiner:
    """Puts the parts of a step together; strings are shared between steps."""

    def __init__(self) -> None:
        self._strings = tuple(_Strings() for _ in range(4))
        self._steps = 0

    def part(self, metadata: RunMetadata, task: str) -> StepPart:
        """What to keep of a run; the rest may go."""
        ops = metadata.ops
        names, kinds, devices, labels = self._strings
        label = StringColumn.of(ops.label) if ops.labels is None else ops.labels
        times = np.stack([getattr(ops, field) for field in _TIMES])
        return StepPart(
            (
                names.codes(ops.names),
                kinds.codes(ops.ops),
                devices.codes(ops.devices, _devices(ops.devices.table, task)),
                labels.codes(label),
            ),
            times,
            ops.thread.copy(),
            (ops.tensors.op_index.copy(), ops.tensors.bytes.copy()),
            metadata.completeness.losses,
            metadata.status,
            metadata.engine,
        )

    def joined(self, parts: list[StepPart], absent: list[str]) -> NamedRun:
        """The next step of all workers as one run."""
        number = self._steps
        self._steps += 1
        sizes = [len(part.thread) for part in parts]
        firsts = np.repeat(np.cumsum([0, *sizes[:-1]]), [len(part.tensors[0]) for part in parts])
        times = np.concatenate([part.times for part in parts], axis=1)
        name, kind, device, label = (
            strings.column([part.codes[i] for part in parts])
            for i, strings in enumerate(self._strings)
        )
        owner = np.concatenate([part.tensors[0] for part in parts]) + firsts
        unknown = np.zeros(len(owner), np.int32)
        ops = OpColumns.build(
            name=name,
            op=kind,
            device=device,
            label=label,
            thread=_threads([part.thread for part in parts]),
            **dict(zip(_TIMES, times, strict=True)),
            step=number,
            tensors=TensorColumns.build(
                op_index=owner,
                slot=unknown,
                dtype=unknown,
                shape=[None] * len(owner),
                bytes=np.concatenate([part.tensors[1] for part in parts]),
            ),
        )
        losses = [loss for part in parts for loss in part.losses]
        losses += [Loss("worker", 1, f"{task} has no run for this step") for task in absent]
        whole = RunMetadata()
        whole.record(
            Recording(
                engine=parts[0].engine,
                step_id=number,
                status=worst_status(part.status for part in parts),
                completeness=Completeness(tuple(losses)),
                ops=lambda: ops,
            )
        )
        return NamedRun(f"step {number}", whole)


def _devices(table: tuple[str, ...], task: str) -> Iterator[str]:
    """Devices under the task's name where they have none of their own."""
    job, _, index = task.rpartition(":")
    for device in table:
        if not is_local(task_of(device)):
            yield device
        else:
            kind = device.partition("/device:")[2] or device or "CPU:0"
            yield f"/job:{job}/replica:0/task:{index}/device:{kind}"


def _threads(columns: list[Any]) -> Any:
    """Threads numbered through, as different workers give them the same numbers; 0 is unknown."""
    parts = []
    following = 1
    for column in columns:
        numbers, codes = np.unique(column, return_inverse=True)
        fresh = np.arange(following, following + len(numbers))
        following += len(numbers)
        parts.append(np.where(numbers == 0, 0, fresh)[codes])
    return np.concatenate(parts)


class Calls:
    """Parts of calls that the tasks know by a number; the order in which they come may differ."""

    def __init__(self) -> None:
        self._parts: dict[int, list[StepPart]] = {}
        self._rows = 0

    def add(self, number: int, part: StepPart) -> None:
        self._parts.setdefault(number, []).append(part)
        self._rows += len(part.thread)

    def taken(self, rows: int) -> Iterator[list[StepPart]]:
        """The oldest calls, until no more rows are left than these."""
        while self._parts and self._rows > rows:
            parts = self._parts.pop(next(iter(self._parts)))
            self._rows -= sum(len(part.thread) for part in parts)
            yield parts
