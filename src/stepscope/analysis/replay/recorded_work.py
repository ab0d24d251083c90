"""A recorded run as work to be simulated: what each op took, waited for, and where it ran.

An op's delay is what lies between the moment in which it could have begun (all that it waited for
was over, and its thread free) and its beginning. What is before the first op and after the last is
the call: it is kept as it was. An op during which others began on its own thread needed no thread
for itself: it waited for something (an element, a tensor of another device) or for a function it
had called, whose ops have rows of their own. Its thread was taken while it was begun, all the same:
that is a part of the delay of the next op there, and goes if it does. A function's ops follow its
call, and the call is over when they are. What the threads of an input pipeline did meanwhile is no
part of the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stepscope.analysis.execution.edges import RECEIVES, Edges
from stepscope.analysis.program.waiting import CALLS, rows_of_pipelines
from stepscope.analysis.replay.simulation import NONE, Work, ends
from stepscope.analysis.run_length import run_span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns, RunMetadata
    from stepscope.metadata.graph_facts import GraphFacts

    Ints: TypeAlias = NDArray[np.int64]

__all__ = ["RecordedWork", "WorkReader"]


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """A run: its `work` in order of beginnings, and what the entries of it are.

    `nodes` names the node of each entry and `types` its type. `around_ns` is what the call took
    before its first op and after its last, `recorded_ns` how long the run took as its caller saw
    it. `begun_meanwhile` has, by entries, those that began to wait on its thread during its delay.
    """

    work: Work
    nodes: Sequence[str]
    types: Sequence[str]
    around_ns: int
    recorded_ns: int
    begun_meanwhile: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def replayed_ns(self) -> float:
        """How long the simulation says that the run took, without any change."""
        return self.around_ns + max(ends(self.work), default=0.0)


class WorkReader:
    """Reads runs; the edges of a graph whose nodes ran once each are worked out once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[GraphFacts, dict[int, list[int]]]] = {}

    def read(self, run: RunMetadata) -> RecordedWork:
        """The run as work; an empty one where it has no ops."""
        ops = run.ops
        beside = rows_of_pipelines(ops)
        if beside.any():
            ops = ops[np.flatnonzero(~beside)]
        began, ended = run_span(run)
        if not len(ops):
            return RecordedWork(Work([], [], [], []), (), (), ended - began, ended - began)
        order = np.lexsort((ops.end_ns, ops.start_ns))
        before = self._before(ops)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ranks = rank.tolist()
        starts = (ops.start_ns[order] - began).tolist()
        lasts = (np.maximum(ops.end_ns, ops.start_ns)[order] - began).tolist()
        _, lanes = np.unique(ops.thread[order], return_inverse=True)
        known = (ops.thread[order] != 0).tolist()
        threads = [
            lane if is_known else NONE for lane, is_known in zip(lanes.tolist(), known, strict=True)
        ]
        kinds = ops.op[order].tolist()
        waits = [[ranks[r] for r in before[row]] for row in order.tolist()]
        waiting = _without_thread(starts, lasts, threads)
        begun, lanes_of = list(starts), list(threads)
        for op, mine in enumerate(waits):
            if kinds[op] in RECEIVES:
                # It began to wait long before there was something to receive, and may be over
                # before the send is: then it is what the send waited for that it waited for.
                overlapping = [r for r in mine if lasts[r] > lasts[op]]
                mine = [r for r in mine if lasts[r] <= lasts[op]]
                mine += [earlier for r in overlapping for earlier in waits[r]]
                sent = [*(lasts[r] for r in mine), *(starts[r] for r in overlapping)]
                starts[op] = min(lasts[op], max(sent, default=starts[op]))
                waiting.add(op)
            # What was not over when an op began it did not wait for.
            waits[op] = [r for r in mine if lasts[r] <= starts[op]]
        threads = [NONE if i in waiting else thread for i, thread in enumerate(threads)]
        table, codes = ops.names.table, ops.names.codes[order].tolist()
        names = [table[code] for code in codes]
        made = _Parts(starts, lasts, waits, threads)
        made.enter_calls(names, kinds, waiting)
        work = made.work(max(threads, default=0) + 1)
        around = max(0, min(starts)) + max(0, ended - began - max(lasts))
        spare = len(work.lengths) - len(names)
        return RecordedWork(
            work, (*names, *[""] * spare), (*kinds, *[""] * spare), around, ended - began,
            made.begun_meanwhile(work, [(begun[op], lanes_of[op], op) for op in sorted(waiting)]),
        )  # fmt: skip

    def _before(self, ops: OpColumns) -> list[list[int]]:
        """For each row the rows that it waited for."""
        facts, nodes = ops.facts, ops.node.tolist()
        rows = {node: row for row, node in enumerate(nodes)}
        if len(rows) < len(nodes) or len(np.unique(ops.step)) > 1:
            return Edges.of(ops).before
        known = self._known.get(id(facts))
        if known is None or any(node not in known[1] for node in rows):
            before = Edges.of(ops).before
            by_node = {} if known is None else known[1]
            for row, node in enumerate(nodes):
                by_node[node] = [nodes[earlier] for earlier in before[row]]
            self._known[id(facts)] = (facts, by_node)
            return before
        by_node = known[1]
        return [[rows[n] for n in by_node[node] if n in rows] for node in nodes]


def _without_thread(
    starts: Sequence[int], lasts: Sequence[int], threads: Sequence[int]
) -> set[int]:
    """The ops during which another began on their thread."""
    found: set[int] = set()
    open_op: dict[int, list[int]] = {}
    for op, thread in enumerate(threads):
        if thread == NONE:
            continue
        stack = open_op.setdefault(thread, [])
        while stack and lasts[stack[-1]] <= starts[op]:
            stack.pop()
        found.update(stack)
        stack.append(op)
    return found


class _Parts:
    """What a simulation needs, put together from what was recorded."""

    def __init__(
        self,
        starts: list[int],
        lasts: list[int],
        waits: list[list[int]],
        threads: list[int],
    ) -> None:
        self._starts, self._lasts = starts, lasts
        self._waits, self._threads = waits, threads

    def enter_calls(self, names: Sequence[str], kinds: Sequence[str], waiting: set[int]) -> None:
        """Split each call whose ops have rows into its beginning and its end."""
        calls = [op for op in sorted(waiting) if kinds[op] in CALLS]
        if not calls:
            return
        ending: dict[int, int] = {}
        for call in calls:
            start, last, scope = self._starts[call], self._lasts[call], names[call] + "/"
            inside = [
                op for op in range(call + 1, len(names))
                if self._starts[op] < last and self._lasts[op] <= last
                and names[op].startswith(scope)
            ]  # fmt: skip
            if not inside:
                continue
            for op in inside:
                if not self._waits[op]:
                    self._waits[op] = [call]
            end = len(self._starts)
            ending[call] = end
            self._starts.append(max(self._lasts[op] for op in inside))
            self._lasts.append(last)
            self._waits.append(inside)
            self._threads.append(NONE)
            self._lasts[call] = start
        bodies = {op for end in ending.values() for op in self._waits[end]}
        for op, mine in enumerate(self._waits):
            if op not in ending.values() and op not in bodies:
                self._waits[op] = [ending.get(earlier, earlier) for earlier in mine]

    def work(self, workers: int) -> Work:
        """With the delays that the beginnings as recorded tell."""
        free: Counter[int] = Counter()
        begin = min(self._starts, default=0)
        delays: list[float] = [0.0] * len(self._starts)
        order = sorted(range(len(self._starts)), key=lambda op: (self._starts[op], op))
        for op in order:
            thread, start = self._threads[op], self._starts[op]
            could = max((self._lasts[r] for r in self._waits[op]), default=begin)
            if thread != NONE:
                could = max(could, free.get(thread, begin))
                free[thread] = max(could, self._lasts[op])
            delays[op] = max(0, start - could)
        lengths = [last - start for start, last in zip(self._starts, self._lasts, strict=True)]
        return Work(lengths, delays, self._waits, self._threads, workers)

    def begun_meanwhile(
        self, work: Work, waiting: Sequence[tuple[int, int, int]]
    ) -> dict[int, list[int]]:
        """By ops those that began to wait on the same thread during their delay.

        Of each that waits: when it began, on which thread, and its place.
        """
        found: dict[int, list[int]] = {}
        by_thread: dict[int, list[tuple[int, int]]] = {}
        for when, thread, op in waiting:
            by_thread.setdefault(thread, []).append((when, op))
        for thread, mine in by_thread.items():
            mine.sort()
            times = [when for when, _ in mine]
            for op, delay in enumerate(work.delays):
                if self._threads[op] != thread or not delay:
                    continue
                first = bisect_left(times, self._starts[op] - delay)
                last = bisect_left(times, self._starts[op])
                if last > first:
                    found[op] = [other for _, other in mine[first:last]]
        return found
