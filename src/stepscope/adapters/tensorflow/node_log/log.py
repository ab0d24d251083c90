"""What the nodes of a run did, from our own executor: complete, exact, and cheaper than events.

TensorFlow's profiler needs three events per node to show all of them. An executor type of ours (see
`build`) notes the same in a fraction of the time. It sees the nodes of the graphs that a
thread runs. A run that may have more to show (spans in Python functions, input pipelines,
accelerators, the allocator's events) is profiled as well; others need no profiler, nor its turns.

Guarantees. A log may be read at any time and from any thread, also while its run is under way. Of
nodes that had begun by then it tells whether they ended, and whether well.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.events import Profile
from stepscope.adapters.tensorflow.capture.steps import ANNOTATION, Described, Row, Step
from stepscope.adapters.tensorflow.node_log import build
from stepscope.metadata import Loss

_STARTED, _ENDED, _DONE, _FAILED = 1, 2, 3, 4
_SIZES: Final = 7
RECORD_NS: Final = 100
"""What noting one node costs the run, about: measured as dilation of warm runs of a thousand."""


class NodeLog:
    """The log of one run. Enter and leave it on the thread that starts the run's steps."""

    def __init__(self, *, outputs: bool) -> None:
        """With `outputs`, what each node puts out is described as well."""
        self._library: Any = build.library()
        self._outputs = outputs
        self._handle: Any = None

    def enter(self) -> None:
        self._handle = self._library.stepscope_enter(int(self._outputs))
        self._release = weakref.finalize(self, self._library.stepscope_release, self._handle)
        self._release.atexit = False

    def leave(self) -> None:
        """Steps that this thread starts from now on are not logged any more."""
        self._library.stepscope_leave(self._handle)

    def release(self) -> None:
        """Give its memory to the next log. Whoever reads it must have done so."""
        self._handle = None
        self._release()

    def losses(self) -> list[Loss]:
        """What it may lack, once the run is over."""
        return []

    def read(self) -> bytes | None:
        """What is there by now; `LoggedNodes` understands it. None before it is entered."""
        if self._handle is None:
            return None
        size = ctypes.c_int64()
        data = self._library.stepscope_read(self._handle, ctypes.byref(size))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            self._library.stepscope_give_back(data)


@functools.cache
def accelerated() -> bool:
    """Whether there are devices that the profiler alone sees at work."""
    devices = versions.tensorflow().config.list_physical_devices()
    return any(device.device_type != "CPU" for device in devices)


def dropped_from(data: bytes) -> int:
    """How many executions were too many to be kept."""
    return int(np.frombuffer(data, np.int64, _SIZES)[-1])


class LoggedNodes:
    """A log, taken apart."""

    def __init__(self, data: bytes) -> None:
        sizes = np.frombuffer(data, np.int64, _SIZES).tolist()
        count, described, steps, texts, table, devices, _ = sizes
        place = 8 * _SIZES

        def numbers(kind: Any, length: int) -> list[int]:
            nonlocal place
            found: list[int] = np.frombuffer(data, kind, length, place).tolist()
            place += length * np.dtype(kind).itemsize
            return found

        ready, starts, ends = (numbers(np.int64, count) for _ in range(3))
        outputs = _outputs(numbers(np.int64, described))
        self.steps = set(numbers(np.int64, steps))
        """The steps that were logged, by the executor's numbers."""
        threads, where, states, names, ops = (numbers(np.int32, count) for _ in range(5))
        text = data[place : place + texts].decode()
        known = data[place + texts : place + texts + table].decode().splitlines()
        threads_known = (text.split(" ", 2) for text in known[devices:])
        self.threads = {int(number): (int(line), name) for number, line, name in threads_known}
        """By the system's numbers of threads, the profiler's, and their names."""
        known[devices:] = [""]
        self.ended: list[Row] = []
        """The executions that came to an end, also to a bad one."""
        self.unfinished: list[Row] = []
        """Those that began and did not come to a good end."""
        self.going: set[str] = set()
        """The nodes of those that had come to no end."""
        self.done: set[str] = set()
        at = 0
        columns = (ready, starts, ends, threads, where, states, names, ops)
        for i, (ready_ns, start, end, thread, device, state, name_size, op_size) in enumerate(
            zip(*columns, strict=True)
        ):
            middle = at + name_size
            name, op = text[at:middle], text[middle : middle + op_size]
            at = middle + op_size
            row = Row(
                name, op, start, max(start, end), -thread, "", known[device],
                min(ready_ns, start) or start, outputs.get(i, ()),
            )  # fmt: skip
            if state == _DONE:
                self.done.add(name)
            else:
                self.unfinished.append(row)
            if state in (_STARTED, _ENDED):
                self.going.add(name)
            else:
                self.ended.append(row)

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


def _is_among(step: Step, times: Mapping[str, list[tuple[int, int]]]) -> bool:
    """Whether most of a step's kernels are logged: it is one inside a step that was."""
    kernels = [row for row in step.rows if row.op != ANNOTATION]
    found = sum(
        any(start < row.end_ns and row.start_ns < end for start, end in times.get(row.name, ()))
        for row in kernels
    )
    return 2 * found > len(kernels)


def _outputs(numbers: list[int]) -> dict[int, tuple[Described | None, ...]]:
    """By row, the descriptions of its outputs; None for one that it did not put out."""
    found: dict[int, dict[int, Described]] = {}
    place = 0
    while place < len(numbers):
        row, slot, dtype, size, rank = numbers[place : place + 5]
        place += 5 + rank
        found.setdefault(row, {})[slot] = dtype, tuple(numbers[place - rank : place]), size
    return {
        row: tuple(slots.get(slot) for slot in range(max(slots) + 1))
        for row, slots in found.items()
    }
