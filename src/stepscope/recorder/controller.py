"""`Controller`: what to record of the next run, and what to keep of those that ended.

One state, without threads, clocks or files; `Recorder` carries out what it decides. It joins

    budget      how much of a run is recorded, so that recording costs what was promised
    triggers    what the user wants to know of
    keeping     which runs are written, and which have to go

and keeps, by kind, how long runs take, so that it can tell which are slow.

>>> control = Controller(Budget(0.05), Keeper(Keep(sample=0), memory=1 << 20, disk=1 << 20),
...                      [Slow(3)])
>>> now = 0
>>> for step in range(100):                     # steps of 10 ms; the 60th takes 80
...     begun = control.begins("train", now)
...     now += 80_000_000 if step == 60 else 10_000_000
...     changes = control.ended(begun, Ended(now, cost_ns=10_000, size=1000))
...     if step == 60:
...         print(begun.level.name, control.why(begun.number).why)
TIMES took 80 ms, 8.06 times the 9.92 ms that are usual
>>> control.why(60).reasons                     # it is run 61: what came before it was kept, too
('before',)
>>> f"{control.budget.overhead:.4f}"
'0.0009'
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stepscope.metadata.stored.quantiles import QuantileSketch
from stepscope.recorder.budget import Budget, Level
from stepscope.recorder.keeping import Changes, Keep, Keeper, Kept, Noted
from stepscope.recorder.triggers import (
    ErrorTrigger,
    MemoryTrigger,
    Slow,
    Took,
    Trigger,
    Usual,
)

__all__ = [
    "Begun",
    "Budget",
    "Controller",
    "Ended",
    "Keep",
    "Keeper",
    "KindLengths",
    "Lull",
    "Slow",
    "Unseen",
]

_NOTHING_USUAL: Final = Usual(0, 0.0, 0.0)
_EVERY: Final = 16
_FEW: Final = 8
_LATEST: Final = 64
"""So many runs of a kind later medians are worked out again, or a tenth of all later."""


class Begun(NamedTuple):
    """A run under way: its number, from 1 on, what it is, and how much is recorded of it."""

    number: int
    kind: str
    level: Level
    began_ns: int
    wait_ns: int = 0
    """What passed since the run before on its thread."""


class Lull(NamedTuple):
    """A time in which nothing is recorded of runs of a kind but their length, or their number.

    It lasts for so much of the program's own time, or so many runs if these are only counted. A run
    that takes longer than `slow_ns`, or with what came before it longer than `late_ns`, is to be
    told of nevertheless.
    """

    level: Level
    length_ns: int
    runs: int
    slow_ns: float
    late_ns: float


class Ended(NamedTuple):
    """How a run ended, and what recording it made the program wait for.

    `size` is what it takes in memory to hold it, `failed` how it ended where that was not well,
    `asked` whether the program itself had it traced.
    """

    now: int
    cost_ns: int = 0
    size: int = 0
    failed: str = ""
    peak_bytes: int = 0
    asked: bool = False
    whole_ns: int = 0
    """How long it took in all, without `cost_ns`, what recording took unseen included; 0 where that
    is not known."""


@dataclass(slots=True)
class Unseen:
    """What recording a run of a kind takes longer than was counted, by level.

    Which runs are recorded does not depend on what is in them: what those take longer as a rule, of
    which op times are noted, is because of us.

    >>> unseen = Unseen()
    >>> for step in range(40):
    ...     unseen.add(Level.LENGTH, 1_000_000 + step * 1000)
    ...     unseen.add(Level.TIMES, 1_300_000 + step * 1000)
    >>> unseen.ns(Level.TIMES), unseen.ns(Level.DETAIL)
    (300000, 0)
    """

    lengths: dict[Level, deque[int]] = field(default_factory=dict)
    """How long the latest took that were recorded at a level."""
    known: dict[Level, int] = field(default_factory=dict)
    _added: int = 0

    def add(self, level: Level, *whole_ns: int) -> None:
        """Runs took so long in all."""
        latest = self.lengths.get(level)
        if latest is None:
            latest = self.lengths[level] = deque(maxlen=_LATEST)
        latest.extend(whole_ns)
        self._added += 1
        if self._added % _FEW == 0:
            self._compare()

    def _compare(self) -> None:
        plain = self.lengths.get(Level.LENGTH)
        if plain is None or len(plain) < _FEW:
            return
        usual = statistics.median(plain)
        for level in (Level.TIMES, Level.DETAIL):
            found = self.lengths.get(level)
            if found is not None and len(found) >= _FEW:
                self.known[level] = max(0, int(statistics.median(found) - usual))

    def ns(self, level: Level) -> int:
        """Of a run that is recorded at a level."""
        return self.known.get(level, 0)


@dataclass(slots=True)
class KindLengths:
    """How long runs of a kind take, of those whose length was noted."""

    lengths: QuantileSketch = field(default_factory=QuantileSketch)
    periods: QuantileSketch = field(default_factory=QuantileSketch)
    failed: int = 0
    usual: Usual = _NOTHING_USUAL
    unseen: Unseen = field(default_factory=Unseen)

    def add(self, length_ns: int, period_ns: int) -> None:
        """One more run."""
        self.lengths.add(length_ns)
        self.periods.add(period_ns)
        self._look()

    def add_all(self, lengths_ns: Sequence[int], periods_ns: Sequence[int]) -> None:
        """Many of them."""
        self.lengths.add_all(lengths_ns)
        self.periods.add_all(periods_ns)
        self._look()

    def _look(self) -> None:
        known = self.usual.runs
        if self.lengths.count >= known + max(_EVERY, known // 10) or self.lengths.count <= _EVERY:
            self.usual = Usual(
                self.lengths.count, self.lengths.quantile(0.5), self.periods.quantile(0.5)
            )


class Controller:
    """Joins budget, triggers and keeping: told of runs, it says what to record and to keep.

    Not for several threads at once.
    """

    def __init__(self, budget: Budget, keeper: Keeper, triggers: Sequence[Trigger] = ()) -> None:
        self.budget = budget
        self.keeper = keeper
        self.lengths: dict[str, KindLengths] = {}
        self._conditions = [
            one for one in triggers if isinstance(one, Slow | MemoryTrigger | ErrorTrigger)
        ]
        self.numbers = itertools.count(1)
        """Those that runs get. In a lull runs take them by themselves."""

    def begins(self, kind: str, now: int, wait_ns: int = 0) -> Begun:
        """A run is about to begin."""
        level = self.budget.begins(kind, now)
        return Begun(next(self.numbers), self.budget.kind_of(kind), level, now, wait_ns)

    def takes(self, kind: str, now: int) -> Begun:
        """A run that is recorded in detail whatever it costs: the program itself asked for it."""
        self.budget.takes(kind, now)
        return Begun(next(self.numbers), self.budget.kind_of(kind), Level.DETAIL, now)

    def lull(self, run: Begun) -> Lull:
        """How long runs like one of which no more than the least is noted need not ask."""
        budget = self.budget
        length_ns = budget.lull_ns(run.kind)
        slow_ns, late_ns = math.inf, math.inf
        for one in self._conditions:
            if isinstance(one, Slow):
                slow, late = one.limits(self.usual(run.kind))
                slow_ns, late_ns = min(slow_ns, slow), min(late_ns, late)
        slow_ns = min(slow_ns, self.keeper.slowest_ns(run.kind))
        level = budget.least(run.kind)
        runs = budget.counted_in_lull(run.kind) if level is Level.COUNT else 0
        return Lull(level, length_ns, runs, slow_ns, late_ns)

    def passed(
        self, kind: str, noted: Sequence[tuple[int, int]], counted: int, cost_ns: float, now: int,
        counting_ns: float | None = None,
    ) -> None:  # fmt: skip
        """What ran in a lull: length and period of those that were noted, how many were not.

        Noting one cost so much, and counting one, if that is known.
        """
        self.budget.passed(kind, len(noted), counted, cost_ns, now, counting_ns)
        self.keeper.passed(kind, len(noted) + counted)
        if noted:
            lengths, periods = zip(*noted, strict=True)
            known = self.lengths.setdefault(kind, KindLengths())
            known.add_all(lengths, periods)
            known.unseen.add(Level.LENGTH, *lengths[:_EVERY])

    def remarkable(self, kind: str, began_ns: int, wait_ns: int) -> Begun:
        """A run of a lull after all, by its number: it is slow, or it failed."""
        self.budget.kinds[kind].runs += 1
        self.budget.kinds[kind].at[Level.LENGTH] += 1
        return Begun(next(self.numbers), kind, Level.LENGTH, began_ns, wait_ns)

    def ended(self, run: Begun, how: Ended) -> Changes:
        """It ended. One of which only that it ran is noted is not kept, unless it failed."""
        # What a length costs is known from lulls: this one had to ask.
        learns = run.level >= Level.TIMES
        known = self.lengths.setdefault(run.kind, KindLengths())
        cost = how.cost_ns + (known.unseen.ns(run.level) if learns else 0)
        self.budget.spent(cost, run.kind, run.level if learns else None)
        if run.level is Level.COUNT and not how.failed:
            return Changes()
        length = max(0, how.now - run.began_ns - how.cost_ns)
        if how.whole_ns > 0 and not how.failed:
            known.unseen.add(run.level, how.whole_ns)
        took = Took(length, run.wait_ns, how.failed, how.peak_bytes)
        whys, rank = [], 0.0
        for one in self._conditions:
            if why := one.why(took, known.usual):
                whys.append(why)
                rank = max(
                    rank, one.excess(took, known.usual) if isinstance(one, Slow) else math.inf
                )
        known.failed += bool(how.failed)
        known.add(length, length + run.wait_ns)
        noted = Noted(
            run.number, run.kind, how.now, length, how.size,
            failed=bool(how.failed), sampled=run.level >= Level.TIMES and not how.asked,
            why="; ".join(whys), asked=how.asked, rank=rank,
        )  # fmt: skip
        return self.keeper.ended(noted)

    def spent(self, ns: int) -> None:
        """The program waited for us outside of what is known of runs."""
        self.budget.spent(ns)

    def trigger(self, why: str, now: int) -> Changes:
        """Something happened outside of runs that the user wants to know of."""
        return self.keeper.trigger(why, now)

    def usual(self, kind: str) -> Usual:
        """What is usual for runs of a kind."""
        known = self.lengths.get(kind)
        return _NOTHING_USUAL if known is None else known.usual

    def why(self, number: int) -> Kept:
        """Why a run is kept."""
        return self.keeper.why(number)

    def validate(self) -> None:
        """Whether the state is one that can be; for tests."""
        self.budget.validate()
        self.keeper.validate()
