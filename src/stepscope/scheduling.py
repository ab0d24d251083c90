"""Which steps of a loop are recorded: a function from a step's number to what is done with it.

One kind of schedule for everything that sees a loop go by: session hooks, the Keras callback and
the command line. Steps are numbered from 0. A schedule has no state: asked twice about a step, in
any order and from any thread, it says the same.
"""

from __future__ import annotations

import enum
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from stepscope.errors import InvalidArgumentError

__all__ = [
    "Action",
    "Schedule",
    "StepCounter",
    "as_schedule",
    "every",
    "parse_steps",
    "schedule",
]


class Action(enum.Enum):
    """What is done with a step."""

    SKIP = "skip"
    """Nothing: it runs as it would without us."""
    WARMUP = "warmup"
    """It is recorded and the record thrown away: the next one no longer pays for the first start
    of the recorder."""
    RECORD = "record"
    """It is recorded."""


class Schedule(ABC):
    """A function from a step's number to an `Action`. Made by `schedule`, `every`, `parse_steps`.

    Wherever a schedule is asked for, any function from an int to an `Action` (or to a bool: record
    or not) does as well, and so does text that `parse_steps` takes.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self, step: int) -> Action:
        """What is done with this step."""

    def ended(self, step: int) -> bool:
        """Whether neither this step nor any after it is more than skipped.

        True is certain; False only means that nothing is known.
        """
        del step
        return False

    def among(self, steps: Iterable[int]) -> Action:
        """What is done with a run that makes several steps: the most any of them asks for."""
        actions = {self(step) for step in steps}
        for action in (Action.RECORD, Action.WARMUP):
            if action in actions:
                return action
        return Action.SKIP


def schedule(
    wait: int = 0, warmup: int = 0, active: int = 1, repeat: int = 0, skip_first: int = 0
) -> Schedule:
    """Skip `skip_first` steps; then, over and over, skip `wait`, warm up `warmup`, record `active`.

    `repeat` is how often that cycle comes; 0 means as long as there are steps. The arguments mean
    what they mean to `torch.profiler.schedule`.
    """
    return _Cycle(
        wait=_whole("schedule", "wait", wait, 0),
        warmup=_whole("schedule", "warmup", warmup, 0),
        active=_whole("schedule", "active", active, 1),
        repeat=_whole("schedule", "repeat", repeat, 0),
        skip_first=_whole("schedule", "skip_first", skip_first, 0),
    )


def every(n: int, active: int = 1) -> Schedule:
    """Record `active` steps at every `n`-th: 0, n, 2n and so on.

    The first is step 0, so that a short program is seen too; it is the one that also pays for what
    a program does only once. `schedule(wait=n - 1)` records the last of each `n` instead.
    """
    n = _whole("every", "n", n, 1)
    active = _whole("every", "active", active, 1)
    if active > n:
        raise _invalid(f"every: active is {active}; allowed is 1 to n, which is {n}")
    return _Every(n, active)


def never() -> Schedule:
    """Record no step."""
    return _Steps(())


def parse_steps(text: str) -> Schedule:
    """The steps a text names, as `--steps` takes it.

    `"10:15"` is 10 to 14, as in Python's slices; `"10:"` all from 10, `":5"` the first five,
    `"0:100:10"` every tenth of the first hundred, `"7"` that one step, `"0,10:15"` both.
    """
    if not isinstance(text, str):
        raise _invalid(f"steps: {text!r} is of type {type(text).__name__}; {_STEPS_ALLOWED}")
    return _Steps(tuple(_parse_part(part.strip(), text) for part in text.split(",")))


def as_schedule(value: Any) -> Schedule:
    """A schedule from what a caller passed as one; `TypeError` for what cannot be one."""
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        return parse_steps(value)
    if callable(value) and not isinstance(value, type):
        return _Custom(value)
    raise TypeError(
        f"expected a schedule, found {type(value).__name__} {value!r:.60}; pass "
        'stepscope.schedule(wait=..., active=...), stepscope.every(n), a text such as "10:15", or '
        "a function from a step's number to an Action"
    )


# -- which step a session's next run is --------------------------------------------------------

_READ_EVERY: Final = 16
_LOOK_AHEAD: Final = 64
"""The most steps a run is asked about beforehand; beyond, reading is cheaper than asking."""
_LOOK_BACK: Final = 10_000
"""How many of the steps that others made since the last reading are looked at."""


class StepCounter:
    """Counts the runs of one session by its global step, or where that does not move by 1 each.

    The step of a run is the value of the global step before it. Reading that is a run of its own,
    so it is not read before every run: between two readings it is taken to lie between the last
    one and as far on as the runs since can have moved it at the speed seen so far. Only if the
    schedule wants any step in there is it read again, and every 16th run in any case. A loop of one
    worker is thus recorded at exactly the steps named. Where others move the step on, unevenly, a
    step may be noticed late, by 16 runs at the most; none is left out.
    """

    def __init__(self, read: Callable[[], Any] | None) -> None:
        """`read` reads the global step; without it the runs are counted from 0."""
        self._runs = 0
        """How many runs began since the global step was known to be `_at`."""
        self._speed = 1
        self._read_after = 1
        self._read = read
        self._at = -1 if read is None else int(read()) - 1
        self._over = False
        """Whether the schedule has no further step."""

    def wanted(self, schedule: Schedule) -> tuple[int, Action] | None:
        """The step of the next run and what the schedule wants of it; None: nothing.

        To be called once before each run, in place of `next`. A step that others made since the
        last run, and that the schedule wants, is wanted of this one.
        """
        steps = None if self._over else self.next(schedule)
        if steps is None:
            return None
        if schedule.ended(steps[0]):
            self._over = True
            return None
        action = schedule.among(steps)
        return None if action is Action.SKIP else (steps[-1], action)

    def next(self, schedule: Schedule) -> range | None:
        """The steps the next run stands for; to be called once before each run.

        The last of them is its own; those before it were made by others since. None if the
        schedule skips the run in any case.
        """
        if self._read is None:
            self._at += 1
            return range(self._at, self._at + 1)
        self._runs += 1
        ahead = self._runs * self._speed
        if (
            self._runs < self._read_after
            and ahead <= _LOOK_AHEAD
            and schedule.among(range(self._at, self._at + ahead + 1)) is Action.SKIP
        ):
            return None
        before, self._at = self._at, int(self._read())
        self._speed = max(1, -(-(self._at - before) // self._runs))
        self._read_after = min(2 * self._read_after, _READ_EVERY)
        self._runs = 0
        first = min(before + 1, self._at)
        return range(max(first, self._at - _LOOK_BACK), self._at + 1)


# -- the kinds of schedules ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cycle(Schedule):
    wait: int
    warmup: int
    active: int
    repeat: int
    skip_first: int

    def __call__(self, step: int) -> Action:
        turn, place = divmod(step - self.skip_first, self.wait + self.warmup + self.active)
        if turn < 0 or (self.repeat and turn >= self.repeat) or place < self.wait:
            return Action.SKIP
        return Action.WARMUP if place < self.wait + self.warmup else Action.RECORD

    def ended(self, step: int) -> bool:
        length = self.wait + self.warmup + self.active
        return bool(self.repeat) and step >= self.skip_first + self.repeat * length


@dataclass(frozen=True, slots=True)
class _Every(Schedule):
    n: int
    active: int

    def __call__(self, step: int) -> Action:
        return Action.RECORD if step % self.n < self.active else Action.SKIP


@dataclass(frozen=True, slots=True)
class _Steps(Schedule):
    parts: tuple[tuple[int, int | None, int], ...]
    """Each (start, stop, stride); a stop of None is no stop."""

    def __call__(self, step: int) -> Action:
        for start, stop, stride in self.parts:
            if step >= start and (stop is None or step < stop) and (step - start) % stride == 0:
                return Action.RECORD
        return Action.SKIP

    def ended(self, step: int) -> bool:
        return all(stop is not None and step >= stop for _, stop, _ in self.parts)


@dataclass(frozen=True, slots=True)
class _Custom(Schedule):
    function: Callable[[int], Any]

    def __call__(self, step: int) -> Action:
        action = self.function(step)
        if isinstance(action, Action):
            return action
        if isinstance(action, bool):
            return Action.RECORD if action else Action.SKIP
        raise _invalid(
            f"schedule: {self.function!r} gave {action!r} for step {step}; "
            "allowed are Action.SKIP, Action.WARMUP, Action.RECORD, True and False"
        )


_PART = re.compile(r"(\d*)(?:(:)(\d*)(?::(\d*))?)?")
_STEPS_ALLOWED = (
    'write "10:15" for steps 10 to 14, "10:" for all from 10, ":5" for the first five, '
    '"0:100:10" for every tenth, "7" for one step, with commas between several'
)


def _parse_part(part: str, text: str) -> tuple[int, int | None, int]:
    match = _PART.fullmatch(part)
    if not part or match is None:
        raise _invalid(f"steps: {part!r} in {text!r} names no steps; {_STEPS_ALLOWED}")
    start = int(match[1] or 0)
    if match[2] is None:
        return start, start + 1, 1
    stop = int(match[3]) if match[3] else None
    stride = int(match[4]) if match[4] else 1
    if stop is not None and stop <= start:
        raise _invalid(
            f"steps: {part!r} in {text!r} holds no step: it ends before {stop} and starts at "
            f"{start}; {_STEPS_ALLOWED}"
        )
    if stride == 0:
        raise _invalid(f"steps: {part!r} in {text!r} has stride 0; allowed is 1 or more")
    return start, stop, stride


def _whole(function: str, name: str, value: Any, least: int) -> int:
    """`value` as an int, if it is a whole number of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise _invalid(
            f"{function}: {name} is {value!r}, of type {type(value).__name__}; "
            f"allowed is a whole number, {least} or more"
        )
    if number < least:
        raise _invalid(f"{function}: {name} is {number}; allowed is {least} or more")
    return number


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError.without_op(message)
