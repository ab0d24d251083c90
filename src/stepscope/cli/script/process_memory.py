"""How much memory the recorded process had over its runs, noted for `stepscope memory --growth`.

Looked at as runs end, at most every `_EVERY_NS`; a look takes some 2 us. Where the system does not
tell it cheaply nothing is noted. What is noted (`stepscope.metadata.program_notes`, kind "memory"):
`moments`, `runs` (how many had been recorded by then) and `resident` bytes, as columns.
"""

from __future__ import annotations

import os
import time
from typing import Final

from stepscope.metadata.program_notes import MEMORY, Note

__all__ = ["ProcessMemory"]

_EVERY_NS: Final = 5_000_000
_MOST: Final = 400
"""So many looks are kept; beyond, every second one goes."""


class ProcessMemory:
    """Notes how much memory the process has as runs end. Not for several threads at once."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._due_ns = 0
        self._every_ns = _EVERY_NS
        self._looks: list[tuple[int, int, int]] = []

    def look(self, runs: int) -> None:
        """So many runs were recorded by now."""
        now = time.time_ns()
        if now < self._due_ns or self._file < 0:
            return
        self._due_ns = now + self._every_ns
        try:
            resident = int(os.pread(self._file, 128, 0).split()[1]) * self._page
        except (OSError, ValueError, IndexError):
            return
        self._looks.append((now, runs, resident))
        if len(self._looks) > _MOST:
            del self._looks[1::2]
            self._every_ns *= 2

    def note(self) -> Note:
        """What was seen."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        moments, runs, resident = ([look[part] for look in self._looks] for part in range(3))
        first, last = (moments[0], moments[-1]) if moments else (time.time_ns(), 0)
        details = {"moments": moments, "runs": runs, "resident": resident}
        return Note(MEMORY, first, last, what="resident", details=details)
