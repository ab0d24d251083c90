"""`RunLane`: runs of one kind in a lull, of which no more is noted than how long they took.

Deciding on a run takes some ten microseconds; that is 1% of a run of a millisecond. So while a lull
lasts nobody is asked: an engine notes the length on the kind's lane, in half a microsecond, and
only a run that is slow, late or failed is told of. What it noted is added up when the lull is over.

What that costs where it stands, between two runs that leave nothing of it in the processor's
caches, is several times what it costs in a loop of its own. So the first run of each lull is timed
all around by its engine (`to_time`, `timed`), and by these the others are charged.

    began = lane.begins()
    if began:                       # a lull: else ask `KeptRuns.begins`
        try:
            result = run()
            lane.ended(began, engine)
        except BaseException as error:
            lane.failed(began, code_of(error), engine)
            raise

Guarantees. May be used by any number of threads at once: each run is counted once, also where
Control-C comes in the midst of `ended`; `failed` is to be told then. No method waits, but for a run
that is told of, and the one that finds the lane full.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from stepscope.held_signals import held_signals
from stepscope.recorder.budget import Level
from stepscope.recorder.controller import Lull

__all__ = ["COUNTED", "FULL", "RunLane", "ThreadTimes", "cost_of_lanes"]

COUNTED: Final = -1
"""What `begins` gives for a run that is only counted."""
FULL: Final = 4096
_TIMED: Final = 15
"""By so many runs that were timed it is known what noting one costs."""
_BELIEVED: Final = 5
_COLD: Final = 30
"""Between runs it takes so many times what it does in a loop of its own, at most, until that many
were timed."""
_BESIDE: Final = 1.25
"""What cannot be timed from inside comes on top: the way into what notes a run, and out of it."""
_clock = time.perf_counter_ns


class ThreadTimes(threading.local):
    """When the last run of this thread ended; 0 where that is not known."""

    ended = 0


class Remarkable(NamedTuple):
    """A run of a lull that is to be told of: when it was, and how it failed if it did."""

    kind: str
    engine: str
    began_ns: int
    ended_ns: int
    wait_ns: int
    failed: str = ""


class RunLane:
    """Notes the lengths of runs of one kind, and tells of those that stand out.

    `KeptRuns` opens and settles it.
    """

    __slots__ = (
        "_around", "_full", "_here", "_late_ns", "_most", "_noted", "_numbers", "_opened",
        "_slow_ns", "_tell", "_until", "_was_told", "counted", "kind", "level", "to_time",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        here: ThreadTimes,
        numbers: Iterator[int],
        tell: Callable[[Remarkable], None],
        full: Callable[[RunLane], None],
    ) -> None:
        """`numbers` are those that runs take; a run that is to be told of is given one there."""
        self._numbers = numbers
        self.kind = kind
        self.level = Level.LENGTH
        self._here = here
        self._tell = tell
        self._full = full
        self._noted: list[tuple[int, int]] = []
        self.counted: list[None] = []
        self._most = 0
        """So many may be counted until somebody is to be asked."""
        self._until = self._opened = 0
        self._slow_ns = self._late_ns = 0.0
        self.to_time = False
        """Whether an engine is to time what it does around the run that is about to begin."""
        self._was_told = False
        self._around: dict[Level, deque[int]] = {}

    def open(self, lull: Lull, now: int) -> None:
        """A lull begins."""
        self.level = lull.level
        self.to_time = True
        self._opened = now
        self._slow_ns, self._late_ns = lull.slow_ns, lull.late_ns
        if lull.level is Level.COUNT:
            self._most, self._until = min(lull.runs, FULL), 0
        else:
            self._most, self._until = 0, now + lull.length_ns

    def close(self) -> None:
        """The lull is over: the next run is to be decided on."""
        self._most = self._until = 0

    def timed(self, ns: int) -> None:
        """All that was done around a run of this lull, so that it was noted, took so long."""
        if self._was_told:
            # Telling of a run is charged by itself, and far more than noting one.
            self._was_told = False
            return
        self.to_time = False
        times = self._around.get(self.level)
        if times is None:
            times = self._around[self.level] = deque(maxlen=_TIMED)
        times.append(ns)

    def cost_ns(self, level: Level, unknown: float) -> float:
        """What noting a run at a level costs, as far as runs were timed, else as is said.

        The median: what was held up for another reason says nothing. A few that were all held up
        are not believed: if they were, none might be noted again to show better.
        """
        times = self._around.get(level)
        if not times:
            return unknown
        found = _BESIDE * statistics.median(times)
        return found if len(times) >= _BELIEVED else min(found, _COLD * unknown)

    def expire(self, before: int) -> None:
        """Let a lull end that began before this time and only counts: it looks at no clock itself.

        From any thread.
        """
        if self._most and self._opened < before:
            self._most = 0

    def begins(self) -> int:
        """A run begins: a value for `ended`; 0 where there is no lull."""
        if self._most:
            if len(self.counted) < self._most:
                self.counted.append(None)
                return COUNTED
            return 0
        now = _clock()
        return now if now < self._until else 0

    def ended(self, began: int, engine: str) -> None:
        """It ended well."""
        if began < 0:
            next(self._numbers)
            return
        ended, here = _clock(), self._here
        last = here.ended
        took, period = ended - began, ended - last
        if took > self._slow_ns or (period > self._late_ns and last):
            with held_signals:
                self._tell(Remarkable(self.kind, engine, began, ended, began - last if last else 0))
                here.ended = _clock()
            self._was_told = True
            return
        next(self._numbers)
        noted = self._noted
        full = len(noted) >= FULL - 1
        # Between these two Python looks for no signal, as it would after a call.
        noted += [(took, period if last else took)]
        here.ended = ended
        if full:
            with held_signals:
                self._full(self)

    def failed(self, began: int, code: str, engine: str) -> None:
        """It did not end well, or `ended` raised what a signal's handler did."""
        ended, here = _clock(), self._here
        if 0 < began <= here.ended:
            return  # it is noted
        if began < 0:
            if self.counted:
                self.counted.pop()
            began = ended
        last, here.ended = here.ended, ended
        wait = began - last if last else 0
        self._tell(Remarkable(self.kind, engine, began, ended, wait, code))

    def take(self) -> tuple[list[tuple[int, int]], int]:
        """What was noted, and how many were counted, since this was asked last."""
        count = len(self._noted)
        noted = self._noted[:count]
        del self._noted[:count]
        counted = len(self.counted)
        del self.counted[:counted]
        return noted, counted


def cost_of_lanes(rounds: int = 400) -> float:
    """What noting one length costs in this process, in nanoseconds: measured, for some 0.5 ms."""
    lane = RunLane("", ThreadTimes(), itertools.count(), lambda _: None, lambda _: None)
    lane.open(Lull(Level.LENGTH, 10**12, 0, float("inf"), float("inf")), _clock())
    best = float("inf")
    for _ in range(4):
        began = _clock()
        for _ in range(rounds // 4):
            lane.ended(lane.begins(), "")
        best = min(best, (_clock() - began) / (rounds // 4))
    return best
