"""What a run recorded while it ran, and how that becomes columns when somebody looks.

The executors write down as little as they can: the inline one a clock reading per step (the end of
one step is the start of the next), the pooled one a tuple per step. Names, labels, shapes, bytes
and the time each node became ready follow from the plan and are worked out here, afterwards.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from stepscope.metadata import MemoryColumns, OpColumns, TensorColumns
from stepscope.runtime.execute.program import GeneratedProgram
from stepscope.runtime.observers import LiveRunMemory
from stepscope.runtime.plan.node_table import UNTIMED, Int64s, PlanTable
from stepscope.runtime.plan.plan import Plan
from stepscope.spans import Note

clock = time.perf_counter_ns


def wall_offset() -> int:
    """What to add to the clock's readings to get nanoseconds since the epoch."""
    return time.time_ns() - clock()


class _ThisThread(threading.local):
    """The thread that asks: its number, for which the system is asked once, and its object."""

    def __init__(self) -> None:
        self.look()

    def look(self) -> None:
        self.number = threading.get_native_id()
        self.thread = threading.current_thread()


_this_thread = _ThisThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_this_thread.look)


class Trace:
    """One run's record. Times are clock readings; `offset` makes them wall-clock times.

    A trace is made between the caller's work and the first op, with nothing in the caches: it takes
    as little as it can with it. `fed_shapes` are those that the plan does not know.
    """

    __slots__ = (
        "begin", "complete", "end", "events", "fed_shapes", "level", "live", "marks", "notes",
        "offset", "pauses", "plan", "program", "spans", "stages", "step_id", "table_of", "thread",
        "thread_names",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        table_of: Callable[[], PlanTable],
        level: int,
        step_id: int,
        fed_shapes: Mapping[int, tuple[int, ...]],
    ) -> None:
        """Begins now, on this thread."""
        self.plan = plan
        self.table_of = table_of
        self.level = level
        self.step_id = step_id
        self.fed_shapes = fed_shapes
        self.offset = wall_offset()
        self.begin = clock()
        self.end = 0
        self.marks: Any = []
        """Inline: the clock after each step, in the program's order; 0 where it did not get to."""
        self.live: LiveRunMemory | None = None
        """Where what the run does is written as well, or its marks instead, to be there after any
        death of the process."""
        self.program: GeneratedProgram | None = None
        self.events: list[tuple[Any, ...]] = []
        """Pooled: (step, scheduled, start, end, thread)."""
        self.notes: list[tuple[int, int, tuple[int, ...]]] = []
        """Shapes the plan could not know: (step, slot, shape)."""
        here = _this_thread
        self.thread = here.number
        self.thread_names = {here.number: here.thread.name}
        self.complete = False
        self.spans: list[Note] = []
        """The user's own, from inside Python ops."""
        self.stages: list[tuple[str, str, int, int, int]] = []
        """What stages of input pipelines did: node, op type, start, end, thread."""
        self.pauses: dict[int, int] = {}
        """Inline: nanoseconds after a step's end that are not the next one's (watched tensors)."""

    def begin_marks(self, count: int) -> Any:
        """Inline: what the program writes the clock to."""
        self.marks = [0] * count if self.live is None else self.live.fresh_marks()
        return self.marks

    def begin_clock(self) -> None:
        """The first op begins now."""
        self.begin = clock()
        if self.live is not None:
            self.live.began(self.begin)

    def end_live(self) -> None:
        """The run is over: hold what it wrote elsewhere, which serves another run soon."""
        if self.live is not None and self.program is not None:
            self.marks = array("q", bytes(self.marks))
        self.live = None

    def went_well(self) -> None:
        """The run is over and nothing of it executes: what it had no use for is let go.

        Many runs may wait to be stored, and each list is one more object for Python's collector to
        look at again and again.
        """
        if self.program is not None:
            self.events = self.events or _NONE
            self.notes = self.notes or _NONE
            self.spans = self.spans or _NONE
            self.stages = self.stages or _NONE

    def freeze(self) -> Self:
        """A copy that a thread still running cannot change."""
        frozen = copy.copy(self)
        frozen.marks, frozen.events = list(self.marks), list(self.events)
        frozen.notes, frozen.spans = list(self.notes), list(self.spans)
        frozen.stages = list(self.stages)
        frozen.thread_names, frozen.pauses = dict(self.thread_names), dict(self.pauses)
        return frozen

    def executed(self) -> int:
        """How many steps ran to their end."""
        return int(np.count_nonzero(self._times()[2] != UNTIMED))

    def _times(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """(scheduled, start, end, thread) per step; end is -1 where a step did not run."""
        table = self.table_of()
        count = len(self.plan.steps)
        start = np.full(count, UNTIMED, dtype=np.int64)
        end = np.full(count, UNTIMED, dtype=np.int64)
        scheduled = np.full(count, self.begin, dtype=np.int64)
        thread = np.full(count, self.thread, dtype=np.int64)
        if self.program is not None:
            marks = np.array([self.begin, *self.marks], dtype=np.int64)
            marks = marks[: np.count_nonzero(marks)]
            lines = self.program.step_numbers[: len(marks) - 1]
            start[lines], end[lines] = marks[:-1], marks[1:]
            if self.pauses:
                start[lines[1:]] += [self.pauses.get(int(i), 0) for i in lines[:-1]]
        elif self.events:
            events = np.array(self.events, dtype=np.int64)
            index = events[:, 0]
            scheduled[index], start[index] = events[:, 1], events[:, 2]
            end[index], thread[index] = events[:, 3], events[:, 4]
        start[table.at_start] = end[table.at_start] = self.begin
        for i, waits in table.later:
            ready = end[waits]
            if UNTIMED not in ready:
                start[i] = end[i] = max(int(ready.max()), int(end[i]))
        if self.complete:
            open_ends = table.retvals[end[table.retvals] == UNTIMED]
            start[open_ends] = end[open_ends] = max(self.end, self.begin)
        if self.program is not None:
            ready = np.maximum(table.waits_for.max_of(end), self.begin)
            scheduled[table.waiting] = ready
        return scheduled, start, end, thread

    def columns(self) -> OpColumns:
        """The record as columns: one row per node that ran, one `_SOURCE` per device."""
        table = self.table_of()
        scheduled, start, end, thread = self._times()
        ran = np.flatnonzero(end != UNTIMED)
        steps = ran[np.argsort(start[ran], kind="stable")]
        sources = table.source_count
        rows = np.concatenate([np.arange(sources), steps + sources]).astype(np.int32)
        row_of = np.full(len(self.plan.steps), -1, dtype=np.intp)
        row_of[steps] = np.arange(sources, sources + len(steps))
        at_begin = np.full(sources, self.begin, dtype=np.int64)

        def timed(values: Int64s) -> Int64s:
            return np.concatenate([at_begin, values[steps]]) + self.offset

        full = self.level >= 3
        threads = np.concatenate([np.full(sources, self.thread), thread[steps]])
        times = timed(scheduled), timed(start), timed(end)
        if not full:
            return self._with_spans(table, rows, threads, times)
        noted = self.noted_shapes()
        tensors = table.outputs(noted).per_execution(rows)
        memory = table.memory(row_of, noted, start, end, self.offset, self._forwarded())
        return self._with_spans(table, rows, threads, times, tensors, memory)

    def _with_spans(
        self,
        table: PlanTable,
        rows: Any,
        threads: Int64s,
        times: tuple[Int64s, Int64s, Int64s],
        tensors: TensorColumns | None = None,
        memory: MemoryColumns | None = None,
    ) -> OpColumns:
        """These nodes, by when each was scheduled, began and ended; the spans below."""
        scheduled, start, end = times
        ops = OpColumns.over(
            table.facts,
            node=rows,
            thread=threads,
            scheduled_ns=scheduled,
            start_ns=start,
            end_ns=end,
            step=self.step_id,
            thread_names=self.thread_names,
            tensors=tensors,
            memory=memory,
        )
        if not self.spans and not self.stages:
            return ops
        spans = [(name, _ANNOTATION, *times) for name, *times in self.spans]
        return OpColumns.concat([ops, _spans([*spans, *self.stages], ops, self.offset)])

    def _forwarded(self) -> dict[int, tuple[int, int]]:
        return self.program.buffers.forwarded if self.program is not None else {}

    def durations(self) -> Int64s:
        """Nanoseconds per step of the plan; 0 where it did not run."""
        _, start, end, _ = self._times()
        return np.where(end == UNTIMED, 0, end - start)

    def noted_shapes(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """(step, slot) to shape of what was fed and what the plan could not know."""
        noted = {(i, slot): shape for i, slot, shape in self.notes}
        return noted | {(i, 0): shape for i, shape in self.fed_shapes.items()}

    def output_shapes(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """(step, slot) to shape, from the plan and from what was noted while it ran."""
        shapes = {
            (i, slot): shape.known
            for i, step in enumerate(self.plan.steps)
            for slot, shape in enumerate(step.shapes)
            if shape.known is not None
        }
        return shapes | self.noted_shapes()


_ANNOTATION = "Annotation"
_NONE: list[Any] = []
"""Of a run that is over: never added to."""


def _spans(rows: Sequence[Any], ops: OpColumns, offset: int) -> OpColumns:
    """Rows beside those of nodes, each on the device of the op it lies in.

    A row is name, op type, start, end and thread.
    """
    start = np.array([row[2] for row in rows], dtype=np.int64) + offset
    end = np.array([row[3] for row in rows], dtype=np.int64) + offset
    thread = np.array([row[4] for row in rows], dtype=np.int64)
    found = []
    for begins, ends, here in zip(start, end, thread, strict=True):
        around = (ops.thread == here) & (ops.start_ns <= begins) & (ops.end_ns >= ends)
        found.append(int(np.flatnonzero(around)[-1]) if around.any() else 0)
    return OpColumns.build(
        name=[row[0] for row in rows],
        op=[row[1] for row in rows],
        device=ops.devices[found],
        label=[f"{row[0]} = {row[1]}()" for row in rows],
        thread=thread,
        scheduled_ns=start,
        start_ns=start,
        end_ns=end,
        step=ops.step[0],
    )
