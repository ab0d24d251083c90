"""What the user wants to know of: conditions, written as text, and what they say of a run.

    slow 3x             a run took three times as long as the median of its kind, itself or with
                        what came between it and the run before
    memory 2 GB         tensors took more than that
    error               a run failed
    retracing           a function's graph was built again
    SIGUSR2             the signal came (or any other that Python can handle)
    file PATH           a file of that name appeared; it is removed

>>> parse_trigger("slow 2.5x")
Slow(times=2.5)
>>> parse_trigger("slow 2.5x").why(Took(52_000_000), Usual(100, 5_000_000, 5_100_000))
'took 52 ms, 10.4 times the 5 ms that are usual'
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from stepscope.errors import InvalidArgumentError

__all__ = [
    "DEFAULT_TRIGGERS",
    "ErrorTrigger",
    "FileTrigger",
    "MemoryTrigger",
    "Retracing",
    "SignalTrigger",
    "Slow",
    "Took",
    "Trigger",
    "Usual",
    "parse_share",
    "parse_size",
    "parse_trigger",
    "parse_triggers",
]

DEFAULT_TRIGGERS: Final = ("slow 3x", "error", "retracing", "SIGUSR2")
_LEAST_RUNS: Final = 10
"""Before so many runs of a kind nothing is usual."""
_LEAST_NS: Final = 1_000_000
"""What is longer than usual by less is no slow step."""
_SIZES: Final = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE: Final = re.compile(r"([0-9.]+)\s*([kmgt]?i?b?)", re.IGNORECASE)


class Took(NamedTuple):
    """A run's own length, and what passed before it since the run before on its thread."""

    length_ns: int
    wait_ns: int = 0
    failed: str = ""
    """How it ended, where that was not well."""
    peak_bytes: int = 0


class Usual(NamedTuple):
    """Medians of the runs of its kind."""

    runs: int
    length_ns: float
    period_ns: float
    """With what passed before it."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A run took so many times longer than usual."""

    times: float

    def why(self, took: Took, usual: Usual) -> str:
        """In words, where it is so; else nothing."""
        if usual.runs < _LEAST_RUNS:
            return ""
        length, period = took.length_ns, took.length_ns + took.wait_ns
        waited = max(0.0, usual.period_ns - usual.length_ns)
        said = []
        if self._is_slow(length, usual.length_ns):
            said.append(f"took {_ms(length)}, {_times(length, usual.length_ns)} that are usual")
        # Where both are long, each for itself: a slow run does not make what was before it late.
        late = period if not said else took.wait_ns + usual.length_ns
        if self._is_slow(late, usual.period_ns):
            said.append(
                f"began {_ms(took.wait_ns)} after the run before it, where {_ms(waited)} are "
                "usual: the program, or its input, was late"
            )
        return "; ".join(said)

    def excess(self, took: Took, usual: Usual) -> float:
        """How many times as long as usual it took, itself or with what came before it.

        >>> Slow(3).excess(Took(80_000_000), Usual(100, 10_000_000, 10_000_000))
        8.0
        """
        if usual.runs < _LEAST_RUNS:
            return 0.0
        period = took.length_ns + took.wait_ns
        return max(took.length_ns / max(usual.length_ns, 1.0), period / max(usual.period_ns, 1.0))

    def limits(self, usual: Usual) -> tuple[float, float]:
        """Above which length, or period, a run is slow; infinite where nothing is usual yet."""
        if usual.runs < _LEAST_RUNS:
            return math.inf, math.inf
        return self._limit(usual.length_ns), self._limit(usual.period_ns)

    def _limit(self, usual: float) -> float:
        return max(self.times * usual, usual + _LEAST_NS)

    def _is_slow(self, ns: float, usual: float) -> bool:
        return ns > self._limit(usual)


@dataclass(frozen=True, slots=True)
class MemoryTrigger:
    """Tensors took more than so many bytes."""

    limit: int

    def why(self, took: Took, usual: Usual) -> str:  # noqa: ARG002
        """In words, where it is so; else nothing."""
        if took.peak_bytes <= self.limit:
            return ""
        return f"held {took.peak_bytes / 2**20:,.1f} MB, more than {self.limit / 2**20:,.1f} MB"


@dataclass(frozen=True, slots=True)
class ErrorTrigger:
    """A run failed."""

    def why(self, took: Took, usual: Usual) -> str:  # noqa: ARG002
        """In words, where it is so; else nothing."""
        return f"ended with {took.failed}" if took.failed else ""


@dataclass(frozen=True, slots=True)
class Retracing:
    """A function's graph was built again."""


@dataclass(frozen=True, slots=True)
class SignalTrigger:
    """A signal came."""

    signal: signal.Signals


@dataclass(frozen=True, slots=True)
class FileTrigger:
    """A file appeared."""

    path: Path


Trigger: TypeAlias = Slow | MemoryTrigger | ErrorTrigger | Retracing | SignalTrigger | FileTrigger


def parse_trigger(text: str) -> Trigger:
    """The condition that a text says; `InvalidArgumentError` for one that is none."""
    word, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if word == "slow" and (times := re.fullmatch(r"([0-9.]+)\s*(x|times)", rest)):
        return Slow(_number(times[1], text))
    if word == "memory" and rest:
        return MemoryTrigger(parse_size(rest))
    if word == "error" and not rest:
        return ErrorTrigger()
    if word == "retracing" and not rest:
        return Retracing()
    if word == "file" and rest:
        return FileTrigger(Path(rest).absolute())
    name = rest if word == "signal" else text.strip()
    if name in signal.Signals.__members__:
        return SignalTrigger(signal.Signals[name])
    raise InvalidArgumentError.without_op(
        f"there is no trigger {text!r}; there are: slow 3x, memory 2 GB, error, retracing, "
        "SIGUSR2, file PATH",
    )


def parse_size(given: str | float) -> int:
    """A number of bytes, or text.

    >>> parse_size("64 MB"), parse_size(1000), parse_size("1.5 GiB")
    (67108864, 1000, 1610612736)
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        if given > 0:
            return int(given)
    elif isinstance(given, str) and (found := _SIZE.fullmatch(given.strip())):
        unit = found[2].upper().replace("I", "")
        unit = unit if unit.endswith("B") or not unit else f"{unit}B"
        size = int(_number(found[1], given) * _SIZES[unit])
        if size > 0:
            return size
    raise InvalidArgumentError.without_op(
        f"a size must be like 64 MB, 1 GB or a number of bytes; it was {given!r}"
    )


def parse_share(given: str | float | None) -> float:
    """A budget: text such as 5%, a number such as 0.05; "off" or None for no bound.

    >>> parse_share("5%"), parse_share(0.01), parse_share("off")
    (0.05, 0.01, inf)
    """
    if given is None or given == "off":
        return float("inf")
    share = 0.0
    if isinstance(given, int | float) and not isinstance(given, bool):
        share = float(given)
    elif isinstance(given, str) and (found := re.fullmatch(r"([0-9.]+)\s*%", given.strip())):
        share = _number(found[1], given) / 100
    if 0 < share <= 1:
        return share
    raise InvalidArgumentError.without_op(
        f"a budget is a share of the program's time: 1%, 5%, 0.05, or off for no bound; it was "
        f"{given!r}",
    )


def parse_triggers(given: Iterable[str | Trigger] | None) -> tuple[Trigger, ...]:
    """What a user gives for triggers; None: those of `DEFAULT_TRIGGERS`."""
    found = DEFAULT_TRIGGERS if given is None else [given] if isinstance(given, str) else given
    return tuple(parse_trigger(one) if isinstance(one, str) else one for one in found)


def _number(text: str, of: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError.without_op(f"{text!r} is no number, in {of!r}") from None


def _ms(ns: float) -> str:
    if ns >= 1e9:
        return f"{ns / 1e9:.3g} s"
    return f"{ns / 1e6:.3g} ms" if ns >= 1e5 else f"{ns / 1e3:.3g} us"


def _times(ns: float, usual: float) -> str:
    return f"{ns / max(usual, 1):.3g} times the {_ms(usual)}"
