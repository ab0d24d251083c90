"""Which feeds of a program never change, found out while it runs at next to no cost.

A feed counts as the same if it is the same array as before with the same content, or a small one
of equal content. Content is compared by a few hundred elements, evenly spread, in the first runs
and then in each sixteenth, as these elements have to be fetched from memory; a feed that was seen
to change is not looked at again. What is smaller than a kilobyte is left alone.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from stepscope.metadata.program_notes import FEEDS, Note

__all__ = ["FedValues"]

_SMALLEST: Final = 1024
_LOOKED_AT: Final = 256
_MOST: Final = 1000
_ALL_OF_FIRST: Final = 16
_EVERY: Final = 16


class FedValues:
    """Counts how often each tensor was fed, and how often with the same as before.

    Threads may add at the same time.

    >>> import numpy as np
    >>> fed, table = FedValues(), np.ones((64, 64))
    >>> for step in range(3):
    ...     fed.add([("table:0", table), ("x:0", table + step)])
    >>> fed.note().details["feeds"]
    {'table:0': [3, 2, 32768], 'x:0': [3, 0, 32768]}
    """

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._last: dict[str, tuple[int, int] | None] = {}
        self._not_looked_at: dict[str, int] = {}
        """How often it was fed since its content was looked at."""
        self._lock = threading.Lock()

    def add(self, fed: Iterable[tuple[str, Any]]) -> None:
        """Take in what a run was fed, by the names of the tensors."""
        for name, value in fed:
            if not isinstance(value, np.ndarray) or value.nbytes < _SMALLEST or value.dtype == "O":
                continue
            with self._lock:
                self._count(name, value)

    def _count(self, name: str, value: np.ndarray[Any, Any]) -> None:
        counts = self._counts.get(name)
        if counts is None:
            if len(self._counts) < _MOST:
                self._counts[name] = [1, 0, value.nbytes]
                self._last[name] = _print_of(value)
            return
        counts[0] += 1
        last = self._last[name]
        if last is None:
            return
        if last[0] and id(value) != last[0]:
            self._last[name] = None
        elif counts[0] > _ALL_OF_FIRST and counts[0] % _EVERY:
            self._not_looked_at[name] = self._not_looked_at.get(name, 0) + 1
        elif _print_of(value) == last:
            counts[1] += 1 + self._not_looked_at.pop(name, 0)
        else:
            self._last[name] = None

    def note(self) -> Note:
        """What was fed so far, as a note of the program."""
        with self._lock:
            counts = {name: list(found) for name, found in self._counts.items()}
            for name, since in self._not_looked_at.items():
                counts[name][1] += since if self._last[name] is not None else 0
        return Note(FEEDS, time.time_ns(), details={"feeds": counts})


def _print_of(value: np.ndarray[Any, Any]) -> tuple[int, int]:
    """What tells an array from another; of a large one also which object it is."""
    every = max(1, value.size // _LOOKED_AT)
    some = np.ascontiguousarray(
        value.reshape(-1)[::every] if value.flags.c_contiguous else value.flat[::every]
    )
    which = id(value) if every > 1 else 0
    return which, zlib.crc32(some.tobytes())
