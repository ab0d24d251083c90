"""What recording costs a script: all the time in which it waits for us.

Every way into the recorder is entered under `ours`, and what it calls of the script's own, the runs
themselves, under `theirs`. What runs are slowed down by inside is added as it is estimated. Threads
count each for itself: two that wait at once wait twice as long together.

    >>> cost = ScriptCost()
    >>> with cost.ours():
    ...     with cost.theirs():
    ...         pass  # the script's own run
    >>> cost.add(1_000)
    >>> cost.ns >= 1_000
    True
"""

from __future__ import annotations

import threading
import time
from typing import Final

_clock = time.perf_counter_ns


class _Here(threading.local):
    since = 0
    """Since when this thread is in our code; 0 where it is not."""


class ScriptCost:
    """Adds up what a script waits for because it is recorded.

    May be used by any number of threads.
    """

    def __init__(self) -> None:
        self.ns = 0
        """What it came to so far."""
        self.main_ns = 0
        """What of it the main thread waited for."""
        self.inside_ns = 0
        """What of that was inside of runs, by which they were slowed down."""
        self._main: Final = threading.main_thread().ident
        self.here: Final = _Here()
        self._lock = threading.Lock()

    def add(self, ns: int, *, inside: bool = False) -> None:
        """That much more, `inside` of a run or around it."""
        main = threading.get_ident() == self._main
        with self._lock:
            self.ns += ns
            if main:
                self.main_ns += ns
                self.inside_ns += ns if inside else 0

    def ours(self) -> _Ours:
        """While inside, the thread waits for us. Inside another `ours` it changes nothing."""
        return _Ours(self)

    def theirs(self) -> _Theirs:
        """While inside, an `ours` around it does not count."""
        return _Theirs(self)


class _Ours:
    __slots__ = ("_cost", "_outermost")

    def __init__(self, cost: ScriptCost) -> None:
        self._cost = cost

    def __enter__(self) -> None:
        here = self._cost.here
        self._outermost = not here.since
        if self._outermost:
            here.since = _clock()

    def __exit__(self, *_exc: object) -> None:
        here = self._cost.here
        if self._outermost and here.since:
            self._cost.add(_clock() - here.since)
            here.since = 0


class _Theirs:
    __slots__ = ("_cost", "_counting")

    def __init__(self, cost: ScriptCost) -> None:
        self._cost = cost

    def __enter__(self) -> None:
        here = self._cost.here
        self._counting = bool(here.since)
        if self._counting:
            self._cost.add(_clock() - here.since)
            here.since = 0

    def __exit__(self, *_exc: object) -> None:
        if self._counting:
            self._cost.here.since = _clock()
