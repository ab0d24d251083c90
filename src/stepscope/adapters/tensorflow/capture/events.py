"""A profile that was taken of runs of ours: what each of them executed.

What was executed is read by `stepscope.metadata.xplane`, as it is of a file. Here it is told apart
by the marks that runs leave on their own threads (`MARK` and a number).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from stepscope.metadata.xplane import (
    ANNOTATION,
    CLOCK,
    CLOCK_STAT,
    FOLDING_STEP,
    MARK,
    NO_NODES,
    PYTHON_OP,
    SPAN,
    ExecutionTrace,
    ExecutorStep,
    Row,
    Space,
)
from stepscope.metadata.xplane.thread_walk import StepCall

__all__ = [
    "ANNOTATION",
    "CLOCK",
    "CLOCK_STAT",
    "MARK",
    "NO_NODES",
    "PYTHON_OP",
    "SPAN",
    "ExecutorStep",
    "Marked",
    "Profile",
    "Row",
]  # fmt: skip

_THREAD_BITS: Final = 0xFFFFFFFF
_OnLine = TypeVar("_OnLine", Row, StepCall)


@dataclass(slots=True)
class Marked:
    """What lies under one mark: a run as its own thread saw it."""

    line: int
    start_ns: int
    end_ns: int
    steps: list[int] = field(default_factory=list)
    eager: list[Row] = field(default_factory=list)
    spans: list[Row] = field(default_factory=list)


class Profile:
    """A batch's data, taken apart once."""

    def __init__(self, data: bytes) -> None:
        trace = ExecutionTrace(Space(data), in_rows=True)
        self.steps = trace.steps
        self.line_names = {number: thread.name for number, thread in enumerate(trace.threads)}
        self.line_threads = {
            number: thread.id & _THREAD_BITS for number, thread in enumerate(trace.threads)
        }
        """The profiler's numbers of the threads whose lines these are."""
        self.host_events = trace.host_events
        """How many events the threads left, of whatever kind: what the runs were slowed down by."""
        self.saw_executor_marks = trace.has_marks
        self.device_rows = [
            Row(node, op, start_ns, end_ns, number, "", device)
            for number, lane in trace.lanes
            for node, op, start_ns, end_ns, device in zip(
                *(column.tolist() for column in lane[2:]), strict=True
            )
        ]
        self.marked = _marked(trace)
        under_marks = {step for marked in self.marked.values() for step in marked.steps}
        self._unmarked = {call.step for call in trace.outside.calls} - under_marks
        """The steps that were started outside of any run of ours."""

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

    def unmarked_in(self, steps: list[int]) -> set[Row]:
        """Kernels of these steps that are others' if they ended well (`ExecutorStep.unmarked`)."""
        if not self.saw_executor_marks:
            return set()
        return {row for step in self.steps.with_children(steps) for row in step.unmarked}

    def cut_off_in(self, steps: list[int], nodes: Mapping[str, Any] = NO_NODES) -> list[str]:
        """The nodes of these steps that the profiler may have been stopped inside of."""
        return [name for step in self.steps.with_children(steps) for name in step.cut_off(nodes)]

    def unclaimed(self, claimed: set[int]) -> Iterator[int]:
        """Steps that no thread is known to have started: those of runs whose mark is still open."""
        known = claimed | self.steps.children() | self._unmarked | {FOLDING_STEP}
        return (number for number in self.steps if number not in known)

    def called_elsewhere(self) -> Iterator[int]:
        """Steps of functions that were called outside of any run of ours, by whoever else."""
        known = self.steps.children() | self.steps.pipelines | {FOLDING_STEP}
        return (n for n in self.steps if n in self._unmarked and n not in known)

    def pipelines(self, claimed: set[int]) -> Iterator[int]:
        """Steps of input pipelines that are no part of these steps."""
        known = claimed | self.steps.children()
        return (number for number in self.steps.pipelines if number not in known)


def _marked(trace: ExecutionTrace) -> dict[str, Marked]:
    """The runs, with what their own threads did outside of executors."""
    outside = trace.outside
    for found in (outside.calls, outside.eager, outside.spans):
        found.sort(key=_place)
    return {
        mark: Marked(
            *place,
            [call.step for call in _between(outside.calls, *place)],
            list(_between(outside.eager, *place)),
            list(_between(outside.spans, *place)),
        )
        for mark, place in trace.marks.items()
    }


def _between(found: Sequence[_OnLine], line: int, start: int, end: int) -> Sequence[_OnLine]:
    """Those of a line that began in that time."""
    first = bisect_left(found, (line, start), key=_place)
    return found[first : bisect_left(found, (line, end), key=_place)]


def _place(found: Row | StepCall) -> tuple[int, int]:
    return found.line, found.start_ns
