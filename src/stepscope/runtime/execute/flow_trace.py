"""The record of a run with branches and loops: a row per execution, none for what was dead."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepscope.metadata import MemoryColumns, OpColumns, TensorColumns
from stepscope.metadata.memory.allocations import ALLOCATE
from stepscope.runtime.execute.trace import Trace
from stepscope.runtime.memory.flow_memory import FlowMemory, FlowOwner
from stepscope.runtime.plan.node_table import Int64s

Shape = tuple[int, ...] | None


class FlowTrace(Trace):
    """As `Trace`, but `events` has an entry per execution.

    Each is (step, scheduled, start, end, thread, shapes of its outputs, the number that the run's
    memory knows it by); shapes are there at the full level only.
    """

    memory: FlowMemory | None = None
    """Who counts its memory, where somebody does."""

    def add(
        self, step: int, ready: int, began: int, ended: int, outputs: Sequence[Any], number: int
    ) -> None:
        """A node was executed."""
        shapes = tuple([_shape(value) for value in outputs]) if self.level >= 3 else ()
        self.events.append((step, ready, began, ended, threading.get_native_id(), shapes, number))

    def executed(self) -> int:
        """How many steps ran to their end at least once."""
        return len({event[0] for event in self.events}) + len(self.table_of().at_start)

    def durations(self) -> Int64s:
        """Nanoseconds per step, of its longest execution; 0 where it did not run."""
        longest = np.zeros(len(self.plan.steps), dtype=np.int64)
        for step, _, start, end, *_ in self.events:
            longest[step] = max(longest[step], end - start)
        return longest

    def noted_shapes(self) -> dict[tuple[int, int], tuple[int, ...]]:
        noted = {
            (event[0], slot): shape
            for event in self.events
            for slot, shape in enumerate(event[5])
            if shape is not None
        }
        return noted | {(i, 0): shape for i, shape in self.fed_shapes.items()}

    def columns(self) -> OpColumns:
        """One row per execution, by start; one `_SOURCE` per device."""
        table = self.table_of()
        sources = table.source_count
        at_start = table.at_start
        events = np.array([e[:5] for e in self.events], dtype=np.int64).reshape(-1, 5)
        order = np.argsort(events[:, 2], kind="stable")
        events = events[order]
        first = sources + len(at_start)
        begins = np.full(first, self.begin, dtype=np.int64)
        rows = np.concatenate([np.arange(sources), at_start + sources, events[:, 0] + sources])
        scheduled, start, end = (
            np.concatenate([begins, events[:, column]]) + self.offset for column in (1, 2, 3)
        )
        threads = np.concatenate([np.full(first, self.thread), events[:, 4]])
        times = scheduled, start, end
        if self.level < 3:
            return self._with_spans(table, rows, threads, times)
        tensors, memory = self._tensors(order, sources), self._memory_columns(order, first)
        return self._with_spans(table, rows, threads, times, tensors, memory)

    def _tensors(self, order: Any, sources: int) -> TensorColumns:
        at_start = self.table_of().at_start
        found: list[tuple[int, int, int, Shape, int, int]] = []
        for n, i in enumerate(at_start.tolist()):
            shape = self.fed_shapes.get(i, self.plan.steps[i].shapes[0].known)
            self._describe(found, sources + n, i, (shape,))
        first = sources + len(at_start)
        for n, event in enumerate(order.tolist()):
            self._describe(found, first + n, self.events[event][0], self.events[event][5])
        row, slot, dtype, shapes, size, fresh = zip(*found, strict=True) if found else ((),) * 6
        return TensorColumns.build(
            op_index=row, slot=slot, dtype=dtype, shape=shapes, bytes=size, allocated_bytes=fresh
        )

    def _describe(self, found: list[Any], row: int, i: int, shapes: Sequence[Shape]) -> None:
        step = self.plan.steps[i]
        fresh = step.executes and not step.kernel.views
        for slot, (dtype, shape) in enumerate(zip(step.node.output_dtypes, shapes, strict=False)):
            if shape is None or not dtype.is_numpy_compatible:
                continue
            size = math.prod(shape) * dtype.size
            number = dtype.base_dtype.as_datatype_enum
            found.append((row, slot, number, shape, size, size if fresh else 0))

    def _memory_columns(self, order: Any, first: int) -> MemoryColumns | None:
        if self.memory is None:
            return None
        row_of = {self.events[event][6]: first + n for n, event in enumerate(order.tolist())}
        records = self._records(row_of)
        rows = sorted(records)
        total = [sum(b for _, b in records[r] if b > 0) for r in rows]
        return MemoryColumns.build(
            op_index=rows,
            total_bytes=total,
            peak_bytes=total,
            live_bytes=[sum(b for _, b in records[r]) for r in rows],
            records=[records[r] for r in rows],
        )

    def _records(self, row_of: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
        """Per row, when it got how many bytes and let them go; what is fetched it keeps."""
        records: dict[int, list[tuple[int, int]]] = {}
        assert self.memory is not None
        for time, event, owner in list(self.memory.accountant.events):
            row = row_of.get(owner.execution) if isinstance(owner, FlowOwner) else None
            if row is None or (event != ALLOCATE and owner.output.kind == "output"):
                continue
            size = owner.bytes if event == ALLOCATE else -owner.bytes
            records.setdefault(row, []).append((time + self.offset, size))
        return records


def _shape(value: Any) -> Shape:
    return np.shape(value) if isinstance(value, (np.ndarray, np.generic)) else None
