"""Who kept the others waiting in a step, and what that cost.

Times are by one clock (`Clocks.apply`). A task waits while none of its ops runs and then goes on
when a tensor or a collective is there. Until that tensor was made it waited for the task that made
it, and from then on for the way between them. If that task was itself waiting meanwhile, what it
waited for is to blame. Where a task waits for several others, the last is to blame only for what it
was later than most of the others: that all of them take their time is no one's fault.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.cluster.messages import Traffic
    from stepscope.metadata import OpColumns

__all__ = ["Straggler", "idle_of", "stragglers"]

_DEEPEST = 8
_SMALLEST = 0.01
"""Waits that are a smaller part of what they explain are put on the task itself."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """What the others waited for most in a step.

    `kind` is "task" (`name` was late with its tensors) or "link" (`name` is "worker:1 -> ps:0":
    tensors took long from one to the other; "collective NAME" for one among all). `cost_ns` is the
    longest that one of the others stood still for it: how much sooner that one could have gone on.
    `waited_ns` sums up all `waiting` of them. `length_ns` is the length of the step.
    """

    run: str
    step: int
    kind: str
    name: str
    cost_ns: int
    waited_ns: int
    waiting: int
    length_ns: int

    @property
    def share(self) -> float:
        """The part of the step that it cost."""
        return self.cost_ns / self.length_ns if self.length_ns else 0.0


class _Wait(NamedTuple):
    """A task stood still from `begin` to `end`; `made` is when what it waited for was made.

    `fair` is when most of the others it waited for were done.
    """

    task: str
    begin: int
    made: int
    end: int
    fair: int
    source: str
    link: str


class _Arrival(NamedTuple):
    end: int
    made: int
    source: str
    link: str
    message: int
    """The number of the message, -1 for a collective."""


def idle_of(ops: OpColumns, found: Traffic) -> tuple[list[int], list[_Wait]]:
    """How long each message left its receiver without work, and all waits, by time."""
    arrivals = _arrivals(ops, found)
    idle = [0] * len(found.messages)
    waits = []
    fair = _fair(found)
    for task, begin, end in _gaps(ops, found):
        known = arrivals.get(task)
        if known is None:
            continue
        place = bisect_right(known, end, key=lambda arrival: arrival.end) - 1
        if place < 0 or known[place].end <= begin:
            continue
        last = known[place]
        if last.message >= 0:
            idle[last.message] += last.end - begin
        limit = begin
        if last.message >= 0:
            limit = max(begin, fair.get(last.message, begin))
        waits.append(_Wait(task, begin, last.made, last.end, limit, last.source, last.link))
    waits += _collective_waits(found)
    return idle, waits


def stragglers(run: str, ops: OpColumns, waits: list[_Wait]) -> Iterator[Straggler]:
    """Of each step of a run, what cost the most; none where nobody waited."""
    if not waits:
        return
    by_task: dict[str, list[_Wait]] = defaultdict(list)
    for wait in sorted(waits, key=lambda w: w.begin):
        by_task[wait.task].append(wait)
    blame = _Blame(by_task)
    steps = np.unique(ops.step)
    for step in steps.tolist():
        rows = ops.step == step if len(steps) > 1 else slice(None)
        begin, end = int(ops.start_ns[rows].min()), int(ops.end_ns[rows].max())
        sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for wait in waits:
            if begin <= wait.begin < end:
                for culprit, ns in blame.of(wait).items():
                    if culprit[1] != wait.task:
                        sums[culprit][wait.task] += ns
        if not sums:
            continue
        (kind, name), waited = max(
            sums.items(), key=lambda item: (max(item[1].values()), item[1].total(), item[0])
        )
        cost = max(waited.values())
        if cost > 0:
            yield Straggler(run, step, kind, name, cost, waited.total(), len(waited), end - begin)


class _Blame:
    """Follows waits to what they come from."""

    def __init__(self, by_task: dict[str, list[_Wait]]) -> None:
        self._by_task = by_task

    def of(self, wait: _Wait) -> Counter[tuple[str, str]]:
        """Who is to blame for a wait, and for how much of it."""
        found: Counter[tuple[str, str]] = Counter()
        self._follow(wait, wait.fair, wait.end, _DEEPEST, found)
        return found

    def _follow(
        self, wait: _Wait, begin: int, end: int, depth: int, found: Counter[tuple[str, str]]
    ) -> None:
        made = min(max(wait.made, begin), end)
        if end > made:
            found["link", wait.link] += end - made
        if made > begin:
            self._of_task(wait.source, begin, made, depth, found)

    def _of_task(
        self, task: str, begin: int, end: int, depth: int, found: Counter[tuple[str, str]]
    ) -> None:
        own = end - begin
        waits = self._by_task.get(task, []) if depth else []
        place = max(bisect_left(waits, begin, key=lambda w: w.begin) - 1, 0)
        while place < len(waits) and waits[place].begin < end:
            wait = waits[place]
            first, last = max(wait.fair, begin), min(wait.end, end)
            place += 1
            if last - first > _SMALLEST * (end - begin):
                self._follow(wait, first, last, depth - 1, found)
                own -= last - first
        if own > 0:
            found["task", task] += own


def _arrivals(ops: OpColumns, found: Traffic) -> dict[str, list[_Arrival]]:
    by_task: dict[str, list[_Arrival]] = defaultdict(list)
    for number, message in enumerate(found.messages):
        made = message.sent_ns if message.producer >= 0 else message.began_ns
        link = f"{message.source} -> {message.target}"
        by_task[message.target].append(
            _Arrival(int(ops.end_ns[message.receive]), made, message.source, link, number)
        )
    for arrivals in by_task.values():
        arrivals.sort(key=lambda arrival: arrival.end)
    return by_task


def _fair(found: Traffic) -> dict[int, int]:
    """By message when most of the other senders to the same task were done in that step."""
    sent: dict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for message in found.messages:
        if message.producer >= 0:
            done = sent[message.step, message.target]
            done[message.source] = max(done.get(message.source, 0), message.sent_ns)
    fair = {}
    middles = {key: _middles(list(done.values())) for key, done in sent.items() if len(done) > 1}
    for number, message in enumerate(found.messages):
        middle = middles.get((message.step, message.target))
        if middle is not None and message.producer >= 0:
            done = sent[message.step, message.target]
            fair[number] = middle[done[message.source] >= middle[2]]
    return fair


def _middles(times: list[int]) -> tuple[int, int, int]:
    """The middle of all but the first, the middle of all but the last, and the last."""
    times.sort()
    return median_low(times[1:]), median_low(times[:-1]), times[-1]


def _gaps(ops: OpColumns, found: Traffic) -> Iterator[tuple[str, int, int]]:
    """When no op of a task ran, between its first row and its last one; by task and time."""
    if not found.messages:
        return
    busy = np.ones(len(ops), bool)
    busy[[message.receive for message in found.messages]] = False
    for together in found.collectives:
        busy[list(together.rows)] = False
    begin, end = int(ops.start_ns.min()), int(ops.end_ns.max())
    tasks = found.tasks
    count, span = len(tasks.table), end - begin + 1
    # Tasks one behind the other on one axis: one pass finds the gaps of all.
    shift = tasks.codes.astype(np.int64) * span - begin
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, tasks.codes, ops.start_ns)
    last = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last, tasks.codes, ops.end_ns)
    offsets = np.arange(count) * span - begin
    starts = np.concatenate([(ops.start_ns + shift)[busy], last + offsets])
    ends = np.concatenate([(ops.end_ns + shift)[busy], last + offsets])
    owner = np.concatenate([tasks.codes[busy], np.arange(count, dtype=np.int32)])
    order = np.lexsort((ends, starts))
    starts, ends, owner = starts[order], ends[order], owner[order]
    reached = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(ends)[:-1]])
    reached = np.maximum(reached, (first + offsets)[owner])
    for place in np.flatnonzero(starts > reached).tolist():
        task = int(owner[place])
        back = int(offsets[task])
        yield tasks.table[task], int(reached[place]) - back, int(starts[place]) - back


def _collective_waits(found: Traffic) -> Iterator[_Wait]:
    for together in found.collectives:
        last = max(together.starts)
        source = together.tasks[together.starts.index(last)]
        fair = median_low(sorted(together.starts)[:-1])
        for task, start, end in zip(together.tasks, together.starts, together.ends, strict=True):
            if end > start:
                limit = min(max(start, fair), end)
                made = min(max(last, start), end)
                yield _Wait(task, start, made, end, limit, source, f"collective {together.name}")
