"""The course of a recorded program, noted in its store: when it began and ended, what we cost it.

As it comes to it: that the process and the script began is there after any death.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.script.import_times import LONG_NS
from stepscope.metadata.program_notes import (
    COST,
    EXPORTING,
    IMPORT,
    PROCESS,
    RECORDING,
    SCRIPT,
    Note,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepscope.cli.script.earlier_imports import Load
    from stepscope.cli.script.engines import ScriptEngine
    from stepscope.cli.script.recorded_runs import RecordedRuns

__all__ = ["ProgramCourse"]


class ProgramCourse:
    """To be told how far the program is, by its main thread."""

    def __init__(
        self, runs: RecordedRuns, engine: ScriptEngine, script: str, began: int, *, forked: bool
    ) -> None:
        """The engine is about to be loaded; `began` is when the command did, by the clock.

        `forked` is whether the process that was started is the one that stands outside.
        """
        self._runs = runs
        self._engine = engine
        self._script = script
        self._thread = threading.get_native_id()
        now = time.time_ns()
        loading_ns = now - (time.perf_counter_ns() - began)
        self._process_ns = _started_ns(os.getppid() if forked else os.getpid()) or loading_ns
        self._ready_ns = now
        self._script_ns = 0
        self._over_ns = 0
        self._note(PROCESS, self._process_ns)
        self._note(RECORDING, max(loading_ns, self._process_ns), now, "starting")
        runs.note_at_the_end(self._costs)

    def begins(self, no_more_imports: Callable[[], None]) -> None:
        """The engine is loaded, and the script is about to begin.

        Its imports are noted until `no_more_imports` is called.
        """
        self._no_more_imports = no_more_imports
        self._script_ns = time.time_ns()
        needed = self._engine.needed
        what = "stepscope" if needed else "loading the recorder"
        self._note(IMPORT if needed else RECORDING, self._ready_ns, self._script_ns, what)
        self._note(SCRIPT, self._script_ns)

    def shared(self, loads: Iterable[Load]) -> None:
        """The script imports as well what was loaded before it began: that is no cost of ours."""
        for load in loads:
            if load.took_ns >= LONG_NS:
                self._note(IMPORT, load.started_ns, load.ended_ns, load.name)

    def ended(self) -> None:
        """The script's main module came to its end; others of its threads may go on."""
        self._note(SCRIPT, self._script_ns, time.time_ns())

    def report_begins(self) -> None:
        """All that the script did is done."""
        self._over_ns = time.time_ns()
        self._no_more_imports()

    def exported(self, spent_ns: int) -> None:
        """Files that were asked for besides are written, which took so long until now."""
        now = time.time_ns()
        if spent_ns:
            self._note(EXPORTING, now - spent_ns, now, "files")

    def reported(self, cost_ns: int) -> None:
        """The report is made; `cost_ns` is what it says that recording cost. The store is whole."""
        if not self._runs.runs:
            return
        now = time.time_ns()
        self._note(RECORDING, self._over_ns, now, "writing and reporting")
        self._runs.note(self._costs(cost_ns))
        self._note(PROCESS, self._process_ns, now)

    def _costs(self, total_ns: int = 0) -> Note:
        details = self._engine.costs(self._runs)
        if total_ns:
            details["total_ns"] = total_ns
        return Note(COST, self._process_ns, time.time_ns(), self._thread, details=details)

    def _note(self, kind: str, started: int, ended: int = 0, what: str = "") -> None:
        details = {"process": os.getpid()} if kind == PROCESS else {}
        shown = what or self._script
        self._runs.note(Note(kind, started, ended, self._thread, shown, details=details))


def _started_ns(process: int) -> int:
    """When a process was started, to some 10 ms; 0 where the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
        ticks = int(text.rpartition(")")[2].split()[19])
        age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 10**9 // os.sysconf(
            "SC_CLK_TCK"
        )
    except (OSError, ValueError, IndexError, AttributeError):
        return 0
    return time.time_ns() - max(0, age_ns)
