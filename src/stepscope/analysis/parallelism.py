"""How much ran at once: threads and devices over time, and what waited for a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.intervals import merged, outermost
from stepscope.analysis.result import Result
from stepscope.analysis.runs import named_runs
from stepscope.analysis.thread_order import ThreadOrder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns

    Ints = NDArray[np.int64]

_WAITS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Lane:
    """One thread or device: how long it was busy, and in which parts of the run.

    `busy` holds, for equal parts of the run, the fraction in which at least one op ran. The time
    it was idle splits into `idle_waiting_ns` (some op was ready and waited for a thread) and
    `idle_nothing_ns` (nothing was ready).
    """

    kind: str
    name: str
    ops: int
    busy_ns: int
    idle_waiting_ns: int
    idle_nothing_ns: int
    busy: tuple[float, ...]

    @property
    def fraction(self) -> float:
        """The part of the run in which it was busy."""
        whole = self.busy_ns + self.idle_waiting_ns + self.idle_nothing_ns
        return self.busy_ns / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class Wait:
    """An op that was ready and had to wait; `blocked_by` ran on its thread meanwhile."""

    name: str
    op: str
    device: str
    waited_ns: int
    blocked_by: str


@dataclass(frozen=True, slots=True)
class Parallelism(Result):
    """`rows` are threads, then devices. `at_once[k]` is how long exactly k ops ran together."""

    rows: tuple[Lane, ...]
    start_ns: int
    length_ns: int
    at_once: tuple[int, ...]
    waits: tuple[Wait, ...]

    @property
    def average(self) -> float:
        """Ops running at once, on average over the whole run."""
        busy = sum(number * ns for number, ns in enumerate(self.at_once))
        return busy / self.length_ns if self.length_ns else 0.0


def parallelism(run: Any, parts: int = 60) -> Parallelism:
    """How one run used its threads and devices; `parts` is how finely lanes are told."""
    runs = named_runs(run)
    if len(runs) != 1:
        raise ValueError(f"parallelism takes one run and was given {len(runs)}: choose one of them")
    ops = runs[0].metadata.ops
    if not len(ops):
        return Parallelism((), 0, 0, (), ())
    begin = int(min(ops.start_ns.min(), ops.scheduled_ns.min()))
    length = int(np.maximum(ops.start_ns, ops.end_ns).max()) - begin
    start = np.clip(ops.start_ns - begin, 0, length)
    end = np.clip(ops.end_ns - begin, start, length)
    ready = np.clip(ops.scheduled_ns - begin, 0, start)
    waiting = merged(*(times[ready < start] for times in (ready, start)))
    lanes = []
    for thread in np.unique(ops.thread[ops.thread != 0]).tolist():
        name = f"{ops.thread_names.get(thread, 'thread')} {thread}"
        rows = ops.thread == thread
        lanes.append(_lane("thread", name, rows, start, end, waiting, length, parts))
    for number, device in enumerate(ops.devices.table):
        rows = ops.devices.codes == number
        if rows.any():
            lanes.append(_lane("device", device, rows, start, end, waiting, length, parts))
    # A call and its body run as one.
    outer = outermost(ops.start_ns, ops.end_ns, ops.thread)
    return Parallelism(
        tuple(lanes), begin, length, _at_once(start[outer], end[outer], length), _waits(ops)
    )


def _lane(
    kind: str, name: str, rows: Any, start: Ints, end: Ints, waiting: tuple[Ints, Ints],
    length: int, parts: int,
) -> Lane:  # fmt: skip
    firsts, lasts = merged(start[rows], end[rows])
    busy = int((lasts - firsts).sum())
    idle_from = np.concatenate([[0], lasts])
    idle_to = np.concatenate([firsts, [length]])
    idle = idle_to > idle_from
    held_up = _overlap(idle_from[idle], idle_to[idle], *waiting)
    bounds = np.linspace(0, length, parts + 1)
    before = np.concatenate([[0], np.cumsum(lasts - firsts)])
    filled = _filled_until(bounds, firsts, lasts, before)
    width = max(length / parts, 1e-9)
    shares = np.clip(np.diff(filled) / width, 0, 1)
    return Lane(
        kind=kind,
        name=name,
        ops=int(np.count_nonzero(rows)),
        busy_ns=busy,
        idle_waiting_ns=held_up,
        idle_nothing_ns=length - busy - held_up,
        busy=tuple(shares.round(6).tolist()),
    )


def _filled_until(at: Any, firsts: Ints, lasts: Ints, before: Ints) -> Any:
    """How much of separate, ordered spans lies before each of some moments."""
    place = np.searchsorted(firsts, at, side="right")
    inside = np.zeros(len(at))
    some = place > 0
    inside[some] = np.minimum(at[some], lasts[place[some] - 1]) - firsts[place[some] - 1]
    return np.where(some, before[np.maximum(place - 1, 0)] + inside, 0)


def _overlap(a_from: Ints, a_to: Ints, b_from: Ints, b_to: Ints) -> int:
    """The time that two sets of separate, ordered spans have in common."""
    if not len(a_from) or not len(b_from):
        return 0
    before = np.concatenate([[0], np.cumsum(b_to - b_from)])
    filled = _filled_until(a_to, b_from, b_to, before) - _filled_until(a_from, b_from, b_to, before)
    return int(filled.sum())


def _at_once(start: Ints, end: Ints, length: int) -> tuple[int, ...]:
    times = np.concatenate([start, end, [0, length]])
    change = np.concatenate([np.ones(len(start)), -np.ones(len(end)), [0, 0]]).astype(np.int64)
    order = np.lexsort((change, times))
    level = np.cumsum(change[order])[:-1]
    spans = np.diff(times[order])
    totals = np.zeros(int(level.max(initial=0)) + 1, np.int64)
    np.add.at(totals, np.maximum(level, 0), spans)
    return tuple(totals.tolist())


def _waits(ops: OpColumns) -> tuple[Wait, ...]:
    waited = np.maximum(ops.start_ns - ops.scheduled_ns, 0)
    threads = ThreadOrder(ops)
    waits = []
    for row in np.argsort(-waited, kind="stable")[:_WAITS_SHOWN].tolist():
        if not waited[row]:
            break
        ready, start = int(ops.scheduled_ns[row]), int(ops.start_ns[row])
        waits.append(
            Wait(
                name=str(ops.name[row]),
                op=str(ops.op[row]),
                device=str(ops.device[row]),
                waited_ns=int(waited[row]),
                blocked_by=threads.busy_with(int(ops.thread[row]), ready, start),
            )
        )
    return tuple(waits)
