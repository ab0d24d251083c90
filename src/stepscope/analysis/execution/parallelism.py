"""How much ran at once: threads and devices over time, and what waited for a thread."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.execution.thread_order import ThreadOrder
from stepscope.analysis.intervals import merged, merged_by_key, outermost
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.runs import named_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns

    Ints = NDArray[np.int64]

_WAITS_SHOWN = 20
_AT_A_TIME = 4096
"""Lanes whose course is worked out together: of a hundred thousand, the table would not fit."""


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
    """`rows` are threads, then devices. `at_once[k]` is how long exactly k ops ran together.

    `length_ns` is how long there was something to do: from when the first op was ready to the end
    of the last, which is less than the length of the run.
    """

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
        return made_of(Parallelism((), 0, 0, (), ()), run)
    begin = int(min(ops.start_ns.min(), ops.scheduled_ns.min()))
    length = int(np.maximum(ops.start_ns, ops.end_ns).max()) - begin
    start = np.clip(ops.start_ns - begin, 0, length)
    end = np.clip(ops.end_ns - begin, start, length)
    ready = np.clip(ops.scheduled_ns - begin, 0, start)
    waiting = merged(*(times[ready < start] for times in (ready, start)))
    on_thread = np.flatnonzero(ops.thread != 0)
    threads, thread_of = np.unique(ops.thread[on_thread], return_inverse=True)
    devices, device_of = np.unique(ops.devices.codes, return_inverse=True)
    known = ops.thread_names
    lanes = [
        *_lanes(
            "thread", [f"{known.get(thread, 'thread')} {thread}" for thread in threads.tolist()],
            thread_of, (start[on_thread], end[on_thread]), waiting, length, parts,
        ),
        *_lanes(
            "device", [ops.devices.table[code] for code in devices.tolist()],
            device_of, (start, end), waiting, length, parts,
        ),
    ]  # fmt: skip
    # A call and its body run as one.
    outer = outermost(ops.start_ns, ops.end_ns, ops.thread)
    return made_of(
        Parallelism(
            tuple(lanes), begin, length, _at_once(start[outer], end[outer], length), _waits(ops)
        ),
        run,
    )


def _lanes(
    kind: str, names: list[str], lane: Any, spans: tuple[Ints, Ints], waiting: tuple[Ints, Ints],
    length: int, parts: int,
) -> Iterator[Lane]:  # fmt: skip
    """The lanes of one kind; `lane` says of each span which. All of them are counted together."""
    count = len(names)
    ops = np.bincount(lane, minlength=count).tolist()
    of_lane, firsts, lasts = merged_by_key(lane, *spans)
    busy = np.zeros(count, np.int64)
    np.add.at(busy, of_lane, lasts - firsts)
    # Held up is the time in which some op waited, but for that in which the lane was busy.
    held_up = np.full(count, int((waiting[1] - waiting[0]).sum()))
    np.subtract.at(held_up, of_lane, _within(lasts, *waiting) - _within(firsts, *waiting))
    bounds = np.searchsorted(of_lane, np.arange(0, count + _AT_A_TIME, _AT_A_TIME))
    for number, (low, high) in enumerate(itertools.pairwise(bounds.tolist())):
        here = range(number * _AT_A_TIME, min(count, (number + 1) * _AT_A_TIME))
        shares = _shares(
            of_lane[low:high] - here.start, firsts[low:high], lasts[low:high],
            (len(here), parts), length,
        )  # fmt: skip
        for place, course in zip(here, shares.tolist(), strict=True):
            yield Lane(
                kind=kind,
                name=names[place],
                ops=ops[place],
                busy_ns=int(busy[place]),
                idle_waiting_ns=int(held_up[place]),
                idle_nothing_ns=length - int(busy[place]) - int(held_up[place]),
                # Most lanes of many are idle most of the time: one zero serves them all.
                busy=tuple([share or 0.0 for share in course]),
            )


def _shares(
    lane: Any, firsts: Ints, lasts: Ints, shape: tuple[int, int], length: int
) -> NDArray[np.float64]:
    """Per lane and part of the time which share of it separate spans fill."""
    lanes, parts = shape
    bounds = np.linspace(0, length, parts + 1)
    begin = np.clip(np.searchsorted(bounds, firsts, side="right") - 1, 0, parts - 1)
    end = np.clip(np.searchsorted(bounds, lasts, side="left") - 1, begin, parts - 1)
    across = begin < end
    filled = np.zeros(shape)
    np.add.at(filled, (lane, begin), np.where(across, bounds[begin + 1], lasts) - firsts)
    np.add.at(filled, (lane[across], end[across]), lasts[across] - bounds[end[across]])
    # Parts between the first and the last of a span are full: a step up, and one down again.
    steps = np.zeros((lanes, parts + 1))
    np.add.at(steps, (lane[across], begin[across] + 1), 1)
    np.add.at(steps, (lane[across], end[across]), -1)
    shares = filled / max(length / parts, 1e-9) + np.cumsum(steps, axis=1)[:, :-1]
    rounded: NDArray[np.float64] = np.clip(shares, 0, 1).round(6)
    return rounded


def _within(at: Ints, firsts: Ints, lasts: Ints) -> Ints:
    """How much of separate, ordered spans lies before each of some moments."""
    if not len(firsts):
        return np.zeros(len(at), np.int64)
    before = np.concatenate([[0], np.cumsum(lasts - firsts)])
    place = np.searchsorted(firsts, at, side="right")
    inside = np.minimum(at, lasts[place - 1]) - firsts[place - 1]
    return np.where(place > 0, before[np.maximum(place - 1, 0)] + inside, 0)


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
