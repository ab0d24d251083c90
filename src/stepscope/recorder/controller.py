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

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stepscope.metadata.quantiles import QuantileSketch
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

__all__ = ["Begun", "Budget", "Controller", "Ended", "Keep", "Keeper", "KindLengths", "Slow"]

_NOTHING_USUAL: Final = Usual(0, 0.0, 0.0)
_EVERY: Final = 16
"""So many runs of a kind later medians are worked out again, or a tenth of all later."""


class Begun(NamedTuple):
    """A run under way: its number, from 1 on, what it is, and how much is recorded of it."""

    number: int
    kind: str
    level: Level
    began_ns: int
    wait_ns: int = 0
    """What passed since the run before on its thread."""


class Ended(NamedTuple):
    """How a run ended, and what recording it made the program wait for.

    `size` is what it takes in memory to hold it, `failed` how it ended where that was not well.
    """

    now: int
    cost_ns: int = 0
    size: int = 0
    failed: str = ""
    peak_bytes: int = 0


@dataclass(slots=True)
class KindLengths:
    """How long runs of a kind take, of those whose length was noted."""

    lengths: QuantileSketch = field(default_factory=QuantileSketch)
    periods: QuantileSketch = field(default_factory=QuantileSketch)
    failed: int = 0
    usual: Usual = _NOTHING_USUAL

    def add(self, length_ns: int, period_ns: int) -> None:
        self.lengths.add(length_ns)
        self.periods.add(period_ns)
        known = self.usual.runs
        if self.lengths.count >= known + max(_EVERY, known // 10) or self.lengths.count <= _EVERY:
            self.usual = Usual(
                self.lengths.count, self.lengths.quantile(0.5), self.periods.quantile(0.5)
            )


class Controller:
    """See the module's text. Not for several threads at once."""

    def __init__(self, budget: Budget, keeper: Keeper, triggers: Sequence[Trigger] = ()) -> None:
        self.budget = budget
        self.keeper = keeper
        self.lengths: dict[str, KindLengths] = {}
        self._conditions = [
            one for one in triggers if isinstance(one, Slow | MemoryTrigger | ErrorTrigger)
        ]
        self._number = 0

    def begins(self, kind: str, now: int, wait_ns: int = 0) -> Begun:
        """A run is about to begin."""
        level = self.budget.begins(kind, now)
        self._number += 1
        return Begun(self._number, self.budget.kind_of(kind), level, now, wait_ns)

    def ended(self, run: Begun, how: Ended) -> Changes:
        """It ended. One of which only that it ran is noted is not kept, unless it failed."""
        self.budget.spent(how.cost_ns, run.kind, run.level)
        if run.level is Level.COUNT and not how.failed:
            return Changes()
        length = max(0, how.now - run.began_ns - how.cost_ns)
        known = self.lengths.setdefault(run.kind, KindLengths())
        took = Took(length, run.wait_ns, how.failed, how.peak_bytes)
        whys = [why for one in self._conditions if (why := one.why(took, known.usual))]
        known.failed += bool(how.failed)
        known.add(length, length + run.wait_ns)
        noted = Noted(
            run.number, run.kind, how.now, length, how.size,
            failed=bool(how.failed), sampled=run.level >= Level.TIMES, why="; ".join(whys),
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
