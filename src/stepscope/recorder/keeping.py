"""What to keep of the runs that were noted: decided after each run, from what was noted of it.

`Keeper` is a state without threads, clocks or files. It is told of each run that ended, and answers
with `Changes`: runs to write now, and runs that nobody wants any more.

Runs are kept for **reasons**, and as long as they have one:

    failed      it did not end well
    trigger     something happened in it that the user wants to know of (`Kept.why` says what); of
                too many slow ones those stay that were slowest for what is usual
    asked       the program itself had it traced
    before      its op times were noted in the seconds before such a run, or before somebody asked
    slowest     one of the slowest of its kind
    first       one of the first of its kind
    latest      one of the latest of its kind; written only at the end, or when something else keeps
    it sample      one of a random sample of its kind, to compare others with

Noted runs are **held** in memory while a trigger could still ask for them (`before` runs,
`before_s` seconds), or as one of the latest of their kind, and written when a reason comes; one
that is displaced (by a slower one, say) is removed again. So of a million runs some hundred are
written, and nothing is written twice. Of triggers that come within six times `before_s` each keeps
its own run, and only the first what was before it: a program that goes wrong at every turn is not
recorded in full for that.

Bounds hold at every moment: held runs take at most `memory` bytes, written ones at most `disk`
bytes. What has to go is the least interesting first, in the order above from its end, and the
oldest of these; it is counted by kind and reason.

>>> keeper = Keeper(Keep(slowest=1, first=1, latest=1, sample=0), memory=1000, disk=1000)
>>> def ends(number, ms, **more):
...     return keeper.ended(Noted(number, "train", ended_ns=number * 1_000_000_000,
...                               length_ns=ms * 1_000_000, size=100, **more))
>>> ends(1, 5)                     # the first, and the slowest so far
Changes(write=(1,), forget=())
>>> keeper.reasons(1)
('slowest', 'first', 'latest')
>>> ends(2, 4)                     # nothing but the latest: held, not written
Changes(write=(), forget=())
>>> ends(3, 9)                     # slower than run 1, which stays as the first
Changes(write=(3,), forget=())
>>> keeper.trigger("asked for by the program", now=3_500_000_000)
Changes(write=(2,), forget=())
>>> keeper.reasons(2), keeper.reasons(3)
(('before',), ('before', 'slowest', 'latest'))
>>> ends(4, 11).write              # run 3 is no longer the slowest, but is kept for the trigger
(4,)
>>> keeper.reasons(3)
('before',)
>>> for number in (1, 2, 3, 4):
...     changes = keeper.written(number, 300)
>>> changes                        # 1,200 bytes are more than 1,000: no trigger wants run 4
Changes(write=(), forget=(4,))
>>> sorted(keeper.dropped.items())
[(('train', 'latest'), 1), (('train', 'slowest'), 1)]
"""

from __future__ import annotations

import bisect
import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple

from stepscope.errors import InvalidArgumentError

__all__ = ["REASONS", "Changes", "Keep", "Keeper", "Kept", "Noted", "as_keep"]

REASONS: Final = ("failed", "trigger", "asked", "before", "slowest", "first", "latest", "sample")
"""The most interesting first."""
_QUIET: Final = 6
_NEVER: Final = 1 << 62
_WHYS: Final = 5
"""So many triggers are named with a run that several ask for."""
_RANK: Final = {reason: place for place, reason in enumerate(REASONS)}


@dataclass(frozen=True, slots=True)
class Keep:
    """How many runs of each kind are kept for each reason.

    Before a trigger that is at most `before` runs of all kinds, of the last `before_s` seconds.
    """

    failed: int = 100
    trigger: int = 100
    before: int = 100
    slowest: int = 5
    first: int = 3
    latest: int = 5
    sample: int = 20
    before_s: float = 10.0
    asked: int = 1000


def as_keep(given: Keep | Mapping[str, float] | None) -> Keep:
    """What a user gives: a `Keep`, or some of its fields by name.

    >>> as_keep({"slowest": 10}).slowest
    10
    """
    if given is None:
        return Keep()
    if isinstance(given, Keep):
        return given
    known = {one.name for one in fields(Keep)}
    for name, value in given.items():
        if name not in known:
            raise InvalidArgumentError.without_op(
                f"keep has no {name!r}; it has {', '.join(sorted(known))}"
            )
        if not isinstance(value, int | float) or value < 0:
            raise InvalidArgumentError.without_op(
                f"keep: {name} must be a number of at least 0; it was {value!r}"
            )
    whole = {name: value if name == "before_s" else int(value) for name, value in given.items()}
    return Keep(**whole)  # type: ignore[arg-type]


class Noted(NamedTuple):
    """A run that ended. `size` is what it takes in memory, `sampled` whether a sample may have it:
    op times were noted, and for no other reason than that their turn had come.
    """

    number: int
    kind: str
    ended_ns: int
    length_ns: int
    size: int
    failed: bool = False
    sampled: bool = True
    why: str = ""
    """What triggered with this run; "" where nothing did."""
    asked: bool = False
    rank: float = 0.0
    """Of runs that triggered: what is higher stays where there are too many."""


class Kept(NamedTuple):
    """That a run was kept, for which reasons, and in words why, where a trigger was among them."""

    number: int
    kind: str
    reasons: tuple[str, ...]
    why: str


class Changes(NamedTuple):
    """What to do: runs to write, and runs that were written and are to be removed."""

    write: tuple[int, ...] = ()
    forget: tuple[int, ...] = ()


@dataclass(slots=True)
class _Run:
    kind: str
    ended_ns: int
    held: int
    """Bytes in memory; 0 once it is written or let go."""
    sampled: bool
    reasons: set[str] = field(default_factory=set)
    why: list[str] = field(default_factory=list)
    is_written: bool = False
    on_disk: int = 0

    @property
    def rank(self) -> int:
        return min((_RANK[reason] for reason in self.reasons), default=len(REASONS))


@dataclass(slots=True)
class _Kind:
    """The runs of a kind that are kept for a reason of which there are so many."""

    seen: int = 0
    sampled: int = 0
    failed: deque[int] = field(default_factory=deque)
    trigger: list[tuple[float, int]] = field(default_factory=list)
    """With their ranks, in their order."""
    asked: deque[int] = field(default_factory=deque)
    slowest: list[tuple[int, int]] = field(default_factory=list)
    latest: deque[int] = field(default_factory=deque)
    sample: list[int] = field(default_factory=list)


class Keeper:
    """Decides which of the noted runs are written, held and let go.

    Not for several threads at once.
    """

    def __init__(self, keep: Keep, *, memory: int, disk: int, seed: int = 0) -> None:
        self.keep = keep
        self.memory = memory
        self.disk = disk
        self.held_bytes = 0
        self.disk_bytes = 0
        self.dropped: Counter[tuple[str, str]] = Counter()
        """By kind and reason, how many runs had to go that had one. Of reason "before": those that
        did not fit into memory until something could have asked for them."""
        self._runs: dict[int, _Run] = {}
        self._kinds: dict[str, _Kind] = {}
        self._recent: deque[int] = deque()
        self._quiet_until = 0
        self._chance = random.Random(seed)
        self._released: list[int] = []
        self._write: dict[int, None] = {}
        self._forget: dict[int, None] = {}

    # -- what happens --------------------------------------------------------------------------

    def ended(self, run: Noted) -> Changes:
        """A run ended."""
        kind = self._kinds.setdefault(run.kind, _Kind())
        kind.seen += 1
        self._runs[run.number] = _Run(run.kind, run.ended_ns, run.size, run.sampled)
        self.held_bytes += run.size
        if run.sampled:
            self._recent.append(run.number)
        self._give_reasons(run, kind)
        if not self._runs[run.number].reasons and not run.sampled:
            self._remove(run.number)
        self._let_go(run.ended_ns)
        self._fit_memory()
        if run.why and run.number in self._runs:
            self._runs[run.number].why.append(run.why)
            if run.ended_ns >= self._quiet_until:
                self._quiet_until = run.ended_ns + int(_QUIET * self.keep.before_s * 1e9)
                self._keep_before(run.why, run.ended_ns, run.number)
        return self._changes()

    def passed(self, kind: str, runs: int) -> None:
        """So many runs of a kind ended of which nothing is to be kept."""
        self._kinds.setdefault(kind, _Kind()).seen += runs

    def slowest_ns(self, kind: str) -> int:
        """What a run of a kind must take longer than, to be one of the slowest; -1 for any."""
        known = self._kinds.get(kind)
        if not self.keep.slowest:
            return _NEVER
        if known is None or len(known.slowest) < self.keep.slowest:
            return -1
        return known.slowest[0][0]

    def trigger(self, why: str, now: int) -> Changes:
        """Somebody asks for what was before now."""
        self._keep_before(why, now, None)
        return self._changes()

    def written(self, number: int, size: int) -> Changes:
        """A run is written, and takes so much on disk; what has to go for that."""
        run = self._runs[number]
        run.on_disk = size
        self.disk_bytes += size
        return self.fit_disk()

    def fit_disk(self, other: int = 0) -> Changes:
        """What has to go so that written runs and so many other bytes are within bounds."""
        if self.disk_bytes + other > self.disk:
            order = sorted((-run.rank, number) for number, run in self._written() if run.on_disk)
            for _, number in order:
                # A little more than needed, so that this is not done again for the next run.
                if self.disk_bytes + other <= self.disk * 0.95:
                    break
                self._drop(number)
        return self._changes()

    def unwritable(self, number: int) -> Changes:
        """A run could not be written: nothing of it is there."""
        run = self._runs.pop(number, None)
        if run is not None:
            self.held_bytes -= run.held
            self._released.append(number)
        return self._changes()

    def closes(self) -> Changes:
        """Nothing more comes: the latest are written, too."""
        for number, run in list(self._runs.items()):
            if run.reasons and not run.is_written:
                self._keep(number)
        return self._changes()

    # -- what is known -------------------------------------------------------------------------

    def reasons(self, number: int) -> tuple[str, ...]:
        """Why a run is kept, the most interesting first; nothing where it is not."""
        run = self._runs.get(number)
        return () if run is None else tuple(r for r in REASONS if r in run.reasons)

    def kept(self) -> Iterator[Kept]:
        """The runs that are written, in the order in which they ended."""
        for number, run in sorted(self._written()):
            yield Kept(number, run.kind, self.reasons(number), "; ".join(run.why))

    def why(self, number: int) -> Kept:
        """The same of one run."""
        run = self._runs[number]
        return Kept(number, run.kind, self.reasons(number), "; ".join(run.why))

    def holds(self, number: int) -> bool:
        """Whether a run is still wanted: held, written or about to be."""
        return number in self._runs

    def disk_bytes_of(self, number: int) -> int:
        """What a run is known to take on disk."""
        run = self._runs.get(number)
        return run.on_disk if run is not None else 0

    def released(self) -> list[int]:
        """The runs that are no longer held, since this was asked last: written, or not wanted."""
        found, self._released = self._released, []
        return found

    def validate(self) -> None:
        """Whether the state is one that can be, and within its bounds; for tests."""
        runs = self._runs.values()
        assert self.held_bytes == sum(run.held for run in runs), "held bytes do not add up"
        assert self.disk_bytes == sum(run.on_disk for run in runs), "written bytes do not add up"
        assert self.held_bytes <= self.memory, "more is held than the bound of memory"
        for name, kind in self._kinds.items():
            for reason, numbers in (
                ("failed", kind.failed),
                ("asked", kind.asked),
                ("trigger", kind.trigger),
                ("slowest", kind.slowest),
                ("latest", kind.latest),
                ("sample", kind.sample),
            ):
                assert len(numbers) <= getattr(self.keep, reason), f"{name}: too many {reason}"

    # -- reasons -------------------------------------------------------------------------------

    def _give_reasons(self, run: Noted, kind: _Kind) -> None:
        keep, number = self.keep, run.number
        if kind.seen <= keep.first:
            self._give(number, "first")
        if run.why and keep.trigger:
            self._add_trigger(run, kind)
        for reason, is_so, numbers in (
            ("failed", run.failed, kind.failed),
            ("asked", run.asked, kind.asked),
        ):
            most = getattr(keep, reason)
            if not is_so or not most:
                continue
            numbers.append(number)
            self._give(number, reason)
            if len(numbers) > most:
                self._take(numbers.popleft(), reason, dropped=True)
        if keep.slowest:
            bisect.insort(kind.slowest, (run.length_ns, number))
            if len(kind.slowest) > keep.slowest:
                _, fastest = kind.slowest.pop(0)
                if fastest != number:
                    self._take(fastest, "slowest")
            if any(number == one for _, one in kind.slowest):
                self._give(number, "slowest")
        if keep.latest:
            kind.latest.append(number)
            self._give(number, "latest", writes=False)
            if len(kind.latest) > keep.latest:
                self._take(kind.latest.popleft(), "latest")
        if run.sampled and keep.sample:
            kind.sampled += 1
            self._sample(number, kind)

    def _add_trigger(self, run: Noted, kind: _Kind) -> None:
        """Of too many runs that triggered the lowest rank goes, of several the oldest."""
        bisect.insort(kind.trigger, (run.rank, run.number))
        lowest = kind.trigger.pop(0)[1] if len(kind.trigger) > self.keep.trigger else 0
        if lowest == run.number:
            self.dropped[run.kind, "trigger"] += 1
            return
        self._give(run.number, "trigger")
        if lowest:
            self._take(lowest, "trigger", dropped=True)

    def _sample(self, number: int, kind: _Kind) -> None:
        """Every sampled run is as likely to be among them as any other."""
        size = self.keep.sample
        if len(kind.sample) < size:
            kind.sample.append(number)
            self._give(number, "sample")
            return
        place = self._chance.randrange(kind.sampled)
        if place < size:
            displaced, kind.sample[place] = kind.sample[place], number
            self._give(number, "sample")
            self._take(displaced, "sample")

    def _keep_before(self, why: str, now: int, number: int | None) -> None:
        since = now - int(self.keep.before_s * 1e9)
        for recent in self._recent:
            run = self._runs.get(recent)
            if run is None or run.ended_ns < since or recent == number:
                continue
            self._give(recent, "before")
            said = f"before: {why}"
            if said not in run.why and len(run.why) < _WHYS:
                run.why.append(said)

    def _give(self, number: int, reason: str, *, writes: bool = True) -> None:
        self._runs[number].reasons.add(reason)
        if writes:
            self._keep(number)

    def _take(self, number: int, reason: str, *, dropped: bool = False) -> None:
        run = self._runs.get(number)
        if run is None:
            return
        run.reasons.discard(reason)
        if dropped:
            self.dropped[run.kind, reason] += 1
        if not run.reasons and (run.is_written or not run.sampled):
            self._remove(number)

    def _keep(self, number: int) -> None:
        run = self._runs[number]
        if not run.is_written:
            run.is_written = True
            self.held_bytes -= run.held
            run.held = 0
            self._write[number] = None
            self._released.append(number)

    # -- bounds --------------------------------------------------------------------------------

    def _let_go(self, now: int) -> None:
        """Runs that no trigger can ask for any more, and that are kept for nothing."""
        since = now - int(self.keep.before_s * 1e9)
        while self._recent:
            run = self._runs.get(self._recent[0])
            if len(self._recent) <= self.keep.before and run is not None and run.ended_ns >= since:
                break
            number = self._recent.popleft()
            if run is not None and not run.reasons:
                self._remove(number)

    def _fit_memory(self) -> None:
        """The oldest that are held for nothing but a trigger go first, then the latest of kinds."""
        while self.held_bytes > self.memory and self._recent:
            number = self._recent.popleft()
            run = self._runs.get(number)
            if run is not None and not run.reasons:
                self.dropped[run.kind, "before"] += 1
                self._remove(number)
        if self.held_bytes > self.memory:
            held = [number for number, run in self._runs.items() if run.held]
            for number in held:
                if self.held_bytes <= self.memory:
                    break
                self.dropped[self._runs[number].kind, "latest"] += 1
                self._remove(number)

    def _written(self) -> Iterator[tuple[int, _Run]]:
        return ((number, run) for number, run in self._runs.items() if run.is_written)

    def _drop(self, number: int) -> None:
        run = self._runs[number]
        for reason in run.reasons:
            self.dropped[run.kind, reason] += 1
        self._remove(number)

    def _remove(self, number: int) -> None:
        run = self._runs.pop(number)
        self._released.append(number)
        self.held_bytes -= run.held
        self.disk_bytes -= run.on_disk
        if run.is_written:
            self._forget[number] = None
        kind = self._kinds[run.kind]
        for numbers in (kind.failed, kind.asked, kind.latest, kind.sample):
            if number in numbers:
                numbers.remove(number)
        kind.slowest = [one for one in kind.slowest if one[1] != number]
        kind.trigger = [one for one in kind.trigger if one[1] != number]

    def _changes(self) -> Changes:
        """What was decided since the last time; what was both is neither."""
        both = self._write.keys() & self._forget.keys()
        write = tuple(number for number in self._write if number not in both)
        forget = tuple(number for number in self._forget if number not in both)
        self._write.clear()
        self._forget.clear()
        return Changes(write, forget)
