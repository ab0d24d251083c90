"""What recording costs in this process, which `metadata.overhead` is worked out from."""

from __future__ import annotations

import ctypes
import math
import statistics
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

clock = time.perf_counter_ns


@dataclass(frozen=True, slots=True)
class RecordingCosts:
    """What recording one step costs, measured in this process."""

    mark_ns: float
    live_mark_ns: float
    """As the one before, into memory that outlives the process."""
    event_ns: float


class _Added:
    """What a statement adds after a small op, where it really stands."""

    def __init__(self, statement: str, repeats: int = 100, *, live: bool = False) -> None:
        op = "op(a, b, c)"
        traced = "\n".join(f"    {op}; {statement.format(i=i)}" for i in range(repeats))
        plain = "\n".join([f"    {op}"] * repeats)
        signature = "(op, a, b, c, clock, marks, append)"
        made: dict[str, Any] = {}
        exec(f"def f{signature}:\n{traced}\ndef g{signature}:\n{plain}\n", {}, made)
        self._traced, self._plain, self._repeats = made["f"], made["g"], repeats
        self._live = live
        self.ns = math.inf

    def measure(self, rounds: int) -> None:
        """Run both in turns; of several measurements the lowest counts: other work only adds."""
        a, b, c = (np.ones(4, np.float32) for _ in range(3))
        marks: Any = (ctypes.c_int64 * self._repeats)() if self._live else [0] * self._repeats
        added = []
        for _ in range(rounds):
            arguments: tuple[Any, ...] = (np.add, a, b, c, clock, marks, [].append)
            t0 = clock()
            self._traced(*arguments)
            t1 = clock()
            self._plain(*arguments)
            added.append((t1 - t0) - (clock() - t1))
        self.ns = min(self.ns, max(0.0, statistics.median(added) / self._repeats))


class _Costs:
    """Measured in this process, by running the very statements the executors run.

    A machine may be slow for longer than one measurement takes, so the first looks after the first
    one measure a little more.
    """

    _FIRST_ROUNDS, _MORE_ROUNDS, _LOOKS = 25, 9, 6
    _APART_NS = 50_000_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: tuple[_Added, _Added, _Added] | None = None
        self._looks = 0
        self._next = 0

    def __call__(self) -> RecordingCosts:
        with self._lock:
            if self._parts is None:
                self._parts = (
                    _Added("marks[{i}] = clock()"),
                    _Added("marks[{i}] = clock()", live=True),
                    _Added("x = clock(); y = clock(); append(({i}, x, x, y, 7))"),
                )
            if self._looks < self._LOOKS and clock() >= self._next:
                rounds = self._MORE_ROUNDS if self._looks else self._FIRST_ROUNDS
                for part in self._parts:
                    part.measure(rounds)
                self._looks += 1
                self._next = clock() + self._APART_NS
            mark, live, event = self._parts
            return RecordingCosts(mark.ns, live.ns, event.ns)


recording_costs: Final = _Costs()
"""What recording costs here, for `metadata.overhead`."""
