"""`*.xplane.pb`: what TensorFlow's profiler recorded, read without TensorFlow.

The rows are those that a run of the TensorFlow adapter has if it was profiled: both read a profile
by `stepscope.metadata.xplane`. A file has neither the marks of runs nor graphs: all that was
profiled is one run, with the executors' steps in the column `step`, and what a graph alone says
(outputs, what an op waited for) is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.errors import UnreadableFileError
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.outcome import END_MISSING, Completeness, Loss, Status
from stepscope.metadata.readers.density import is_hollow
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.xplane import (
    CPU,
    FOLDING_STEP,
    NO_NODES,
    ExecutionTrace,
    Row,
    Space,
    op_types,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from stepscope.metadata.xplane.host_events import HostEvents

    Ints = NDArray[np.int64]

__all__ = ["NAME", "recognises", "runs"]

NAME = "a profile of TensorFlow's profiler"
_NO_TENSORS: Final = Loss(
    "memory", 0, "the profiler records no tensors and no waiting times of ops"
)
_CHEAP: Final = Loss(
    "executions", 0, "the profiler leaves out cheap ops of what has run often before"
)
_NOTHING: Final = Loss("executions", 0, "no op was recorded while the profiler ran")
_FOLDED: Final = "an optimizer executed them while it prepared a graph: they are of no step"
_AT_WORK: Final = "the profiler was stopped while an executor was at work; its step is not known"


def recognises(path: Path, data: bytes) -> bool:  # noqa: ARG001
    """Whether the name says so; the bytes have no signature."""
    return path.name.endswith((".xplane.pb", ".xspace.pb"))


def runs(path: Path, data: bytes) -> Iterator[tuple[str, RunMetadata]]:
    """One run: everything that was profiled, with the executors' steps in the column `step`."""
    if is_hollow(data):
        raise UnreadableFileError(
            f"{path}: most of it is entries without content; no profile is like that"
        )
    space = Space(data)
    if not any(plane.name for plane in space.planes):
        raise UnreadableFileError(
            f"{path}: not a profile (XSpace), or damaged before its first whole plane"
        )
    trace = ExecutionTrace(space, in_rows=False)
    losses = [_NO_TENSORS]
    if not trace.has_marks:
        losses.append(_CHEAP)
    if trace.damage is not None:
        what = "damaged or cut at byte"
        reason = f"{path.name} is {what} {trace.damage} of {space.size}; what stands whole before"
        losses.append(Loss("bytes of the file", space.size - trace.damage, f"{reason} it was read"))
    found = _LoadedRows(trace)
    losses += found.losses
    columns = found.columns()
    if not len(columns):
        losses.append(_NOTHING)
    completeness = Completeness(tuple(losses))
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine="tensorflow",
            status=END_MISSING if completeness.damage else Status(),
            completeness=completeness,
            ops=lambda: columns,
        )
    )
    yield "", metadata


class _LoadedRows:
    """The executions of a trace as columns, part by part."""

    def __init__(self, trace: ExecutionTrace) -> None:
        self.losses: list[Loss] = []
        self._threads = trace.threads
        self._names, self._types, self._devices = _Texts(), _Texts(), _Texts()
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self._folded = 0
        self._add_columns(trace)
        self._add_rows(trace)
        if self._folded:
            self.losses.append(Loss("executions", self._folded, _FOLDED))
        for number, lane in trace.lanes:
            count = len(lane.node)
            lines, steps = np.full(count, number), np.zeros(count, np.int64)
            texts = (lane.node.tolist(), lane.op.tolist(), lane.device.tolist())
            self._add(*texts, lane.start_ns, lane.end_ns, lines, steps)

    def _add_columns(self, trace: ExecutionTrace) -> None:
        """What was read as columns: nothing is made of a row but its numbers."""
        at_work = 0
        for events, rows, steps in trace.columns():
            if steps is None:
                at_work += len(rows)
                steps = np.full(len(rows), trace.only_step or 0)
            of_steps = steps != FOLDING_STEP
            if not of_steps.all():
                self._folded += int(np.count_nonzero(~of_steps))
                rows, steps = rows[of_steps], steps[of_steps]
            names = [self._names.code(name) for _, name, _ in events.meanings]
            types = [self._types.code(op or name) for _, name, op in events.meanings]
            which = events.name[rows]
            self._parts.append(
                (
                    np.array(names, np.int32)[which],
                    np.array(types, np.int32)[which],
                    self._devices_of(events, rows),
                    *events.times_ns(rows),
                    (events.first_line + events.line[rows]).astype(np.int64),
                    steps,
                )
            )
        at_work += len(trace.outside.unplaced)
        if at_work and trace.only_step is None:
            self.losses.append(Loss("steps of executions", at_work, _AT_WORK))

    def _devices_of(self, events: HostEvents, rows: Ints) -> NDArray[np.int32]:
        said = events.devices
        if said is None:
            return np.full(len(rows), self._devices.code(CPU), np.int32)
        return self._devices.codes([device or CPU for device in said[rows].tolist()])

    def _add_rows(self, trace: ExecutionTrace) -> None:
        """What was read row by row."""
        outside = trace.outside
        rows: list[Row] = [*outside.eager, *outside.spans]
        steps = [0] * len(rows)
        rows += outside.unplaced
        steps += [trace.only_step or 0] * len(outside.unplaced)
        cut: list[str] = []
        for number, step in trace.steps.items():
            found = list(step.executions(NO_NODES))
            if number == FOLDING_STEP:
                self._folded += len(found)
                continue
            rows += found
            steps += [number] * len(found)
            cut += step.cut_off(NO_NODES)
        if cut:
            reason = (
                "the profiler was stopped before threads had left them, though they were done (or "
                f"they were not executed): {', '.join(cut)}; what they called may be missing too"
            )
            self.losses.append(Loss("op executions", len(cut), reason))
        if not rows:
            return
        names, said, starts, ends, lines, _, devices, _, _ = zip(*rows, strict=True)
        where = [device or CPU for device in devices]
        numbers = (np.array(column, np.int64) for column in (starts, ends, lines, steps))
        self._add(names, op_types(names, said, self._names), where, *numbers)

    def _add(
        self, names: Sequence[str], types: Sequence[str], devices: Sequence[str], start: Ints,
        end: Ints, line: Ints, step: Ints,
    ) -> None:  # fmt: skip
        texts = ((self._names, names), (self._types, types), (self._devices, devices))
        codes = (known.codes(column) for known, column in texts)
        self._parts.append((*codes, start, end, line, step))

    def columns(self) -> OpColumns:
        """All of them, in order of time."""
        none = (np.empty(0, np.int32),) * 3 + (np.empty(0, np.int64),) * 4
        parts = [*zip(none, *self._parts, strict=True)]
        self._parts.clear()
        names, types, devices, start, end, line, step = map(np.concatenate, parts)
        del parts
        order = np.lexsort((end, start))
        start, line = start[order], line[order]
        ids = np.array([thread.id for thread in self._threads], np.int64)
        return OpColumns.build(
            name=self._names.column(names[order]),
            op=self._types.column(types[order]),
            device=self._devices.column(devices[order]),
            scheduled_ns=start,
            start_ns=start,
            end_ns=end[order],
            thread=ids[line] if len(ids) else line,
            step=step[order],
            thread_names={
                self._threads[number].id: self._threads[number].short_name
                for number in np.unique(line).tolist()
            },
        )


class _Texts:
    """Gives every distinct text a number."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def code(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def codes(self, texts: Sequence[str]) -> NDArray[np.int32]:
        for text in dict.fromkeys(texts):
            self.code(text)
        return np.fromiter(map(self._codes.__getitem__, texts), np.int32, len(texts))

    def column(self, codes: NDArray[np.int32]) -> StringColumn:
        return StringColumn(codes, tuple(self._codes))
