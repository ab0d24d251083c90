"""From the profiler's events to what each run executed.

The structure, on the line of each thread: an executor works off a step inside spans
`ExecutorState::Process` (stat `id`); in them there is a span `node:Op` per kernel, and after every
node, also those without a kernel of their own, a mark `ExecutorPropagateOutputs` that names it. The
thread that asked for the step has `SessionRun` or `FunctionRun` with the same id. Eager ops are
spans on the thread that called them, which is an executor's where a Python function inside a node
calls them. Our own marks (`MARK` + number) say what belongs to which run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from stepscope.adapters.tensorflow.capture.devices import lanes
from stepscope.adapters.tensorflow.capture.steps import NO_NODES, Marked, Row, Step, Steps
from stepscope.adapters.tensorflow.capture.thread_events import (
    MARK,
    PYTHON_OP,
    SPAN,
    Meanings,
    ThreadLine,
    spoken,
    unspoken,
)
from stepscope.metadata.xplane import Plane, Space

__all__ = [
    "CLOCK", "CLOCK_STAT", "MARK", "NO_NODES", "PYTHON_OP", "SPAN", "Marked", "Profile", "Row",
    "Step", "base_from_clock", "spoken", "unspoken",
]  # fmt: skip

CLOCK: Final = "stepscope:clock"
CLOCK_STAT: Final = "epoch_ns"
"""Our first event of every profile says when it was made: some versions do not say it."""


_THREAD_BITS: Final = 0xFFFFFFFF


class Profile:
    """A batch's data, taken apart once."""

    def __init__(self, data: bytes) -> None:
        self.marked: dict[str, Marked] = {}
        self.steps = Steps()
        self.line_names: dict[int, str] = {}
        self.line_threads: dict[int, int] = {}
        """The profiler's numbers of the threads whose lines these are."""
        self.device_rows: list[Row] = []
        self.host_events = 0
        """How many events the threads left, of whatever kind: what the runs were slowed down by."""
        if not data:
            return
        space = Space(data)
        space.fallback_base_ns = base_from_clock(space)
        for plane in space.planes:
            if plane.name == "/host:CPU":
                self._read_host(space, plane)
        for plane in space.devices():
            self._read_device(space, plane)
        for step in self.steps.values():
            step.settle()

    @property
    def saw_executor_marks(self) -> bool:
        return any(step.done for step in self.steps.values())

    def of_run(self, mark: str) -> Marked | None:
        return self.marked.get(mark)

    def is_alone(self, run: Marked) -> bool:
        """Whether no run but those inside it was profiled with it."""
        return all(
            run.line == other.line and run.start_ns <= other.start_ns <= run.end_ns
            for other in self.marked.values()
        )

    def rows_of(self, steps: list[int], nodes: Mapping[str, Any] = NO_NODES) -> Iterator[Row]:
        """The executions of these steps and of all steps they started."""
        for step in self.steps.with_children(steps):
            yield from step.executions(nodes)

    def names_in(self, steps: list[int]) -> Iterator[set[str]]:
        """For each of these steps and of those they started, the names of the nodes that ran."""
        for step in self.steps.with_children(steps):
            yield {row.name for row in step.of_graph(NO_NODES)}

    def done_in(self, steps: list[int]) -> set[str]:
        """The nodes of these steps that came to their end."""
        return {name for step in self.steps.with_children(steps) for name in step.done}

    def unfinished_in(self, steps: list[int]) -> list[Row]:
        """The kernels of these steps that began and of whose end there is no mark."""
        return [row for step in self.steps.with_children(steps) for row in step.unfinished]

    def cut_off_in(self, steps: list[int], nodes: Mapping[str, Any] = NO_NODES) -> list[str]:
        """The nodes of these steps that the profiler may have been stopped inside of."""
        return [name for step in self.steps.with_children(steps) for name in step.cut_off(nodes)]

    def unclaimed(self, claimed: set[int]) -> Iterator[int]:
        """Steps that no thread is known to have started: those of runs whose mark is still open."""
        return self.steps.unclaimed(claimed)

    def called_elsewhere(self) -> Iterator[int]:
        """Steps of functions that were called outside of any run of ours."""
        return self.steps.called_elsewhere()

    def pipelines(self, claimed: set[int]) -> Iterator[int]:
        """Steps of input pipelines that are no part of these steps."""
        return self.steps.pipelines(claimed)

    def _read_host(self, space: Space, plane: Plane) -> None:
        meanings = Meanings(plane)
        for number, line in enumerate(plane.lines):
            self.line_names[number] = line.name
            self.line_threads[number] = line.id & _THREAD_BITS
            self.host_events += len(line)
            base = space.line_base_ns(line)
            ThreadLine(number, self.steps, self.marked).read(meanings, line, base)

    def _read_device(self, space: Space, plane: Plane) -> None:
        """An accelerator's own lines (streams, cores) as devices and lanes of their own."""
        for name, executions in lanes(space, plane):
            number = len(self.line_names)
            self.line_names[number] = name
            for node, op, start_ns, end_ns, device in executions:
                self.device_rows.append(Row(node, op, start_ns, end_ns, number, "", device))


def base_from_clock(space: Space) -> int:
    """The wall-clock time of the profile's start, from the event that tells the time."""
    host = space.plane("/host:CPU")
    clock = [key for key, name in host.names.items() if name == CLOCK] if host is not None else []
    if host is not None and clock:
        for line in host.lines:
            places = np.flatnonzero(np.isin(line.metadata_id, clock))
            for place in places[:1].tolist():
                made = line.stat_numbers(host.stat_number(CLOCK_STAT))[place]
                return int(made - line.timestamp_ns - line.offset_ps[place] // 1000)
    return 0
