"""What the nodes of a run did, from our own executor: complete, exact, and cheaper than events.

TensorFlow's profiler needs three events per node to show all of them. An executor type of ours (see
`build`) notes the same in a fraction of the time. It sees the nodes of the graphs that a thread
runs. What a graph determines is known once (`executed_graph`); a log adds numbers, of which columns
are made by NumPy alone (`metadata.logged_nodes`).

Guarantees. A log may be read at any time and from any thread, also while its run is under way. Of
nodes that had begun by then it tells whether they ended, and whether well.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.events import Profile
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.executed_graph import (
    ExecutedGraphs,
    descriptions,
    known_graphs,
)
from stepscope.cached_property import cached_property
from stepscope.metadata.logged_nodes import OUTPUT, ROW, Log, LoggedNodes
from stepscope.metadata.memory.logged_memory import CHANGE, LoggedMemory
from stepscope.metadata.xplane import ANNOTATION, ExecutorStep, Row

_SIZES: Final = struct.Struct("10q")
_PACKED: Final = struct.Struct("9q")
RECORD_NS: Final = 90
"""What noting one node costs the run, about: measured as dilation of warm runs of a thousand.

A change of memory costs as much, where that is counted.
"""


class NodeLog:
    """The log of one run. Enter and leave it on the thread that starts the run's steps."""

    _handle: Any = None
    """Here, as Control-C may end `__init__` at any place: what is left is released all the same."""

    def __init__(self, *, outputs: bool) -> None:
        """With `outputs`, what each node puts out is described, and what it takes is counted."""
        self._library: Any = build.library()
        self._outputs = outputs
        self._step_id, self._what = 0, b""
        self.stays = False
        """Whether it is kept when the run is over, until somebody releases it."""
        self.records = 0
        """How many it has, once it is `over`."""

    def stay(self, step_id: int, what: str) -> None:
        """Before it is entered: have it stay, and others know the run by its step and what ran."""
        self._step_id, self._what = step_id, what.replace("\0", " ").encode(errors="replace")
        self.stays = True

    def enter(self) -> None:
        self._handle = self._library.stepscope_enter(int(self._outputs), self._step_id, self._what)

    def leave(self) -> bool:
        """Steps that this thread starts from now on are not logged any more.

        Whether it may be kept unread: logs that nobody reads take little memory so far.
        """
        can_wait: int = self._library.stepscope_leave(self._handle)
        return can_wait != 0

    def over(self, *, failed: bool) -> None:
        """The run has ended: whoever finds the log knows that, and how."""
        self.records = self._library.stepscope_over(self._handle, int(failed))

    def release(self) -> None:
        """Give its memory to the next log. Whoever reads it must have done so."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.stepscope_release(handle)

    def __del__(self) -> None:
        self.release()

    def read(self) -> LoggedRun | None:
        """What is there by now. None before it is entered."""
        handle = self._handle
        if handle is None:
            return None
        size = ctypes.c_int64()
        data = ctypes.string_at(
            self._library.stepscope_read(handle, ctypes.byref(size)), size.value
        )
        return LoggedRun(data, self._graph)

    def packed(self) -> PackedLog | None:
        """The same as a store has it. None before it is entered."""
        handle = self._handle
        if handle is None:
            return None
        size = ctypes.c_int64()
        data = ctypes.string_at(
            self._library.stepscope_pack(handle, ctypes.byref(size)), size.value
        )
        ops, started, ended, *lost, graphs, alike = _PACKED.unpack_from(data)
        place = _PACKED.size + 8 * graphs
        numbers = struct.unpack_from(f"{graphs}q", data, _PACKED.size)
        known = known_graphs.of(numbers, self._graph)
        return PackedLog(data[place:], ops, started, ended, known, None if any(lost) else alike)

    def _graph(self, number: int) -> Any:
        return self._library.stepscope_graph(self._handle, number)


def _copy_of(give: Any, handle: Any) -> bytes:
    """What the library lends until this thread asks it again."""
    size = ctypes.c_int64()
    return ctypes.string_at(give(handle, ctypes.byref(size)), size.value)


class PackedLog(NamedTuple):
    """What a log has by now, as `stored_log.pack_log` packs it."""

    rows: bytes
    ops: int
    """How many executions came to an end; the first of them began and the last ended when?"""
    started_ns: int
    ended_ns: int
    graphs: ExecutedGraphs
    alike: int | None
    """The same for runs of these graphs in which the same nodes were executed, as often, and put
    out the same, on the same threads; None where one did not end well, or is not in the log."""


@functools.cache
def accelerated() -> bool:
    """Whether there are devices that the profiler alone sees at work."""
    devices = versions.tensorflow().config.list_physical_devices()
    return any(device.device_type != "CPU" for device in devices)


class LoggedRun(LoggedNodes):
    """What was read of a log, which may name steps, threads and graphs of this process."""

    graphs: ExecutedGraphs

    def __init__(self, data: bytes, handle_of: Any) -> None:
        """`handle_of` gives the library's handle of a graph that the log names."""
        self._data = data
        rows, more, steps, graphs, text, *lost, changes, counted, names = _SIZES.unpack_from(data)
        self.dropped, self.undescribed = lost
        places = [_SIZES.size]
        for count, size in (
            (rows, ROW.itemsize), (more, OUTPUT.itemsize), (steps, 8), (graphs, 8),
            (changes, CHANGE.itemsize), (text, 1), (names, 1),
        ):  # fmt: skip
            places.append(places[-1] + count * size)
        numbers = struct.unpack_from(f"{graphs}q", data, places[3])
        self._step_numbers = slice(places[2], places[3])
        self._threads_at = slice(places[5], places[6])
        memory = None
        if counted:
            allocators = data[places[6] : places[7]].decode(errors="replace").splitlines()
            taken = np.frombuffer(data, CHANGE, changes, places[4])
            memory = LoggedMemory(taken, tuple(allocators))
        log = Log(
            np.frombuffer(data, ROW, rows, places[0]),
            np.frombuffer(data, OUTPUT, more, places[1]),
            memory,
        )
        super().__init__(log, known_graphs.of(numbers, handle_of), descriptions)

    @cached_property
    def steps(self) -> set[int]:
        """The steps that were logged, by the executor's numbers."""
        return set(np.frombuffer(self._data[self._step_numbers], np.int64).tolist())

    @cached_property
    def threads(self) -> dict[int, tuple[int, str]]:
        """By the system's numbers of threads, the profiler's, and their names."""
        text = self._data[self._threads_at].decode(errors="replace")
        known = (line.split(" ", 2) for line in text.splitlines())
        return {int(number): (int(handle), name) for number, handle, name in known}

    def with_others(self, profile: Profile, steps: Iterable[int]) -> Iterator[Row]:
        """The run's executions: those logged, and what the profiler alone saw in its steps."""
        yield from self.ended
        times: dict[str, list[tuple[int, int]]] = {}
        for row in (*self.ended, *self.unfinished):
            times.setdefault(row.name, []).append((row.start_ns, row.end_ns))
        for number, step in profile.steps.numbered_with_children(list(steps)):
            logged = number in self.steps or _is_among(step, times)
            if not logged:
                yield from step.executions({})
                continue
            yield from (row for row in step.rows if row.op == ANNOTATION)
            yield from step.python


def _is_among(step: ExecutorStep, times: Mapping[str, list[tuple[int, int]]]) -> bool:
    """Whether most of a step's kernels are logged: it is one inside a step that was."""
    kernels = [row for row in step.rows if row.op != ANNOTATION]
    found = sum(
        any(start < row.end_ns and row.start_ns < end for start, end in times.get(row.name, ()))
        for row in kernels
    )
    return 2 * found > len(kernels)
