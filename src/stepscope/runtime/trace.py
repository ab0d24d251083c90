"""What a run recorded while it ran, and how that becomes columns when somebody looks.

The executors append as little as they can: the inline one a clock reading per step (the end of one
step is the start of the next), the pooled one a tuple per step. Names, labels, shapes, bytes and
the time each node became ready follow from the plan and are worked out here, afterwards.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stepscope.metadata import MemoryColumns, OpColumns, TensorColumns
from stepscope.runtime.exec_graph import ExecNode, dependencies
from stepscope.runtime.plan import Plan, Step
from stepscope.runtime.program import Program

Int64s = npt.NDArray[np.int64]
clock = time.perf_counter_ns
_UNTIMED: Final = -1


def wall_offset() -> int:
    """What to add to the clock's readings to get nanoseconds since the epoch."""
    return time.time_ns() - clock()


@dataclass(slots=True)
class Trace:
    """One run's record. Times are clock readings; `offset` makes them wall-clock times."""

    plan: Plan
    level: int
    step_id: int
    offset: int
    begin: int
    end: int = 0
    fed_shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    marks: list[int] = field(default_factory=list)
    """Inline: the clock after each step, in the program's order."""
    program: Program | None = None
    events: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Pooled: (step, scheduled, start, end, thread)."""
    notes: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    """Shapes the plan could not know: (step, slot, shape)."""
    thread: int = 0
    thread_names: dict[int, str] = field(default_factory=dict)
    complete: bool = False

    def freeze(self) -> Trace:
        """A copy that a thread still running cannot change."""
        return Trace(
            self.plan, self.level, self.step_id, self.offset, self.begin, self.end,
            self.fed_shapes, list(self.marks), self.program, list(self.events), list(self.notes),
            self.thread, dict(self.thread_names), self.complete,
        )  # fmt: skip

    def executed(self) -> set[int]:
        """The steps that ran to their end."""
        return {i for i, t in enumerate(self._times()[2]) if t != _UNTIMED}

    def _times(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """(scheduled, start, end, thread) per step; end is -1 where a step did not run."""
        plan = self.plan
        count = len(plan.steps)
        start = np.full(count, _UNTIMED, dtype=np.int64)
        end = np.full(count, _UNTIMED, dtype=np.int64)
        scheduled = np.full(count, self.begin, dtype=np.int64)
        thread = np.full(count, self.thread, dtype=np.int64)
        if self.program is not None:
            done = len(self.marks)
            lines = [s.node.index for s in self.program.steps[:done]]
            marks = np.asarray([self.begin, *self.marks], dtype=np.int64)
            start[lines], end[lines] = marks[:-1], marks[1:]
        else:
            for index, ready, began, ended, tid in self.events:
                scheduled[index], start[index], end[index] = ready, began, ended
                thread[index] = tid
        self._fill_untimed(plan.steps, start, end)
        if self.program is not None:
            self._fill_scheduled(plan.nodes, scheduled, end)
        return scheduled, start, end, thread

    def _fill_untimed(self, steps: Sequence[Step], start: Int64s, end: Int64s) -> None:
        """Nodes without a call: there from the start, or (fetches) when their input is."""
        for i, step in enumerate(steps):
            if step.executes:
                continue
            if step.node.op_type == "_Retval":
                if self.complete:
                    start[i] = end[i] = max(self.end, self.begin)
            else:
                ready = [int(end[d.index]) for d in dependencies(step.node)]
                if _UNTIMED not in ready:
                    start[i] = end[i] = max(ready, default=self.begin)

    def _fill_scheduled(self, nodes: Sequence[ExecNode], scheduled: Int64s, end: Int64s) -> None:
        for i, node in enumerate(nodes):
            ready = self.begin
            for d in dependencies(node):
                t = int(end[d.index])
                ready = max(ready, t)
            scheduled[i] = ready

    def columns(self) -> OpColumns:
        """The record as columns: one row per node that ran, one `_SOURCE` per device."""
        scheduled, start, end, thread = self._times()
        steps = self.plan.steps
        rows = [i for i in np.argsort(start, kind="stable").tolist() if end[i] != _UNTIMED]
        devices = self.plan.graph.devices
        index = np.asarray(rows, dtype=np.int64)
        source_times = np.full(len(devices), self.begin + self.offset, dtype=np.int64)

        def timed(values: Int64s) -> Int64s:
            return np.concatenate([source_times, values[index] + self.offset])

        nodes = [steps[i].node for i in rows]
        return OpColumns.build(
            name=["_SOURCE"] * len(devices) + [n.name for n in nodes],
            op=["NoOp"] * len(devices) + [n.op_type for n in nodes],
            device=devices + [n.device for n in nodes],
            label=["_SOURCE = NoOp()"] * len(devices) + [n.label for n in nodes],
            thread=np.concatenate([np.full(len(devices), self.thread), thread[index]]),
            scheduled_ns=timed(scheduled),
            start_ns=timed(start),
            end_ns=timed(end),
            step=self.step_id,
            thread_names=self.thread_names,
            tensors=self._tensors(rows, len(devices)) if self.level >= 3 else None,
            memory=self._memory(rows, len(devices), start, end) if self.level >= 3 else None,
        )

    def durations(self) -> Int64s:
        """Nanoseconds per step of the plan; 0 where it did not run."""
        _, start, end, _ = self._times()
        return np.where(end == _UNTIMED, 0, end - start)

    def output_shapes(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """(step, slot) to shape, from the plan and from what was noted while it ran."""
        shapes = {
            (i, slot): shape.known
            for i, step in enumerate(self.plan.steps)
            for slot, shape in enumerate(step.shapes)
            if shape.known is not None
        }
        shapes |= {(i, slot): shape for i, slot, shape in self.notes}
        return shapes | {(i, 0): shape for i, shape in self.fed_shapes.items()}

    def _tensors(self, rows: Sequence[int], first_row: int) -> TensorColumns:
        known_shapes = self.output_shapes()
        op_index: list[int] = []
        slots: list[int] = []
        dtypes: list[int] = []
        shapes: list[tuple[int, ...]] = []
        sizes: list[int] = []
        allocated: list[int] = []
        for row, i in enumerate(rows, start=first_row):
            step = self.plan.steps[i]
            for slot, dtype in enumerate(step.node.output_dtypes):
                shape = known_shapes.get((i, slot))
                if not dtype.is_numpy_compatible:
                    continue
                known = shape if shape is not None else ()
                size = int(np.prod(known, dtype=np.int64)) * dtype.size if shape is not None else 0
                op_index.append(row)
                slots.append(slot)
                dtypes.append(dtype.base_dtype.as_datatype_enum)
                shapes.append(tuple(known))
                sizes.append(size)
                allocated.append(size if step.executes and not step.kernel.views else 0)
        return TensorColumns.build(
            op_index=op_index, slot=slots, dtype=dtypes, shape=shapes, bytes=sizes,
            allocated_bytes=allocated, allocator="cpu",
        )  # fmt: skip


    def _memory(
        self, rows: Sequence[int], first_row: int, start: Int64s, end: Int64s
    ) -> MemoryColumns:
        """Per op that allocated: its bytes, and when they were allocated and let go."""
        known_shapes = self.output_shapes()
        op_index: list[int] = []
        total: list[int] = []
        live: list[int] = []
        records: list[list[tuple[int, int]]] = []
        for row, i in enumerate(rows, start=first_row):
            step = self.plan.steps[i]
            if not step.executes:
                continue
            events: list[tuple[int, int]] = []
            for slot, group in enumerate(step.groups):
                memory = self.plan.memories[group]
                shape = known_shapes.get((i, slot))
                if memory.foreign or memory.members[0] != (i, slot) or shape is None:
                    continue
                size = int(np.prod(shape, dtype=np.int64)) * step.node.output_dtypes[slot].size
                events.append((int(start[i]) + self.offset, size))
                freed = int(end[max(i, memory.last_use)])
                if not memory.escapes and freed != _UNTIMED:
                    events.append((freed + self.offset, -size))
            if events:
                op_index.append(row)
                total.append(sum(size for _, size in events if size > 0))
                live.append(sum(size for _, size in events))
                records.append(events)
        return MemoryColumns.build(
            op_index=op_index, total_bytes=total, peak_bytes=total, live_bytes=live,
            allocator="cpu", records=records,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordingCosts:
    """What recording one step costs, measured in this process."""

    mark_ns: float
    event_ns: float


@lru_cache(maxsize=1)
def recording_costs() -> RecordingCosts:
    """Measured once per process, by running the very statements the executors run."""
    return RecordingCosts(
        mark_ns=_cost_of("append(clock())"),
        event_ns=_cost_of("a = clock(); b = clock(); append((1, a, a, b, 7))"),
    )


def _cost_of(statement: str, repeats: int = 500, rounds: int = 9) -> float:
    body = "\n".join([f"    {statement}"] * repeats)
    empty = "\n".join(["    append"] * repeats)
    local: dict[str, Any] = {}
    exec(f"def f(append, clock):\n{body}\ndef g(append, clock):\n{empty}\n", {}, local)
    samples = []
    for _ in range(rounds):
        t0 = clock()
        local["f"]([].append, clock)
        t1 = clock()
        local["g"]([].append, clock)
        t2 = clock()
        samples.append(((t1 - t0) - (t2 - t1)) / repeats)
    return max(0.0, statistics.median(samples))
