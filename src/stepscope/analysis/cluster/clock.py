"""One clock for all tasks of a cluster: how far each is from the first, and how sure that is.

What constrains the clocks (see `clock_bounds`):

- a tensor cannot arrive before it was made;
- the tasks of a collective leave it together: within the shortest stay of any of them, which is
  about what the exchange itself took once all were there.

Each task is compared with the first one, directly or through others that it talks to, by the way
that leaves the least error; errors along the way add up.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.cluster.clock_bounds import Constraints, solve
from stepscope.analysis.cluster.messages import Traffic, traffic
from stepscope.analysis.cluster.retimed import retimed
from stepscope.analysis.cluster.tasks import as_task, is_local, natural_order, task_of
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import NamedRun, iter_named_runs
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.cluster.clock_bounds import Bounds
    from stepscope.analysis.cluster.retimed import Retime
    from stepscope.analysis.runs import Runs
    from stepscope.metadata import RunMetadata

    Ints: TypeAlias = NDArray[np.int64]

__all__ = ["ClockRecorder", "Clocks", "OneClock", "TaskClock", "clocks"]

_MICROSECOND = 1000
_SWEEPS = 30


@dataclass(frozen=True, slots=True)
class TaskClock:
    """The clock of a task against that of the first.

    It shows `offset_ns` more than the first at `Clocks.base_ns` and gains `drift_ppm` microseconds
    per second. `error_ns` is how far the difference can be from that at any time between the
    first and the last message, None where nothing bounds it; `drift_error_ppm` likewise.
    `constraints` counts the messages and collectives it took part in. `found` is "reference",
    "measured" (also where it may be right and is left alone), "one-sided" (messages went one way
    only: the least correction that puts them in order), "unconstrained" (nothing relates the task
    to the first: not corrected) or
    "contradictory" (no steady clock explains the messages; the error says by how much).
    """

    task: str
    offset_ns: int
    drift_ppm: float
    error_ns: int | None
    drift_error_ppm: float | None
    constraints: int
    found: str


class _Map(NamedTuple):
    """The time of a clock as a function of another's: `base` is `base + offset` there."""

    base: int
    offset: int
    drift: float

    def __call__(self, time: int) -> int:
        return time + self.offset + round(self.drift * (time - self.base))

    def inverse(self, time: int) -> int:
        since = time - self.base - self.offset
        return self.base + since - round(since * self.drift / (1 + self.drift))

    def then(self, other: _Map) -> _Map:
        """First this one, then the other."""
        at = self(self.base)
        drift = (1 + self.drift) * (1 + other.drift) - 1
        return _Map(self.base, self.offset + other(at) - at, drift)

    def reversed(self) -> _Map:
        """From the other clock to this one."""
        drift = 1 / (1 + self.drift) - 1
        return _Map(self.base + self.offset, -self.offset, drift)


@dataclass(frozen=True, slots=True)
class Clocks(Result):
    """The clocks of all tasks in the order of their names; `base_ns` is a time of the first."""

    rows: tuple[TaskClock, ...]
    base_ns: int

    @property
    def reference(self) -> str:
        """The task whose clock the others are compared with."""
        return self.rows[0].task if self.rows else ""

    @property
    def unconstrained(self) -> tuple[str, ...]:
        """The tasks of whose clock nothing is known."""
        return tuple(row.task for row in self.rows if row.found == "unconstrained")

    def of(self, task: str) -> TaskClock | None:
        """The clock of a task; None for one that is not known."""
        place = bisect_left(self.rows, natural_order(task), key=lambda row: natural_order(row.task))
        found = self.rows[place] if place < len(self.rows) else None
        return found if found is not None and found.task == task else None

    def corrected(self, tasks: StringColumn, times: Ints) -> Ints:
        """Times of the clocks of tasks as times of the first's; of unknown tasks as they are."""
        rows = [self.of(task) for task in tasks.table]
        offset = np.array([row.offset_ns if row else 0 for row in rows], np.int64)[tasks.codes]
        drift = np.array([row.drift_ppm * 1e-6 if row else 0.0 for row in rows])[tasks.codes]
        since = times - (self.base_ns + offset)
        late = np.rint(since * (drift / (1 + drift))).astype(np.int64)
        # Times that are not known are 0 and stay so.
        result: Ints = np.where(times == 0, 0, self.base_ns + since - late)
        return result

    def apply(self, runs: Runs) -> Iterator[NamedRun]:
        """The runs with all their times by the first task's clock, one at a time."""
        for run in iter_named_runs(runs):
            yield NamedRun(run.name, self.correct(run.metadata))

    def correct(self, metadata: RunMetadata, task: str = "") -> RunMetadata:
        """A run with its times by the first task's clock.

        `task` is whose run it is where its devices do not say so.
        """
        here = {self.of(_own_task(device, task)) for device in metadata.ops.devices.table}
        if not any(row.offset_ns or row.drift_ppm for row in here if row is not None):
            return metadata
        return retimed(metadata, self.retiming(task))

    def retiming(self, task: str = "") -> Retime:
        """What `correct` does to times, given the devices whose times they are."""

        def by_first(devices: StringColumn, times: Ints) -> Ints:
            if not len(times):
                return times
            table = tuple(_own_task(device, task) for device in devices.table)
            return self.corrected(StringColumn(devices.codes, table), times)

        return by_first


def _own_task(device: str, task: str) -> str:
    found = task_of(device)
    return as_task(task) if task and is_local(found) else found


def clocks(runs: Runs) -> Clocks:
    """Compare the clocks of all tasks in the runs with the first's, in the order of their names.

    Runs hold the rows of several tasks: runs of a cluster, or those of workers joined by step
    (`stepscope.analysis.joined_steps`). They are looked at one at a time.
    """
    recorder = ClockRecorder()
    for run in iter_named_runs(runs):
        recorder.add(traffic(run.metadata.ops))
    return made_of(recorder.clocks(), runs)


class OneClock:
    """Has runs of several tasks by the first task's clock, and leaves others as they are.

    The clocks are compared when there is such a run, over what `runs` gives then.
    """

    def __init__(self, runs: Callable[[], Runs]) -> None:
        self._runs = runs
        self._clocks: Clocks | None = None

    def of(self, run: RunMetadata) -> RunMetadata:
        """A run with all of its times by one clock."""
        tasks = {task_of(device) for device in run.ops.devices.table}
        if sum(not is_local(task) for task in tasks) < 2:
            return run
        if self._clocks is None:
            self._clocks = clocks(self._runs())
        return self._clocks.correct(run)

    @property
    def clocks(self) -> Clocks | None:
        """What the clocks were found to be; None where no run so far was of several tasks."""
        return self._clocks

    def passing(self, runs: Runs) -> Iterator[NamedRun]:
        """The runs by one clock, one at a time."""
        for name, run in iter_named_runs(runs):
            yield NamedRun(name, self.of(run))


class ClockRecorder:
    """Collects what runs say of the clocks; needs memory per pair of tasks that talked."""

    def __init__(self) -> None:
        self._tasks: set[str] = set()
        self._pairs: dict[tuple[str, str], Constraints] = {}
        self._counts: dict[str, int] = {}

    def add(self, found: Traffic) -> None:
        """Take in a run."""
        self._tasks.update(found.tasks.table)
        for message in found.messages:
            if message.producer >= 0:
                received = message.received_ns
                # Rows of receives count in microseconds, rounded down.
                received += _MICROSECOND - 1 if received % _MICROSECOND == 0 else 0
                self._message(message.source, message.target, message.sent_ns, received)
        for together in found.collectives:
            if together.source:
                sent = together.starts[together.tasks.index(together.source)]
                for task, end in zip(together.tasks, together.ends, strict=True):
                    self._message(together.source, task, sent, end)
                continue
            stay = min(e - s for s, e in zip(together.starts, together.ends, strict=True))
            first, first_end = together.tasks[0], together.ends[0]
            for task, end in zip(together.tasks[1:], together.ends[1:], strict=True):
                self._message(first, task, first_end - max(stay, 0), end)
                self._message(task, first, end - max(stay, 0), first_end)

    def _message(self, source: str, target: str, sent: int, received: int) -> None:
        if source == target:
            return
        for task in (source, target):
            self._counts[task] = self._counts.get(task, 0) + 1
        pair = (source, target) if source < target else (target, source)
        known = self._pairs.get(pair)
        if known is None:
            known = self._pairs[pair] = Constraints()
        if source < target:
            known.to_second(sent, received)
        else:
            known.to_first(sent, received)

    def clocks(self) -> Clocks:
        """What all of them say together."""
        # Rows of a worker that are of no task's device have that worker's own clock.
        named = [task for task in self._tasks if not is_local(task)]
        tasks = sorted(named or self._tasks, key=natural_order)
        if not tasks:
            return Clocks((), 0)
        first = tasks[0]
        maps, errors, drifts, base = self._tree(first)
        slack = self._settle(first, maps)
        rows = [TaskClock(first, 0, 0.0, 0, 0.0, self._counts.get(first, 0), "reference")]
        for task in tasks[1:]:
            count = self._counts.get(task, 0)
            if task not in maps:
                rows.append(TaskClock(task, 0, 0.0, None, None, count, "unconstrained"))
                continue
            at = maps[task]
            offset = at(base) - base
            error = errors[task]
            found = "one-sided" if error is None else "measured"
            if error is not None and slack.get(task, 0.0) > 1.0:
                found, error = "contradictory", error + slack[task]
            rows.append(
                TaskClock(
                    task=task,
                    offset_ns=offset,
                    drift_ppm=at.drift * 1e6,
                    error_ns=None if error is None else int(np.ceil(error)) + 1,
                    drift_error_ppm=drifts[task],
                    constraints=count,
                    found=found,
                )
            )
        return Clocks(tuple(rows), base)

    def _tree(
        self, first: str
    ) -> tuple[dict[str, _Map], dict[str, float | None], dict[str, float | None], int]:
        """Every task's clock from the first's, by the way of least error."""
        near: dict[str, list[tuple[str, _Map, float, float]]] = {}
        bases = []
        for (a, b), constraints in self._pairs.items():
            bounds = constraints.bounds()
            if bounds is None:
                continue
            span = bounds.end - bounds.start
            middle = bounds.start + span // 2
            start, end = bounds.estimate
            drift = (end - start) / span if span else 0.0
            there = _Map(middle, round((start + end) / 2), drift)
            error = bounds.error_ns
            cost = float("inf") if error is None else error + bounds.slack_ns
            near.setdefault(a, []).append((b, there, cost, _drift_error(bounds)))
            near.setdefault(b, []).append((a, there.reversed(), cost, _drift_error(bounds)))
            bases.append(middle if a == first else there(middle))
        base = min(bases, default=0)
        maps = {first: _Map(base, 0, 0.0)}
        errors: dict[str, float | None] = {first: 0.0}
        drifts: dict[str, float | None] = {first: 0.0}
        waiting: list[tuple[float, int, str, _Map, float]] = []

        def offer(task: str, so_far: float, drift: float) -> None:
            for other, there, cost, drift_error in near.get(task, ()):
                if other not in maps:
                    heapq.heappush(
                        waiting,
                        (so_far + cost, len(waiting), other, maps[task].then(there),
                         drift + drift_error),
                    )  # fmt: skip

        offer(first, 0.0, 0.0)
        while waiting:
            error, _, task, at, drift = heapq.heappop(waiting)
            if task in maps:
                continue
            maps[task] = at
            errors[task] = None if error == float("inf") else error
            drifts[task] = None if drift == float("inf") else drift * 1e6
            offer(task, error, drift)
        return maps, errors, drifts, base

    def _settle(self, first: str, maps: dict[str, _Map]) -> dict[str, float]:
        """Move clocks until no message between any two arrives before it was sent.

        What remains, where they contradict one another, is returned by task.
        """
        pairs: dict[str, list[tuple[str, bool, Constraints]]] = {}
        for (a, b), constraints in self._pairs.items():
            pairs.setdefault(a, []).append((b, True, constraints))
            pairs.setdefault(b, []).append((a, False, constraints))
        order = sorted((task for task in maps if task != first), key=natural_order)
        late: dict[str, float] = {}
        for _ in range(_SWEEPS):
            late = {}
            for task in order:
                upper, lower = _against_first(pairs.get(task, ()), maps)
                at = maps[task]
                worst = max(
                    *(at(x) - x - bound for x, bound in upper),
                    *(bound - at(x) + x for x, bound in lower),
                    0, 0,
                )  # fmt: skip
                if worst <= 0:
                    continue
                late[task] = float(worst)
                bounds = solve(upper, lower)
                if bounds is None or bounds.lowest is None or bounds.highest is None:
                    continue
                span = bounds.end - bounds.start
                start, end = bounds.estimate
                middle = bounds.start + span // 2
                drift = (end - start) / span if span else 0.0
                maps[task] = _Map(middle, round((start + end) / 2), drift)
            if not late:
                break
        return late


def _drift_error(bounds: Bounds) -> float:
    span = bounds.end - bounds.start
    if not span or bounds.lowest is None or bounds.highest is None:
        return float("inf")
    growth = bounds.estimate.last - bounds.estimate.first
    return max(bounds.drift[1] - growth, growth - bounds.drift[0]) / span


def _against_first(
    pairs: Iterable[tuple[str, bool, Constraints]], maps: dict[str, _Map]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What the messages with all others say of a task's clock, the others' being known."""
    upper, lower = [], []
    for other, task_is_first, constraints in pairs:
        if other not in maps:
            continue
        there = maps[other]
        if task_is_first:
            # The task sent at x what the other received at x + bound, and the reverse.
            for x, bound in constraints.upper:
                at = there.inverse(x + bound)
                lower.append((at, x - at))
            for x, bound in constraints.lower:
                at = there.inverse(x + bound)
                upper.append((at, x - at))
        else:
            for x, bound in constraints.upper:
                at = there.inverse(x)
                upper.append((at, x + bound - at))
            for x, bound in constraints.lower:
                at = there.inverse(x)
                lower.append((at, x + bound - at))
    return upper, lower
