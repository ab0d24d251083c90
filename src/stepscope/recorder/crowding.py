"""`Crowding`: how much longer things take here than the processor needs for them.

A budget is a share of the time that passes by the clock. On a machine that has more to do than it
has processors a program waits for its turn again and again, and what we compute makes it wait as
often as its own work does: 100 us of the processor are 500 us of its time where it runs a fifth of
the time. So costs that are known as processor time are multiplied by this factor.

    >>> told = iter([(0, 0), (20_000_000, 60_000_000), (120_000_000, 60_000_000)])
    >>> crowding = Crowding(lambda: next(told))    # ran for 20 ms, and waited 60 for a processor
    >>> crowding(now=0), crowding(now=100_000_000), crowding(now=150_000_000)
    (1.0, 4.0, 4.0)
    >>> crowding(now=200_000_000)                  # since then it had one whenever it wanted
    1.0

Where the system does not tell (all but Linux) it is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["Crowding", "main_thread_times"]

_LOOK_NS: Final = 100_000_000
"""So often is looked: that takes some 20 us."""
_LEAST_NS: Final = 5_000_000
"""Of a thread that ran for less since is not known what it would have waited for."""
_MOST: Final = 50.0
_TIMES: Final = Path("/proc/self/schedstat")


def main_thread_times() -> tuple[int, int] | None:
    """How long the main thread ran, and waited for a processor, in nanoseconds; None: not known."""
    try:
        ran, waited, _ = _TIMES.read_bytes().split()
        return int(ran), int(waited)
    except (OSError, ValueError):
        return None


class Crowding:
    """Call it with the time it is, by the clock. Not for several threads at once."""

    def __init__(self, times: Callable[[], tuple[int, int] | None] = main_thread_times) -> None:
        """`times` gives how long a thread of the program ran and waited so far."""
        self._times = times
        self._factor = 1.0
        self._due: int | None = None
        self._last = (0, 0)

    def __call__(self, now: int) -> float:
        """How much longer things take, of late."""
        if self._due is None or now >= self._due:
            self._look(now)
        return self._factor

    def _look(self, now: int) -> None:
        found, first = self._times(), self._due is None
        self._due = now + _LOOK_NS
        if found is None:
            return
        ran, waited = found[0] - self._last[0], found[1] - self._last[1]
        if first:
            self._last = found
        elif ran >= _LEAST_NS:
            self._last = found
            self._factor = min(_MOST, 1 + max(0, waited) / ran)
