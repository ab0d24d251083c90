"""The events of a host's threads that mean something, as columns, and what can be read of them so.

Rows stand thread after thread, in order of time, outer ones first. Nearly all executions look the
same, and those are read in bulk, as columns; what is left (`odd`) is walked through event by event
(`thread_walk`), with the same result. Read in bulk are

- a kernel that ended before the executor's mark of it, which comes next;
- a kernel with nothing inside that no mark names: in a profile of TensorFlow's own, which has no
  marks, those are nearly all of them. Outside of an executor's span they count on the threads of
  TensorFlow's pools, where nobody else leaves spans of that form: a span is recorded when it ends,
  so an executor that is still at work when the profiler stops leaves its kernels and no span
  around them. Of these the step is not known;
- a kernel with nothing inside after which the thread goes on with another one, though a mark
  elsewhere names it: an asynchronous one;
- an eager op outside of any executor.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.cached_property import cached_property
from stepscope.metadata.xplane.event_names import (
    DONE,
    EAGER_CALL,
    EAGER_OP,
    KERNEL,
    NOTHING,
    PIPELINE_CALL,
    PROCESS,
    RUN_MARK,
    STARTS,
    Meaning,
    meaning_of,
)
from stepscope.metadata.xplane.space import DEVICE_STAT, Plane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_POOL_THREAD: Final = "tf_"
_STRETCH: Final = 1 << 16
_LATEST: Final = (1 << 63) - 1
_TABLE: Final = 1 << 20
"""Numbers of names below this are looked up in a table; TensorFlow counts from 1."""


class HostEvents:
    """The events of one plane of a host."""

    def __init__(self, plane: Plane, origins: Sequence[int], first_line: int = 0) -> None:
        """`origins` are the times from which each line counts; lines are numbered on from there."""
        columns = plane.columns
        self._plane = plane
        self.count = len(columns.metadata_id)
        """How many events the threads left, of whatever kind."""
        numbers, name = _distinct(columns.metadata_id)
        self.meanings = [meaning_of(plane.names.get(number, "")) for number in numbers.tolist()]
        """What each distinct event is; `name` is the number of the one of each row."""
        kinds = np.array([kind for kind, _, _ in self.meanings], np.int8)
        line_of = np.repeat(np.arange(len(columns.counts), dtype=np.int32), columns.counts)
        rows = np.flatnonzero((kinds != NOTHING)[name])
        self.on_pool = np.array([n.name.startswith(_POOL_THREAD) for n in plane.lines], bool)
        """Whether each line is that of one of TensorFlow's own threads."""
        rows = rows[self._counts_somewhere(self.on_pool, kinds, name[rows], line_of[rows])]
        order = (-columns.duration_ps[rows], columns.offset_ps[rows], line_of[rows])
        self._rows = rows = rows[np.lexsort(order)]
        del order
        self.name: NDArray[np.int32] = name[rows].astype(np.int32)
        self.kind = kinds[self.name]
        self.line: NDArray[np.int32] = line_of[rows]
        self.first_line = first_line
        self.start_ps = columns.offset_ps[rows]
        self.end_ps = self.start_ps + columns.duration_ps[rows]
        self._origin = np.array(origins, np.int64)
        self._read_stats()
        self.inside = self._find_inside()
        self._sort()

    @staticmethod
    def _counts_somewhere(
        on_pool: Flags, kinds: NDArray[np.int8], name: Ints, line: NDArray[np.int32]
    ) -> Flags:
        """Which events can count: where there are no marks, kernels of some threads cannot."""
        found = np.ones(len(name), bool)
        if (kinds[name] == DONE).any():
            return found
        wanted = on_pool.copy()
        others = kinds[name]
        wanted[line[(others == PROCESS) | (others == EAGER_CALL)]] = True
        found[(others == KERNEL) & ~wanted[line]] = False
        return found

    def _read_stats(self) -> None:
        stats = self._plane.stats_of(self._rows)
        kind = self.kind
        self.step = stats.numbers("id")
        """The step that the event names; 0 for none."""
        self.is_function: Flags = stats.given("is_func")
        self._stats = stats
        self.node: dict[int, str] = {}
        """Which node the executor says is done, by row."""
        done = np.flatnonzero(kind == DONE)
        if len(done):
            texts = stats.texts("kernel_name")[done].tolist()
            self.node = {row: text for row, text in zip(done.tolist(), texts, strict=True) if text}

    @cached_property
    def shapes(self) -> NDArray[np.object_]:
        """The types and shapes of a kernel's inputs as the profiler writes them, or ""."""
        return self._stats.texts("shape")

    @cached_property
    def devices(self) -> NDArray[np.object_] | None:
        """The device that each row names, "" for none; None where no row does."""
        if DEVICE_STAT not in self._plane.stat_names.values():
            return None
        return self._stats.texts(DEVICE_STAT)

    def __len__(self) -> int:
        return len(self.kind)

    def times_ns(self, rows: Any) -> tuple[Ints, Ints]:
        """Begin and end of some rows in nanoseconds since the epoch."""
        origin = self._origin[self.line[rows]]
        return origin + self.start_ps[rows] // 1000, origin + self.end_ps[rows] // 1000

    def around(self, rows: Ints) -> Ints:
        """The steps of the executor spans around some rows."""
        steps: Ints = self.step[self.inside[rows]]
        return steps

    def meaning(self, row: int) -> Meaning:
        """What one row is."""
        return self.meanings[int(self.name[row])]

    @cached_property
    def line_bounds(self) -> Ints:
        """Where the rows of each line begin, and where the last ones end."""
        return np.searchsorted(self.line, np.arange(len(self._origin) + 1))

    def _find_inside(self) -> NDArray[np.int32]:
        """For each row the row of the innermost executor span around it; -1 for none."""
        spans = np.flatnonzero(self.kind == PROCESS)
        found = np.full(len(self), -1, np.int32)
        lines, begins = np.unique(self.line[spans], return_index=True)
        bounds = [*begins.tolist(), len(spans)]
        for line, (begin, end) in zip(lines.tolist(), pairwise(bounds), strict=True):
            first, last = self.line_bounds[line : line + 2].tolist()
            found[first:last] = self._innermost_spans(spans[begin:end], first, last)
        return found

    def _innermost_spans(self, spans: Ints, first: int, last: int) -> NDArray[np.int32]:
        """The same for the rows of one line, which has these spans."""
        # Each change of the innermost span: the row it is at, or the time at which one ended.
        rows, ends, innermost = array("q"), array("q"), array("q")
        open_spans: list[tuple[int, int]] = []

        def close(before: int) -> None:
            """Leave the spans that end up to then."""
            while open_spans and open_spans[-1][0] <= before:
                end = open_spans.pop()[0]
                while open_spans and open_spans[-1][0] <= end:
                    open_spans.pop()
                rows.append(-1)
                ends.append(end)
                innermost.append(open_spans[-1][1] if open_spans else -1)

        for begin in range(0, len(spans), _STRETCH):
            part = spans[begin : begin + _STRETCH]
            columns = (part, self.start_ps[part], self.end_ps[part])
            for row, start, end in zip(*(column.tolist() for column in columns), strict=True):
                close(start)
                open_spans.append((end, row))
                rows.append(row + 1 - first)
                ends.append(0)
                innermost.append(row)
        close(_LATEST)
        changes = np.array(rows)
        by_time = changes < 0
        starts = self.start_ps[first:last]
        changes[by_time] = np.searchsorted(starts, np.array(ends)[by_time])
        at = np.searchsorted(changes, np.arange(last - first), side="right")
        inner = np.concatenate(([-1], innermost)).astype(np.int32)
        result: NDArray[np.int32] = inner[at]
        return result

    def _sort(self) -> None:
        """Find what can be read in bulk, and what is odd."""
        kind, count = self.kind, len(self)
        is_kernel = kind == KERNEL
        last_of_line = np.ones(count, bool)
        last_of_line[:-1] = self.line[1:] != self.line[:-1]
        alone = last_of_line.copy()
        alone[:-1] |= self.start_ps[1:] >= self.end_ps[:-1]
        self.marked_nodes = set(self.node.values())
        """The nodes that marks name."""
        unmarked_names = np.array(
            [node not in self.marked_nodes for _, node, _ in self.meanings], bool
        )
        unmarked = is_kernel & alone & unmarked_names[self.name]
        # The thread went on with another kernel: the mark, if there is one, comes from elsewhere.
        next_is_kernel = last_of_line.copy()
        next_is_kernel[:-1] |= is_kernel[1:]
        left = is_kernel & alone & next_is_kernel & ~unmarked
        self.pairs = self._pairs(last_of_line)
        """The kernels whose mark comes next."""
        eager_is_op, in_function = self._eager_calls()
        within = self.inside >= 0
        self.unmarked = np.flatnonzero(unmarked & within)
        """The kernels in an executor's span that no mark names."""
        self.left = np.flatnonzero(left & within)
        """Those that a mark elsewhere names: asynchronous ones."""
        on_pool = self.on_pool
        compiled = np.array([node == op for _, node, op in self.meanings], bool)
        outside = (unmarked | left) & ~within & ~(compiled[self.name] & in_function)
        self.has_marks = bool((kind == DONE).any())
        self.unplaced = np.flatnonzero(outside & unmarked & on_pool[self.line])
        """Those outside of any, of TensorFlow's own threads."""
        eager = (kind == EAGER_OP) & eager_is_op
        odd = np.ones(count, bool)
        odd[self.pairs] = False
        odd[(unmarked | left) & within] = False
        odd[outside | (kind == EAGER_CALL) | ((kind == EAGER_OP) & ~eager)] = False
        odd[(kind == RUN_MARK) | (kind == DONE)] = False
        odd[((kind == STARTS) | (kind == PIPELINE_CALL)) & (self.step == 0)] = False
        odd[list(self.node)] = True
        odd[self.pairs + 1] = False
        with_kernels = np.zeros(len(self._origin), bool)
        with_kernels[self.line[odd & is_kernel]] = True
        self.eager = np.flatnonzero(eager & ~within & ~with_kernels[self.line])
        """The eager ops outside of executors."""
        odd[self.eager] = False
        # A line with nothing odd but executors' own spans needs no walk.
        to_walk = np.zeros(len(self._origin), bool)
        to_walk[self.line[odd & (kind != PROCESS)]] = True
        self.odd = np.flatnonzero(odd & to_walk[self.line])
        """The rows to be walked through."""
        self.in_function = in_function

    def _pairs(self, last_of_line: Flags) -> Ints:
        """Where a kernel is that ended before the executor's mark of it, which comes next.

        A mark that comes after the executor has left the thread is another matter: the kernel was
        asynchronous, and its end is the mark.
        """
        kind = self.kind
        found = (kind[:-1] == KERNEL) & (kind[1:] == DONE) & ~last_of_line[:-1]
        found &= self.end_ps[:-1] // 1000 <= self.start_ps[1:] // 1000
        found &= self.inside[:-1] == self.inside[1:]
        places = np.flatnonzero(found)
        kernels = zip(places.tolist(), self.name[places].tolist(), strict=True)
        same = [self.node.get(row + 1) == self.meanings[name][1] for row, name in kernels]
        marked: Ints = places[np.array(same, bool)]
        return marked

    def _eager_calls(self) -> tuple[Flags, Flags]:
        """Per row: whether eager code called an op last, and whether it is inside such a call of
        a function.
        """
        calls = np.flatnonzero(self.kind == EAGER_CALL)
        is_op, in_function = np.ones(len(self), bool), np.zeros(len(self), bool)
        if not len(calls):
            return is_op, in_function
        last = np.searchsorted(calls, np.arange(len(self)), side="right") - 1
        call = calls[np.maximum(last, 0)]
        known = (last >= 0) & (self.line[call] == self.line)
        is_op = ~(known & self.is_function[call])
        in_function = ~is_op & (self.start_ps < self.end_ps[call])
        return is_op, in_function

    def marks(self) -> dict[str, tuple[int, int, int]]:
        """The runs of Stepscope's that are marked: line, begin and end by the text of the mark."""
        rows = np.flatnonzero(self.kind == RUN_MARK)
        starts, ends = (times.tolist() for times in self.times_ns(rows))
        lines = (self.first_line + self.line[rows]).tolist()
        names = (self.meaning(row)[1] for row in rows.tolist())
        return dict(zip(names, zip(lines, starts, ends, strict=True), strict=True))

    def started(self) -> set[int]:
        """The steps that threads asked for."""
        return set(np.unique(self.step[self.kind == STARTS]).tolist())


def _distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """The distinct numbers in their order, and for each number which of them it is."""
    if not len(numbers) or numbers.min() < 0 or numbers.max() >= _TABLE:
        found, which = np.unique(numbers, return_inverse=True)
        return found, which
    found = np.flatnonzero(np.bincount(numbers))
    table = np.zeros(int(found[-1]) + 1, np.int64)
    table[found] = np.arange(len(found))
    return found, table[numbers]
