"""`*.xplane.pb`: what TensorFlow's profiler recorded, read without TensorFlow.

Executions are the spans `node:Op` that executors leave on the line of each thread, with the step of
the executor span around them; the spans of eager ops that no executor ran; and everything on the
lines of an accelerator. The profiler records neither tensors nor what an op waited for.

A span is recorded when it ends, so an executor that is still at work when the profiler stops (its
caller has the result already) leaves its ops and no span around them. On the threads of
TensorFlow's pools, where nobody else leaves spans of that form, they are executions all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.errors import UnreadableFileError
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.outcome import END_MISSING, Completeness, Loss, Status
from stepscope.metadata.readers.density import is_hollow
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.wire_scan import (
    BYTES,
    NUMBER,
    REPEATED,
    Field,
    Wire,
    WireDamageError,
    entries_of,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["NAME", "recognises", "runs"]

NAME = "a profile of TensorFlow's profiler"

_LENGTH = 2
_PLANE_LINES = 3
_EVENT = (
    Field("metadata_id", 1, NUMBER),
    Field("offset_ps", 2, NUMBER),
    Field("duration_ps", 3, NUMBER),
    Field("stats", 4, REPEATED),
    Field("num_occurrences", 5, NUMBER),
)
_STAT = (
    Field("metadata_id", 1, NUMBER),
    Field("uint64_value", 3, NUMBER),
    Field("int64_value", 4, NUMBER),
    Field("str_value", 5, BYTES),
    Field("ref_value", 7, NUMBER),
)
_HOST = "/host:CPU"
_DEVICE = "/device:"
_ENVIRONMENT = "Task Environment"
_PROCESS = "ExecutorState::Process"
_STARTS = ("FunctionRun", "SessionRun")
_POOL_THREAD = "tf_"
_EAGER = "EagerLocalExecute: "
_EAGER_CALL = "EagerExecute"
_EPOCH_NS = 10**17
_LATEST_NS = (1 << 63) - 1
_LATEST_PS = _LATEST_NS // 1000


def recognises(path: Path, data: bytes) -> bool:  # noqa: ARG001
    """Whether the name says so; the bytes have no signature."""
    return path.name.endswith((".xplane.pb", ".xspace.pb"))


def runs(path: Path, data: bytes) -> Iterator[tuple[str, RunMetadata]]:
    """One run: everything that was profiled, with the executors' steps in the column `step`."""
    if is_hollow(data):
        raise UnreadableFileError(
            f"{path}: most of it is entries without content; no profile is like that"
        )
    wire = Wire(data)
    found = _Executions()
    losses = [
        Loss("memory", 0, "the profiler records no tensors and no waiting times of ops"),
        Loss("executions", 0, "the profiler leaves out cheap ops of what has run often before"),
    ]
    planes, damage = _planes(wire)
    base = next((_start_time(plane) for plane in planes if plane.name == _ENVIRONMENT), 0)
    for plane in planes:
        if plane.name == _HOST or plane.name.startswith(_DEVICE):
            for line in plane.lines:
                try:
                    _read_line(plane, line, base, found)
                except WireDamageError as error:
                    damage = min(damage, error.offset)
    if damage < wire.size:
        losses.append(
            Loss(
                "bytes of the file",
                wire.size - damage,
                f"{path.name} is damaged or cut at byte {damage} of {wire.size}; what stands "
                "whole before it was read",
            )
        )
    if not any(plane.name for plane in planes):
        raise UnreadableFileError(
            f"{path}: not a profile (XSpace), or damaged before its first whole plane"
        )
    yield "", found.recorded(losses)


@dataclass(slots=True)
class _Plane:
    wire: Wire
    name: str = ""
    lines: list[tuple[int, int]] = field(default_factory=list)
    events: dict[int, str] = field(default_factory=dict)
    stats: dict[int, str] = field(default_factory=dict)
    own_stats: list[tuple[int, int]] = field(default_factory=list)


def _planes(wire: Wire) -> tuple[list[_Plane], int]:
    """The planes that are whole, and where the first damage is (the size for none)."""
    planes = []
    damage = wire.size
    try:
        for number, kind, _, start, stop in fields_of(wire.data, 0, wire.size):
            if number == 1 and kind == _LENGTH:
                try:
                    planes.append(_plane(wire, start, stop))
                except WireDamageError as error:
                    damage = min(damage, error.offset)
    except WireDamageError as error:
        damage = min(damage, error.offset)
    return planes, damage


def _plane(wire: Wire, begin: int, end: int) -> _Plane:
    plane = _Plane(wire)
    for number, kind, _, start, stop in fields_of(wire.data, begin, end):
        if kind != _LENGTH:
            continue
        if number == 2:
            plane.name = _text(wire, start, stop)
        elif number == _PLANE_LINES:
            plane.lines.append((start, stop))
        elif number == 4:
            _entry(wire, start, stop, plane.events)
        elif number == 5:
            _entry(wire, start, stop, plane.stats)
        elif number == 6:
            plane.own_stats.append((start, stop))
    return plane


def _text(wire: Wire, start: int, stop: int) -> str:
    return wire.data[start:stop].decode("utf-8", "replace")


def _entry(wire: Wire, begin: int, end: int, table: dict[int, str]) -> None:
    """An entry of a map from numbers to messages whose field 2 is a name."""
    key, name = 0, ""
    for number, kind, value, start, stop in fields_of(wire.data, begin, end):
        if number == 1 and kind == 0:
            key = value
        elif number == 2 and kind == _LENGTH:
            for part, part_kind, _, first, last in fields_of(wire.data, start, stop):
                if part == 2 and part_kind == _LENGTH:
                    name = _text(wire, first, last)
    table[key] = name


def _start_time(plane: _Plane) -> int:
    """The time of day at which the profile began, where the profiler said it."""
    for begin, end in plane.own_stats:
        values = {n: value for n, kind, value, *_ in fields_of(plane.wire.data, begin, end)}
        if plane.stats.get(values.get(1, 0)) == "profile_start_time":
            return min(values.get(3, values.get(4, 0)), _LATEST_NS)
    return 0


def _read_line(plane: _Plane, place: tuple[int, int], base: int, found: _Executions) -> None:
    wire = plane.wire
    begins, ends, others = entries_of(wire.data, *place, 4)
    ident = stamp = 0
    name = display = ""
    for number, kind, value, start, stop in others:
        if number == 1 and kind == 0:
            ident = value
        elif number == 3 and kind == 0:
            stamp = value
        elif number == 2 and kind == _LENGTH:
            name = _text(wire, start, stop)
        elif number == 11 and kind == _LENGTH:
            display = _text(wire, start, stop)
    if not len(begins):
        return
    origin = stamp if stamp > _EPOCH_NS else stamp + base
    origin = min(max(origin, 0), _LATEST_NS // 2)
    events = wire.scan(begins, ends, _EVENT)
    offset = np.clip(events.numbers["offset_ps"], 0, _LATEST_PS * 500)
    spent = np.clip(events.numbers["duration_ps"], 0, _LATEST_PS * 500)
    start_ns = origin + offset // 1000
    end_ns = origin + (offset + spent) // 1000
    line = _Line(
        plane, display or name, ident, start_ns, end_ns, events.numbers["metadata_id"].tolist()
    )
    line.order = np.lexsort((-spent, offset)).tolist()
    line.stat_rows, line.stat_begins, line.stat_ends = events.entries["stats"]
    if plane.name == _HOST:
        _read_thread(line, found)
    else:
        device = f"{plane.name}/{line.name}" if line.name else plane.name
        for row in line.order:
            kernel = plane.events.get(line.kinds[row], "")
            node, op = _node(str(line.stats(row).get("tf_op", ""))) or (kernel, kernel)
            found.add(line, row, node, op, device, 0)


@dataclass(slots=True)
class _Line:
    """The events of one line, and their order in time, outer ones first."""

    plane: _Plane
    name: str
    ident: int
    start_ns: Ints
    end_ns: Ints
    kinds: list[int]
    order: list[int] = field(default_factory=list)
    stat_rows: Any = None
    stat_begins: Any = None
    stat_ends: Any = None

    def stats(self, row: int) -> dict[str, Any]:
        """The stats of an event by name; numbers and text only."""
        wire, names = self.plane.wire, self.plane.stats
        first, last = np.searchsorted(self.stat_rows, [row, row + 1])
        values: dict[str, Any] = {}
        for begin, end in zip(
            self.stat_begins[first:last].tolist(), self.stat_ends[first:last].tolist(), strict=True
        ):
            key: int = 0
            content: Any = 0
            for number, _, value, start, stop in fields_of(wire.data, begin, end):
                if number == 1:
                    key = value
                elif number in (3, 4):
                    content = value
                elif number == 5:
                    content = _text(wire, start, stop)
                elif number == 7:
                    content = names.get(value, "")
            values[names.get(key, "")] = content
        return values

    def step(self, row: int) -> int:
        """The step that an event of an executor says it belongs to."""
        number = self.stats(row).get("id", 0)
        return number if isinstance(number, int) else 0


def _read_thread(line: _Line, found: _Executions) -> None:
    steps: list[tuple[int, int]] = []
    eager_is_op = True
    is_pool_thread = line.name.startswith(_POOL_THREAD)
    names = line.plane.events
    start_ns, end_ns = line.start_ns.tolist(), line.end_ns.tolist()
    for row in line.order:
        name = names.get(line.kinds[row], "")
        start = start_ns[row]
        while steps and steps[-1][0] <= start:
            steps.pop()
        if name == _PROCESS:
            steps.append((end_ns[row], line.step(row)))
        elif name in _STARTS:
            found.started.add(line.step(row))
        elif name == _EAGER_CALL:
            eager_is_op = not line.stats(row).get("is_func")
        elif name.startswith(_EAGER):
            if eager_is_op and not steps:
                op = name[len(_EAGER) :]
                found.add(line, row, op, op, _HOST_DEVICE, 0)
        elif (steps or is_pool_thread) and (node := _node(name)) is not None:
            found.add(line, row, *node, _HOST_DEVICE, steps[-1][1] if steps else None)


_HOST_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def _node(text: str) -> tuple[str, str] | None:
    """Node and op type of a span `node:Op`; None for any other text."""
    node, colon, op = text.rpartition(":")
    if not colon or not node or node.endswith(":") or not op or " " in op:
        return None
    return (node, op) if op[0].isalnum() or op[0] == "_" else None


def _signed(number: int) -> int:
    """A 64-bit number of the file as the column has it."""
    return number if number <= _LATEST_NS else number - (1 << 64)


class _Executions:
    """Gathers executions, one by one."""

    def __init__(self) -> None:
        self.started: set[int] = set()
        """The steps that threads asked executors for."""
        self._strings: tuple[list[str], list[str], list[str]] = ([], [], [])
        self._rows: list[tuple[int, int, int, int]] = []
        self._thread_names: dict[int, str] = {}
        self._without_step: list[int] = []

    def add(self, line: _Line, row: int, node: str, op: str, device: str, step: int | None) -> None:
        """An event of a line as an execution; None for a step that the profiler did not keep."""
        if step is None:
            self._without_step.append(len(self._rows))
        for column, value in zip(self._strings, (node, op, device), strict=True):
            column.append(value)
        thread = _signed(line.ident)
        times = int(line.start_ns[row]), int(line.end_ns[row])
        self._rows.append((*times, thread, _signed(step or 0)))
        self._thread_names[thread] = line.name

    def recorded(self, losses: list[Loss]) -> RunMetadata:
        """The executions as a run, in order of time."""
        table = np.array(self._rows, np.int64).reshape(-1, 4)
        if self._without_step and len(self.started) == 1:
            table[self._without_step, 3] = _signed(*self.started)
        elif self._without_step:
            reason = "the profiler was stopped while an executor was at work; its step is not known"
            losses.append(Loss("steps of executions", len(self._without_step), reason))
        names, types, devices = self._strings
        columns = OpColumns.build(
            name=names,
            op=types,
            device=devices,
            scheduled_ns=table[:, 0].copy(),
            start_ns=table[:, 0].copy(),
            end_ns=table[:, 1].copy(),
            thread=table[:, 2].copy(),
            step=table[:, 3].copy(),
            thread_names=self._thread_names,
        )[np.argsort(table[:, 0], kind="stable")]
        if not len(columns):
            losses.append(Loss("executions", 0, "no op was recorded while the profiler ran"))
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
        return metadata
