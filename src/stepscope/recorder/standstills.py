"""`Standstills`: when the process did not run, though it wanted to.

A run may take long because somebody stopped the process, or the machine had other things to do: no
op is to blame for that, though its time is longer. A thread that wants to wake up every few
milliseconds shows it: whatever it is late by, nothing of the process's Python ran.

    >>> late = lateness(woke_ns=75_000_000, due_ns=20_000_000)
    >>> late
    (20000000, 75000000)
    >>> lateness(woke_ns=21_000_000, due_ns=20_000_000) is None      # as late as any thread may be
    True

Guarantees: a standstill of more than `LEAST_NS` and the interval is found; what the thread takes of
the processor is known (`cost_ns`) and at most a twentieth of the budget, or so; of many standstills
the longest `MOST` are kept. A thread that computes in C without letting others run looks the same.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["LEAST_NS", "MOST", "Standstills", "interval_ns", "lateness"]

LEAST_NS: Final = 20_000_000
MOST: Final = 500
_TICK_NS: Final = 40_000
"""What waking up once costs the program, about: the interpreter changes threads twice."""
_OF_BUDGET: Final = 0.05
_SHORTEST_NS, _LONGEST_NS = 20_000_000, 250_000_000


def interval_ns(share: float) -> int:
    """How often the thread wakes up under a budget of that share of the time.

    >>> interval_ns(0.05), interval_ns(0.01)
    (20000000, 80000000)
    """
    return int(min(max(_TICK_NS / (_OF_BUDGET * share), _SHORTEST_NS), _LONGEST_NS))


def lateness(woke_ns: int, due_ns: int) -> tuple[int, int] | None:
    """From when to when nothing ran, for a thread that woke up then; None where it may be late."""
    return (due_ns, woke_ns) if woke_ns - due_ns >= LEAST_NS else None


class Standstills:
    """A thread that wakes up every few milliseconds, and notes where it was late.

    `found` and `cost_ns` may be read from any thread.
    """

    def __init__(
        self,
        share: float,
        clock: Callable[[], int] = time.perf_counter_ns,
        woke: Callable[[int], None] = lambda _now: None,
    ) -> None:
        """Begin to look; `close` ends it. `woke` is told each time, on the thread."""
        self.cost_ns = 0
        """What the thread took of the processor so far."""
        self.count = 0
        """How many standstills there were."""
        self._interval_ns = interval_ns(share)
        self._clock = clock
        self._woke = woke
        self._longest: list[tuple[int, int, int]] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._look, name="stepscope standstills", daemon=True
        )
        self._thread.start()

    def found(self) -> list[tuple[int, int]]:
        """When the longest began and ended, by the clock, in order."""
        return sorted((began, ended) for _, began, ended in list(self._longest))

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _look(self) -> None:
        clock, wait = self._clock, self._closed.wait
        while True:
            due = clock() + self._interval_ns
            if wait(self._interval_ns / 1e9):
                return
            now = clock()
            late = lateness(now, due)
            if late is not None:
                self.count += 1
                keep = heapq.heappush if len(self._longest) < MOST else heapq.heappushpop
                keep(self._longest, (late[1] - late[0], *late))
            self._woke(now)
            self.cost_ns = time.thread_time_ns()
