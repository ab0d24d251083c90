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
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire_scan import (
    BYTES,
    NUMBER,
    REPEATED,
    Field,
    Scanned,
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
_STRETCH = 1 << 16
_TRIES = 3


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
    base = 0
    for plane in planes:
        if plane.name == _ENVIRONMENT:
            try:
                base = base or _start_time(plane)
            except WireDamageError as error:
                damage = min(damage, error.offset)
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
    line = _Line(plane, display or name, ident, origin, wire.scan(begins, ends, _EVENT))
    if plane.name == _HOST:
        _read_thread(line, found)
    else:
        _read_accelerator(line, found)
    if line.damage is not None:
        raise WireDamageError(line.damage)


class _Line:
    """The events of one line as columns.

    A file of a few megabytes may hold millions of events that say nothing, so nothing is made of
    an event before it is known that it counts: `kinds` are the distinct events of the line,
    `kind` is the one of each row.
    """

    def __init__(self, plane: _Plane, name: str, ident: int, origin: int, events: Scanned) -> None:
        self.name = name
        self.ident = _signed(ident)
        self.damage: int | None = None
        """Where the first stat stands that cannot be read, if there is one that was looked at."""
        self.plane = plane
        self._origin = origin
        self._offset_ps = np.clip(events.numbers["offset_ps"], 0, _LATEST_PS * 500)
        self._spent_ps = np.clip(events.numbers["duration_ps"], 0, _LATEST_PS * 500)
        self._stat_rows, *self._stat_places = events.entries["stats"]
        numbers, kind = np.unique(events.numbers["metadata_id"], return_inverse=True)
        self.kind: Ints = kind
        self.kinds = [plane.events.get(number, "") for number in numbers.tolist()]

    def __len__(self) -> int:
        return len(self.kind)

    def in_order(self, rows: Ints) -> Ints:
        """The rows in order of time, outer ones first."""
        return rows[np.lexsort((-self._spent_ps[rows], self._offset_ps[rows]))]

    def times(self, rows: Ints) -> tuple[Ints, Ints]:
        """Begin and end in nanoseconds."""
        offset = self._offset_ps[rows]
        return self._origin + offset // 1000, self._origin + (offset + self._spent_ps[rows]) // 1000

    def stat(self, name: str, rows: Ints) -> tuple[Ints, dict[int, str]]:
        """What a stat says of each of some rows: numbers (0 for none), and texts by row.

        The stats of other rows are not looked at. Of stats that are damaged those before are read.
        """
        numbers = np.zeros(len(self), np.int64)
        texts: dict[int, str] = {}
        wanted = [key for key, known in self.plane.stats.items() if known == name]
        if not wanted or not len(self._stat_rows):
            return numbers[rows], texts
        mine = np.zeros(len(self), bool)
        mine[rows] = True
        of_rows = mine[self._stat_rows]
        owners = self._stat_rows[of_rows]
        begins, ends = (places[of_rows] for places in self._stat_places)
        owners, begins, ends, stats = self._scanned(owners, begins, ends)
        here = np.isin(stats.numbers["metadata_id"], np.array(wanted).astype(np.int64))
        owners = owners[here]
        values = {key: column[here] for key, column in stats.numbers.items()}
        numbers[owners] = values["int64_value"] | values["uint64_value"]
        first, last = (places[here] for places in stats.spans["str_value"])
        written = np.flatnonzero((last > first) | (values["ref_value"] != 0))
        wire, names = self.plane.wire, self.plane.stats
        for place in written.tolist():
            reference = int(values["ref_value"][place])
            texts[int(owners[place])] = (
                names.get(reference, "")
                if reference
                else _text(wire, int(first[place]), int(last[place]))
            )
        return numbers[rows], texts

    def _scanned(self, owners: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, Scanned]:
        """Stats taken apart, up to the first that is damaged."""
        wire = self.plane.wire
        for _ in range(_TRIES):
            try:
                return owners, begins, ends, wire.scan(begins, ends, _STAT)
            except WireDamageError as error:
                self.damage = error.offset
                whole = ends <= error.offset
                owners, begins, ends = owners[whole], begins[whole], ends[whole]
        none = np.empty(0, np.int64)
        return none, none, none, wire.scan(none, none, _STAT)


def _read_accelerator(line: _Line, found: _Executions) -> None:
    """Every event of an accelerator is an execution, of the op that its stat names."""
    plane = line.plane.name
    device = f"{plane}/{line.name}" if line.name else plane
    rows = line.in_order(np.arange(len(line)))
    nodes = np.array([found.names.code(kernel) for kernel in line.kinds], np.int32)[line.kind]
    types = np.array([found.types.code(kernel) for kernel in line.kinds], np.int32)[line.kind]
    for row, text in line.stat("tf_op", rows)[1].items():
        named = _node(text)
        if named is not None:
            nodes[row], types[row] = found.names.code(named[0]), found.types.code(named[1])
    found.add(line, rows, nodes[rows], types[rows], device, np.zeros(len(rows), np.int64))


_OTHER, _NODE, _RUNS, _STARTED, _CALLED, _EAGER_OP = range(6)
"""What an event on the line of a thread is."""


def _kind_of(name: str) -> int:
    if name == _PROCESS:
        return _RUNS
    if name in _STARTS:
        return _STARTED
    if name == _EAGER_CALL:
        return _CALLED
    if name.startswith(_EAGER):
        return _EAGER_OP
    return _OTHER if _node(name) is None else _NODE


def _read_thread(line: _Line, found: _Executions) -> None:
    roles = np.array([_kind_of(name) for name in line.kinds], np.int8)[line.kind]
    is_pool_thread = line.name.startswith(_POOL_THREAD)
    if not is_pool_thread and not (roles == _RUNS).any():
        # Outside of an executor a span of that form is somebody else's.
        roles[roles == _NODE] = _OTHER
    rows = line.in_order(np.flatnonzero(roles != _OTHER))
    role = roles[rows]
    steps = np.zeros(len(rows), np.int64)
    named = np.flatnonzero((role == _RUNS) | (role == _STARTED))
    steps[named] = line.stat("id", rows[named])[0]
    found.started.update(np.unique(steps[role == _STARTED]).tolist())
    called = np.flatnonzero(role == _CALLED)
    is_function = np.zeros(len(rows), bool)
    numbers, texts = line.stat("is_func", rows[called])
    is_function[called] = (numbers != 0) | np.isin(rows[called], list(texts))
    kept, unknown = _inside_steps(line, rows, role, steps, is_function, is_pool_thread)
    rows, steps = rows[kept], steps[kept]
    pairs = [
        (name[len(_EAGER) :],) * 2 if name.startswith(_EAGER) else _node(name) or ("", "")
        for name in line.kinds
    ]
    nodes = np.array([found.names.code(node) for node, _ in pairs], np.int32)
    types = np.array([found.types.code(op) for _, op in pairs], np.int32)
    kind = line.kind[rows]
    found.add(line, rows, nodes[kind], types[kind], _HOST_DEVICE, steps, unknown[kept])


def _inside_steps(
    line: _Line, rows: Ints, role: NDArray[np.int8], steps: Ints, is_function: NDArray[np.bool_],
    is_pool_thread: bool,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:  # fmt: skip
    """Which rows are executions, and of which of them no step is known; `steps` gets the others'.

    Rows come in order of time, outer ones first. One pass, in stretches: as Python's numbers the
    events of a large line would take ten times what their columns do.
    """
    kept = role == _NODE
    unknown = np.zeros(len(rows), bool)
    if not (role > _NODE).any():
        unknown[kept] = True
        return kept, unknown
    running: list[tuple[int, int]] = []
    eager_is_op = True
    for begin in range(0, len(rows), _STRETCH):
        part = slice(begin, begin + _STRETCH)
        start_ns, end_ns = (times.tolist() for times in line.times(rows[part]))
        events = zip(role[part].tolist(), start_ns, end_ns, strict=True)
        for at, (what, start, end) in enumerate(events, begin):
            while running and running[-1][0] <= start:
                running.pop()
            if what == _NODE:
                if running:
                    steps[at] = running[-1][1]
                else:
                    kept[at] = unknown[at] = is_pool_thread
            elif what == _RUNS:
                running.append((end, int(steps[at])))
            elif what == _CALLED:
                eager_is_op = not is_function[at]
            elif what == _EAGER_OP:
                kept[at] = eager_is_op and not running
    return kept, unknown


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


class _Strings:
    """Gives every distinct text a number."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def column(self, codes: NDArray[np.int32]) -> StringColumn:
        return StringColumn(codes, tuple(self._codes))


class _Executions:
    """Gathers executions, those of a line at a time."""

    def __init__(self) -> None:
        self.started: set[int] = set()
        """The steps that threads asked executors for."""
        self.names, self.types, self._devices = _Strings(), _Strings(), _Strings()
        self._parts: list[tuple[Any, ...]] = []
        self._thread_names: dict[int, str] = {}

    def add(
        self, line: _Line, rows: Ints, names: NDArray[np.int32], types: NDArray[np.int32],
        device: str, steps: Ints, unknown: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        """Rows of a line as executions; of those in `unknown` the profiler kept no step."""
        if not len(rows):
            return
        count = len(rows)
        self._parts.append(
            (
                names,
                types,
                np.full(count, self._devices.code(device), np.int32),
                *line.times(rows),
                np.full(count, line.ident),
                steps,
                np.zeros(count, bool) if unknown is None else unknown,
            )
        )
        self._thread_names[line.ident] = line.name

    def recorded(self, losses: list[Loss]) -> RunMetadata:
        """The executions as a run, in order of time."""
        ints = np.empty(0, np.int32), np.empty(0, np.int64)
        none = (ints[0],) * 3 + (ints[1],) * 4 + (np.empty(0, bool),)
        parts = [*zip(none, *self._parts, strict=True)]
        self._parts.clear()
        names, types, devices, start, end, thread, step, unknown = map(np.concatenate, parts)
        del parts
        without = int(np.count_nonzero(unknown))
        if without and len(self.started) == 1:
            step[unknown] = next(iter(self.started))
        elif without:
            reason = "the profiler was stopped while an executor was at work; its step is not known"
            losses.append(Loss("steps of executions", without, reason))
        order = np.argsort(start, kind="stable")
        start = start[order]
        columns = OpColumns.build(
            name=self.names.column(names[order]),
            op=self.types.column(types[order]),
            device=self._devices.column(devices[order]),
            scheduled_ns=start,
            start_ns=start,
            end_ns=end[order],
            thread=thread[order],
            step=step[order],
            thread_names=self._thread_names,
        )
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
