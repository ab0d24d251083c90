"""The chain of ops and waits that decided how long a run took.

From the op that ended last, back: each op began when the last of its inputs was there, so that
input's end is what it waited for. Of inputs that one thread made, which was last says only in which
order the thread took them; the one with the most work behind it is what the op waited for. So of
tensors from other tasks that were received at one moment: the one that was sent last. The path
fills the run from its first moment to its last; what lies between two ops of it is a wait. Where no
inputs are known (eager code), an op follows the one that was over on its thread before it was asked
for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from stepscope.analysis.cluster.messages import COLLECTIVE
from stepscope.analysis.cluster.tasks import task_column
from stepscope.analysis.execution.edges import RECEIVES, SENDS, Edges
from stepscope.analysis.execution.thread_order import EndOrder, ThreadOrder
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import named_runs

if TYPE_CHECKING:
    from typing import Any

    from stepscope.metadata import OpColumns

Kind: TypeAlias = Literal["executing", "transfer", "queue", "scheduled", "waiting"]

_SAVINGS = 10
_AT_ONCE_NS = 1000
"""An op may be said to be ready this long before what made it ready is said to be over."""
_RECEIVED_TOGETHER_NS = 1_000_000
"""A busy task finds tensors that came long before only when it reads the one that came last."""


@dataclass(frozen=True, slots=True)
class PathPart:
    """A part of the path.

    `kind` is "executing" (the op ran), "transfer" (a send, receive or collective ran), "queue" (it
    waited in a queue op), "scheduled" (the op, or another input of it, was ready and not yet
    running: `blocked_by` names what ran on its thread meanwhile) or "waiting" (its inputs were
    there, and it was not ready yet: the engine's own work, or what was not recorded).
    """

    kind: Kind
    name: str
    op: str
    device: str
    start_ns: int
    end_ns: int
    blocked_by: str = ""

    @property
    def ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Saving:
    """What the run would gain if a node were 10% faster, all else as it was."""

    name: str
    op: str
    path_ns: int
    saved_ns: int


@dataclass(frozen=True, slots=True)
class CriticalPath(Result):
    """The path from the run's beginning to its end, in order of time.

    `length_ns` is how long it is: from when the first op was ready to the end of the last, which is
    less than the length of the run; `by_kind` splits it. `savings`
    tells for the nodes that take the most time of the path what a 10% faster one would save: less
    than a tenth of it where another path is nearly as long.
    """

    rows: tuple[PathPart, ...]
    length_ns: int
    by_kind: dict[str, int]
    savings: tuple[Saving, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The ops of the path in order."""
        ran = [part.name for part in self.rows if part.kind not in ("scheduled", "waiting")]
        return tuple(ran)


def critical_path(run: Any) -> CriticalPath:
    """The critical path of one run. Several runs are an error: choose one."""
    runs = named_runs(run)
    if len(runs) != 1:
        raise ValueError(
            f"critical_path takes one run and was given {len(runs)}: choose one of them"
        )
    ops = runs[0].metadata.ops
    if not len(ops):
        return made_of(CriticalPath((), 0, {}, ()), run)
    edges = Edges.of(ops)
    rows = _walk_back(ops, edges)
    begin = int(min(ops.start_ns.min(), ops.scheduled_ns.min()))
    parts = _parts(ops, rows, begin)
    spent: Counter[str] = Counter()
    for part in parts:
        spent[part.kind] += part.ns
    length = max(int(ops.end_ns.max()) - begin, 0)
    return made_of(
        CriticalPath(tuple(parts), length, dict(spent), _savings(ops, edges, parts, begin)), run
    )


def _walk_back(ops: OpColumns, edges: Edges) -> list[int]:
    """The rows of the path, first to last."""
    ends, starts = ops.end_ns, ops.start_ns
    # Of several that end last, one that took time says more than a marker that took none.
    last = int(ends.max())
    row = max(np.flatnonzero(ends == last).tolist(), key=lambda r: ends[r] - starts[r])
    path = [row]
    seen = {row}
    waits = WaitedFor(ops, edges)
    while (row := waits.before(row)) >= 0 and row not in seen:
        seen.add(row)
        path.append(row)
    return path[::-1]


class WaitedFor:
    """What each execution waited for."""

    def __init__(self, ops: OpColumns, edges: Edges) -> None:
        self._ops, self._edges = ops, edges
        self._work = _work(ops, edges)
        self._issued = _Issued(ops)
        self._tasks = task_column(ops).codes

    def before(self, row: int) -> int:
        """The execution that one waited for; -1 where it waited for none that was recorded."""
        ends, starts, threads = self._ops.end_ns, self._ops.start_ns, self._ops.thread
        before = self._edges.before[row] or self._issued.before(row)
        if not before:
            return -1
        latest = max(before, key=lambda r: (ends[r], ends[r] - starts[r]))
        if self._sent_ns(latest):
            since = ends[latest] - _RECEIVED_TOGETHER_NS
            received = [r for r in before if ends[r] >= since and self._sent_ns(r)]
            return max(received, key=lambda r: (self._sent_ns(r), ends[r]))
        thread = threads[latest]
        together = [r for r in before if thread and threads[r] == thread]
        return max(together or [latest], key=lambda r: (self._work[r], ends[r]))

    def _sent_ns(self, receive: int) -> int:
        """When a tensor from another task was there to be sent; 0 of all that is none."""
        if str(self._ops.op[receive]) not in RECEIVES:
            return 0
        sent = [r for r in self._edges.before[receive] if self._tasks[r] != self._tasks[receive]]
        return max((int(self._ops.end_ns[r]) for r in sent), default=0)


class _Issued:
    """What was over before an op without known inputs was even asked for, on its thread.

    Eager code has no edges: its ops follow each other because the program says so. Where threads
    are not known, as in TensorFlow's own step stats, it is what was over in its task just when the
    op became ready: labels do not tell the control inputs that a constant may wait for.
    """

    def __init__(self, ops: OpColumns) -> None:
        self._ops = ops
        self._begin = min(ops.start_ns.min(), ops.scheduled_ns.min())
        self._by_thread = EndOrder(ops, ops.thread)
        pairs = np.stack([task_column(ops).codes, ops.step])
        _, place = np.unique(pairs, axis=1, return_inverse=True)
        self._place = place.reshape(-1).astype(np.int64)
        self._by_place = EndOrder(ops, self._place)

    def before(self, row: int) -> list[int]:
        ops = self._ops
        ready, start = int(ops.scheduled_ns[row]), int(ops.start_ns[row])
        if ready <= self._begin:
            return []  # it was ready from the beginning
        if ops.thread[row]:
            return self._by_thread.last_over(int(ops.thread[row]), ready, start)
        if str(ops.op[row]) in RECEIVES:
            return []
        return self._by_place.last_over(int(self._place[row]), ready + _AT_ONCE_NS, start)


def _work(ops: OpColumns, edges: Edges) -> list[int]:
    """For each execution the most work on any way that leads through it: its own the last."""
    lengths = np.maximum(ops.end_ns - ops.start_ns, 0).tolist()
    work = [0] * len(lengths)
    for row in np.lexsort((ops.start_ns, ops.end_ns)).tolist():
        work[row] = lengths[row] + max((work[r] for r in edges.before[row]), default=0)
    return work


def _parts(ops: OpColumns, rows: list[int], begin: int) -> list[PathPart]:
    threads = ThreadOrder(ops)
    parts: list[PathPart] = []
    reached = begin
    for row in rows:
        name, op, device = str(ops.name[row]), str(ops.op[row]), str(ops.device[row])
        start, end, thread = int(ops.start_ns[row]), int(ops.end_ns[row]), int(ops.thread[row])
        if op == "RecvTensor" and parts:
            start = min(start, max(reached, begin))  # when it was sent; its row tells the end alone
        ready = min(max(int(ops.scheduled_ns[row]), reached), start)
        if ready > reached and parts and threads.busy_with(thread, reached, ready):
            ready = reached  # another input of it was still to be made
        if ready > reached:
            parts.append(PathPart("waiting", name, op, device, reached, ready))
        if start > ready:
            by = threads.busy_with(thread, ready, start)
            parts.append(PathPart("scheduled", name, op, device, ready, start, by))
        first = max(start, min(reached, end))
        if end > first or not parts:
            parts.append(PathPart(_kind(op), name, op, device, first, max(first, end)))
        elif end >= reached:
            parts.append(PathPart(_kind(op), name, op, device, end, end))
        reached = max(reached, end)
    return parts


def _kind(op: str) -> Kind:
    if op in SENDS or op in RECEIVES or COLLECTIVE.match(op):
        return "transfer"
    if "Dequeue" in op or "Enqueue" in op or op == "IteratorGetNext":
        return "queue"
    return "executing"


def _savings(ops: OpColumns, edges: Edges, parts: list[PathPart], begin: int) -> tuple[Saving, ...]:
    spent: Counter[str] = Counter()
    for part in parts:
        if part.kind == "executing" and part.ns:
            spent[part.name] += part.ns
    model = _Replay(ops, edges, begin)
    types = {part.name: part.op for part in parts}
    savings = [
        Saving(name, types[name], ns, model.saved(name)) for name, ns in spent.most_common(_SAVINGS)
    ]
    return tuple(sorted(savings, key=lambda saving: (-saving.saved_ns, saving.name)))


class _Replay:
    """The run again, with other lengths: ops keep their order on a thread and their delays."""

    def __init__(self, ops: OpColumns, edges: Edges, begin: int) -> None:
        self._names = ops.names
        self._order = np.lexsort((ops.end_ns, ops.start_ns)).tolist()
        # Relative to the beginning: a float cannot hold the time of day to the nanosecond.
        self._ends: list[int] = (ops.end_ns - begin).tolist()
        self._lengths = np.maximum(ops.end_ns - ops.start_ns, 0)
        starts, threads = (ops.start_ns - begin).tolist(), ops.thread.tolist()
        latest: dict[int, int] = {}
        self._before: list[list[int]] = [[] for _ in starts]
        self._delay = [0] * len(starts)
        for row in self._order:
            # What began later cannot have been waited for.
            before = [r for r in edges.before[row] if self._ends[r] <= starts[row]]
            previous = latest.get(threads[row]) if threads[row] else None
            if previous is not None and self._ends[previous] <= starts[row]:
                before.append(previous)
            latest[threads[row]] = row
            self._before[row] = before
            ready = max((self._ends[r] for r in before), default=0)
            self._delay[row] = starts[row] - ready

    def saved(self, name: str) -> int:
        """What a 10% faster node would save."""
        code = self._names.table.index(name)
        lengths = np.where(self._names.codes == code, self._lengths * 0.9, self._lengths).tolist()
        ends = [0.0] * len(lengths)
        for row in self._order:
            ready = max((ends[r] for r in self._before[row]), default=0.0)
            ends[row] = ready + self._delay[row] + lengths[row]
        return max(0, round(max(self._ends) - max(ends)))
