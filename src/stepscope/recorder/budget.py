"""What to record of the next run, so that recording costs no more than its budget.

`Budget` is a state without threads or clocks: it is told what time it is, and what recording made
the program wait for, and answers with a `Level`.

How it decides:

- The program's own time earns **credit**, a budget's share of it; whatever it waited for because of
  us is taken off. In debt nothing is recorded but what is next to free, so debt is always paid
  back.
- Runs are judged by their **kind** (what ran: a function, the fetches of a session). The first run
  of a kind is recorded in detail at once, on credit. After that each level is taken only where
  there is credit for what it is expected to cost, by what it cost this kind before.
- Where there is none, the kind has a **claim** to that much, and credit is for the oldest claims
  first. A claim holds back a sum once, not a share of the time, so that a kind that comes once in a
  thousand runs finds its sum ready, and one that never comes again costs the others one sample.
- Details are wanted of runs further and further apart (2, 4, 8, ... up to `DETAIL_GAP`), op times
  of all in between. How far beyond its cost the credit must be for a sample is drawn anew each
  time: samples do not fall into step with a program that does something every n-th run.
- Length and status are noted of every run as long as that takes at most half of what the time
  between runs earns beside the price of counting them, also in debt; else of those for which there
  is credit, and others are counted.
- Before eight runs began it is not known how long they take: lengths are noted till then. A lull in
  which runs are only counted looks at no clock: it lasts at most twice as many runs as the last.
- Of some runs no more than the length is noted though there is credit: every other one early, few
  later. By these it is seen what recording slows a run by, counted or not (`controller.Unseen`).
- Deciding costs more than noting a length. Where there is no credit for more there is a **lull**:
  how long the answer stays the same follows from the credit that is missing, and nobody has to ask
  until then. What ran in the meantime is told at once (`passed`).
- With `whole`, the first so many runs of a kind are recorded in detail until `WHOLE_NS` are spent,
  and all others where that fits the budget: what a program of few runs costs is little, and its
  user wants all of it.
- Credit beyond all claims is bounded by what `BURST_STEPS` runs of late earned: an hour of waiting
  is no licence to slow down the hour after it.

>>> budget = Budget(0.05, seed=1)            # 5% of the program's own time
>>> budget.begins("train", now=0)            # a new kind: detail at once, on credit
<Level.DETAIL: 3>
>>> budget.spent(400_000, "train", Level.DETAIL)       # it cost 0.4 ms of a step of 1 ms
>>> round(budget.credit)
-400000
>>> now, costs, levels = 1_400_000, {"LENGTH": 1_000, "TIMES": 60_000, "DETAIL": 400_000}, ""
>>> for step in range(60):                   # 60 more steps of 1 ms, and what each level costs
...     level = budget.begins("train", now)
...     budget.spent(costs[level.name], "train", level)
...     now += 1_000_000 + costs[level.name]
...     levels += level.name[0]
>>> levels                                   # L: length, T: op times, D: detail
'LLLLLLLLLLLDLLLLLLLLLLLLLLLLLLLDLTLTLTLLLDLTLTLTLTLTLTLTLLLL'
>>> f"{budget.overhead:.3f}"                 # of the program's own 61 ms
'0.037'
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Final

from stepscope.metadata.stored.step_summaries import Level

__all__ = [
    "BURST_STEPS",
    "COUNTING",
    "DETAIL_GAP",
    "LULL_NS",
    "MOST_COUNTED",
    "MOST_KINDS",
    "OTHERS",
    "WHOLE_NS",
    "Budget",
    "KindSpending",
    "Level",
]

BURST_STEPS: Final = 8
WHOLE_NS: Final = 1_000_000_000
LULL_NS: Final = 250_000_000
"""The longest lull."""
DETAIL_GAP: Final = 1024
MOST_KINDS: Final = 256
"""Kinds beyond these are judged together, as `OTHERS`: a program that makes a new kind with every
run has no detail at once for each."""
OTHERS: Final = "other steps"

MOST_COUNTED: Final = 4096
"""So many runs of a kind are only counted at most before somebody looks at the clock again."""

_COMPARED_EARLY: Final = range(12, 60)
_COMPARED_LATER: Final = 1 / 256
_PACED: Final = 8
"""How long runs take is not known before so many began: till then lengths are noted."""
_GUESS_NS: Final = 2_000
"""What noting a length is taken to cost until one was noted."""
_DONE_ONCE: Final = 4
COUNTING: Final = 0.3
"""What counting a run is taken to cost, of what noting its length does."""
_SHARE_OF_LENGTHS: Final = 0.5
_PACE: Final = 1 / 16
_OUTLIER: Final = 8.0


@dataclass(slots=True)
class KindSpending:
    """What is known of the runs of one kind.

    `at` counts runs by level. `expected` has, by level, what recording one is expected to cost,
    None where none was. `claim` is the credit that is held for it. `detail_gap` runs after the last
    detailed one, at run `detail_due`, another is wanted. `jitter` times a level's cost must be
    there beyond it for the next sample.
    """

    runs: int = 0
    at: list[int] = field(default_factory=lambda: [0] * len(Level))
    expected: list[float | None] = field(default_factory=lambda: [None] * len(Level))
    claim: float = 0.0
    detail_gap: int = 1
    detail_due: int = 2
    jitter: float = 0.0
    counting: int = 4
    """So many runs are only counted before it is looked at how long they took: twice as many each
    time, up to `MOST_COUNTED`."""

    def expects(self, level: Level) -> float:
        """What that level is expected to cost, by what others cost where it was never tried."""
        found = self.expected[level]
        if found is not None:
            return found
        if level is Level.TIMES:
            return (self.expected[Level.DETAIL] or 0.0) / 2
        if level is Level.DETAIL:
            return self.expected[Level.TIMES] or 0.0
        return _GUESS_NS

    def learn(self, level: Level, ns: float) -> None:
        """Recording a run at a level cost so much. One outlier changes little, two are believed.

        Much of what the very first costs is done once.
        """
        known = self.expected[level]
        if self.runs <= 1 and level >= Level.TIMES:
            self.expected[level] = ns / _DONE_ONCE
            return
        if known is None or self.at[level] == 2:
            self.expected[level] = float(ns)
            return
        seen = min(float(ns), max(_OUTLIER * known, _GUESS_NS))
        self.expected[level] = known + (seen - known) * (0.5 if seen > known else 0.25)


class Budget:
    """Grants the next run as much recording as the program has earned.

    Not for several threads at once.
    """

    def __init__(self, share: float, *, whole: int = 0, seed: int = 0) -> None:
        """`share` of the program's own time is what recording may cost; infinite: no bound.

        `whole` is as the module's text has it.
        """
        if not share > 0:
            raise ValueError(f"a budget is a share of the time above 0; it was {share}")
        self.share = share
        self.whole = whole
        self.credit = 0.0
        """What may be spent now, in nanoseconds; negative in debt."""
        self.own_ns = 0
        """How long the program ran, without what it waited for because of us."""
        self.spent_ns = 0
        """What it waited for."""
        self.first_ns = 0
        """What of that the first run of each kind cost, which are recorded whatever they do."""
        self.kinds: dict[str, KindSpending] = {}
        self._claimants: dict[int, KindSpending] = {}
        """Those that claim, the oldest claim first."""
        self._claims = 0.0
        self._now: int | None = None
        self._uncounted = 0
        """What was spent and is still to be taken off the time that passed."""
        self._last_begin: tuple[int, int] | None = None
        """When the last run began, and what had been spent by then."""
        self._between: float | None = None
        """The program's own time from run to run, of late."""
        self._paused = 0.0
        """How long it was the last time, if that was far longer than usual."""
        self._paced = 0
        """By how many runs that is known."""
        self._chance = random.Random(seed)

    @property
    def overhead(self) -> float:
        """What recording cost so far, as a share of the program's own time."""
        return self.spent_ns / self.own_ns if self.own_ns else 0.0

    def kind_of(self, kind: str) -> str:
        """The kind that runs of a kind are judged with."""
        return kind if kind in self.kinds or len(self.kinds) < MOST_KINDS else OTHERS

    def begins(self, kind: str, now: int) -> Level:
        """A run of a kind is about to begin at this time: what to record of it."""
        self._pass(now)
        self._note_pace(now)
        kind = self.kind_of(kind)
        known = self.kinds.get(kind)
        if known is None:
            known = self.kinds[kind] = KindSpending()
        known.runs += 1
        level = self._choose(known)
        known.at[level] += 1
        return level

    def takes(self, kind: str, now: int) -> None:
        """A run of a kind is about to begin that is recorded in detail, whatever it costs."""
        self._pass(now)
        self._note_pace(now)
        known = self.kinds.setdefault(self.kind_of(kind), KindSpending())
        known.runs += 1
        known.at[Level.DETAIL] += 1

    def lull_ns(self, kind: str) -> int:
        """How long the program runs until there can be credit for more than the least of a kind.

        To be asked where `begins` gave no more than that.
        """
        known = self.kinds[self.kind_of(kind)]
        missing = known.claim - self.credit
        for one in self._claimants.values():
            if one is known:
                break
            missing += one.claim
        return max(0, min(LULL_NS, int(missing / self.share)))

    def least(self, kind: str) -> Level:
        """What is noted of runs of a kind in a lull."""
        known = self.kinds[self.kind_of(kind)]
        return Level.LENGTH if self._affords_length(known) else Level.COUNT

    def _affords_length(self, kind: KindSpending) -> bool:
        """Whether every length of a kind can be noted, also in debt."""
        noting = kind.expects(Level.LENGTH)
        known = kind.expected[Level.COUNT]
        counting = COUNTING * noting if known is None else known
        # Counting is not to be had for less: what is left beside it is what there is to spend.
        earned = self.share * self.between_ns - counting
        paid = noting - counting <= _SHARE_OF_LENGTHS * earned
        return paid or self._paced < _PACED

    def counted_in_lull(self, kind: str) -> int:
        """How many runs of a kind a lull lasts in which they are only counted.

        By how long runs took of late; of these only the last are known, so that it is at most twice
        as many as in the lull before.
        """
        known = self.kinds[self.kind_of(kind)]
        known.counting = min(2 * known.counting, MOST_COUNTED)
        between = self.between_ns
        return min(int(self.lull_ns(kind) / between), known.counting) if between else 0

    @property
    def between_ns(self) -> float:
        """The program's own time from run to run, of late."""
        return self._between or 0.0

    def passed(
        self, kind: str, noted: int, counted: int, cost_ns: float, now: int,
        counting_ns: float | None = None,
    ) -> None:  # fmt: skip
        """So many runs of a kind passed in a lull; noting one length cost so much, and counting one
        so much, if that is known.
        """
        known = self.kinds[self.kind_of(kind)]
        counting = COUNTING * cost_ns if counting_ns is None else counting_ns
        self.spent(int(cost_ns * noted + counting * counted))
        self._pass(now)
        known.expected[Level.LENGTH], known.expected[Level.COUNT] = cost_ns, counting
        if noted + counted:
            self._note_pace(now, noted + counted)
            known.runs += noted + counted
            known.at[Level.LENGTH] += noted
            known.at[Level.COUNT] += counted

    def spent(self, ns: int, kind: str = "", level: Level | None = None) -> None:
        """The program waited so long because of us, for such a run if that is said."""
        self.spent_ns += ns
        self._uncounted += ns
        if self.share != math.inf:
            self.credit -= ns
        known = self.kinds.get(self.kind_of(kind)) if kind else None
        if known is not None and level is not None:
            self.first_ns += ns if known.runs <= 1 else 0
            known.learn(level, ns)

    def validate(self) -> None:
        """Whether the state is one that can be; for tests."""
        assert abs(self._claims - sum(k.claim for k in self.kinds.values())) <= 1e-6 * (
            1 + self._claims
        ), "claims do not add up"
        for kind in self.kinds.values():
            assert sum(kind.at) == kind.runs, "a run without a level"
            assert kind.claim >= 0, "a negative claim"
        assert len(self.kinds) <= MOST_KINDS + 1, "too many kinds"

    def most_credit(self) -> float:
        """What credit can grow to."""
        return self.share * BURST_STEPS * (self._between or 0.0) + self._claims

    # -- deciding ------------------------------------------------------------------------------

    def _choose(self, kind: KindSpending) -> Level:
        first = self.whole if self.spent_ns < WHOLE_NS else 1
        if self.share == math.inf or kind.runs <= max(1, first):
            return self._detailed(kind)
        fits = self.whole and kind.expects(Level.DETAIL) <= self.share * self.between_ns
        wanted = Level.DETAIL if fits or kind.runs >= kind.detail_due else Level.TIMES
        price = kind.expects(wanted) * (1 + kind.jitter)
        if self._is_there(price, kind):
            if self._is_to_compare(kind):
                return self._least(kind)
            self._claim(kind, 0.0)
            kind.jitter = self._chance.random()
            return self._detailed(kind) if wanted is Level.DETAIL else Level.TIMES
        self._claim(kind, price)
        return self._least(kind)

    def _is_to_compare(self, kind: KindSpending) -> bool:
        """Whether a run is recorded less than it could be, to see what recording others slows."""
        early = kind.runs in _COMPARED_EARLY and kind.runs % 2 == 0 and not self.whole
        return early or self._chance.random() < _COMPARED_LATER

    def _is_there(self, price: float, kind: KindSpending) -> bool:
        """Whether there is credit for that, beside what older claims hold."""
        if self.credit < price:
            return False
        left = self.credit - price
        if left >= self._claims:
            return True
        for one in self._claimants.values():
            if one is kind:
                break
            left -= one.claim
            if left < 0:
                return False
        return True

    def _least(self, kind: KindSpending) -> Level:
        """What is noted where there is no credit for more."""
        if self._affords_length(kind):
            return Level.LENGTH
        cost = kind.expects(Level.LENGTH)
        return Level.LENGTH if self.credit - self._claims >= cost else Level.COUNT

    def _detailed(self, kind: KindSpending) -> Level:
        kind.detail_gap = min(2 * kind.detail_gap, DETAIL_GAP)
        kind.detail_due = kind.runs + kind.detail_gap
        return Level.DETAIL

    def _claim(self, kind: KindSpending, claim: float) -> None:
        """Change what a kind claims; one that claims already keeps its place."""
        self._claims += claim - kind.claim
        kind.claim = claim
        if claim:
            self._claimants[id(kind)] = kind
        elif self._claimants.pop(id(kind), None) is not None and not self._claimants:
            self._claims = 0.0

    # -- time ----------------------------------------------------------------------------------

    def _pass(self, now: int) -> None:
        if self._now is None:
            self._now = now
        passed = now - self._now - self._uncounted
        if passed < 0:
            # Several threads waited at once, or the cost is known before the clock is read.
            self._uncounted = -passed
            self._now = max(now, self._now)
            return
        self._now, self._uncounted = now, 0
        self.own_ns += passed
        if self.share != math.inf:
            self.credit = min(self.credit + self.share * passed, self.most_credit())

    def _note_pace(self, now: int, runs: int = 1) -> None:
        """So many runs began since the last time that this was told."""
        last, self._last_begin = self._last_begin, (now, self.spent_ns)
        if last is None:
            return
        self._paced += runs
        wall = max(0, now - last[0])
        # Of what was charged some was beside the program: at least half of the time is its own.
        own = max(wall - (self.spent_ns - last[1]), wall / 2) / runs
        if self._between is None:
            self._between = own
            return
        # One long pause changes little, two are believed.
        most = _OUTLIER * max(self._between, self._paused)
        self._paused = min(own, most) if own > _OUTLIER * self._between else 0.0
        seen = min(own, most)
        weight = _PACE if seen > self._between else 2 * _PACE
        self._between += (seen - self._between) * (1 - (1 - weight) ** runs)
