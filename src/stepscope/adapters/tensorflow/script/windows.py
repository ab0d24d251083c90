"""The profiler for a whole script: many runs under one recording, handed over when it is read.

A script does not wait for its metadata, so its runs need not be read one by one. They are marked in
one *window* of the profiler, which is read when it has been open for a while, when the next step is
not to be recorded, when somebody else needs the profiler, and at the end.

Guarantees.
- Nobody waits for another thread's run: a run that is blocked (a full queue, say) holds up nothing.
- A run that is still going when its window is read says in its completeness that it was cut.
- While the profiler is lent to somebody (`lend`), no window is open and `open_run` gives None.
- Runs are handed over in the order in which they ended, by one thread at a time; signals are held
  meanwhile.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.capture import Nodes, clock
from stepscope.adapters.tensorflow.capture.events import NO_NODES, Profile, Row
from stepscope.adapters.tensorflow.capture.graphs import functions
from stepscope.adapters.tensorflow.capture.profiled_capture import ProfiledCapture
from stepscope.adapters.tensorflow.capture.profiler import ProfiledBatch, SharedProfiler
from stepscope.held_signals import held_signals
from stepscope.metadata import Loss

_READ_AFTER_NS: Final = 500_000_000
"""How long a window stays open while runs come one after the other."""
_CUT_AFTER_NS: Final = 2_000_000_000
"""How long it stays open if there is always a run under way."""
_CUT: Final = Loss(
    "op executions", 0, "the run was still going when the profiler was read for other threads' runs"
)

Deliver = Callable[[], None]


class Windows:
    """Opens, marks and reads the windows of the profiler in which a script's runs are."""

    def __init__(self, profiler: SharedProfiler) -> None:
        """`profiler` is theirs from now on: runs that the script itself records borrow it."""
        self._profiler = profiler
        profiler.borrow_from(self)
        self._state = threading.RLock()
        self._deliveries = threading.RLock()
        self._window: ProfiledBatch | None = None
        self._opened = 0
        self._pending: list[Deliver] = []
        self._lent = 0
        self._always_open = False
        self.problems: list[str] = []

    def note_problem(self, error: Exception) -> None:
        """Recording went wrong: said at the end, once per kind."""
        text = f"a run could not be recorded: {type(error).__name__}: {error}"
        if text not in self.problems:
            self.problems.append(text)

    @property
    def pending(self) -> int:
        """How many runs wait to be handed over."""
        return len(self._pending)

    @property
    def open_for_ns(self) -> int:
        """How long the window that is open now, if one is, has been so at least."""
        return clock() - self._opened

    def keep_open(self) -> None:
        """Record from now on also between runs, for what is allocated there."""
        with self._state:
            self._always_open = True
            self._reopen()

    def close(self) -> None:
        """Record no more, and hand over the runs that ended."""
        with self._state:
            self._always_open = False
        self.read()

    def _reopen(self) -> None:
        if self._always_open and self._window is None and not self._lent:
            self._window = self._profiler.start()
            self._opened = clock()

    def open_run(self) -> ProfiledBatch | None:
        """A run begins; None where the profiler is somebody else's."""
        with self._state:
            if self._lent:
                return None
            if self._window is None:
                self._window = self._profiler.start()
                self._opened = clock()
            if self._window is not None:
                self._window.running += 1
            return self._window

    def close_run(self, batch: ProfiledBatch, deliver: Deliver) -> bool:
        """A run ended: it is handed over when its window is read. False if it was cut."""
        with self._state:
            batch.running -= 1
            self._pending.append(deliver)
            return batch is self._window

    def read_if_due(self, *, idle_only: bool = False) -> None:
        """Read the window if it has been open for long; with `idle_only`, if no run is in it."""
        if self._window is None and not self._pending:
            return
        with self._state:
            if self._window is None and not self._pending:
                return
            idle = self._window is None or self._window.running == 0
            age = clock() - self._opened
            due = idle if idle_only else age > (_READ_AFTER_NS if idle else _CUT_AFTER_NS)
        if due:
            self.read()

    def read(self) -> None:
        """Read the window, whatever is under way in it, and hand over the runs that ended."""
        with held_signals, self._deliveries:
            began = clock()
            with self._state:
                window, self._window = self._window, None
                pending, self._pending = self._pending, []
                if window is not None:
                    self._profiler.stop(window)
                    window.done.set()
                self._reopen()
            if pending:
                functions.flush()
            if pending and window is not None:
                try:
                    window.decoded(Profile)
                except Exception as error:  # noqa: BLE001 - the script goes on
                    self.note_problem(error)
                window.share_ns = (clock() - began) // len(pending)
            for deliver in pending:
                self.hand_over(deliver)

    def hand_over(self, deliver: Deliver) -> None:
        """Hand over a run that ended, which needs no window to be read."""
        with held_signals, self._deliveries:
            try:
                deliver()
            except Exception as error:  # noqa: BLE001 - the script goes on
                self.note_problem(error)

    def lend(self) -> None:
        """Somebody else wants the profiler: it is free when this returns, until `give_back`."""
        with self._state:
            self._lent += 1
        self.read()

    def give_back(self) -> None:
        """The other one is done with it."""
        with self._state:
            self._lent -= 1
            self._reopen()

    def after_fork(self) -> None:
        """In a child process: nothing that was recorded is ours to read."""
        self._state = threading.RLock()
        self._deliveries = threading.RLock()
        self._window = None
        self._pending = []
        self._lent = 1


class WindowCapture(ProfiledCapture):
    """A run, or a stretch of eager code, inside a window. Leaving does not wait for its data."""

    def __init__(self, level: int, windows: Windows) -> None:
        super().__init__(level)
        self._windows = windows
        self._rows: tuple[Nodes, list[Row]] | None = None
        self.on_ended: Deliver = lambda: None
        """Called when the data are there."""
        self._handed_over_from = 0

    def __enter__(self) -> WindowCapture:
        self._begin()
        self.batch = self._windows.open_run() if self.level else None
        if self.batch is not None:
            self._span = versions.trace_me(self.mark)
            self._span.__enter__()
        self.started = clock()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.ended = clock()
        if self._span is not None:
            self._span.__exit__(None, None, None)
        batch = self.batch
        if batch is not None and not self._windows.close_run(batch, self._deliver):
            self.losses.append(_CUT)
        self.left = clock()

    def waited_ns(self) -> int:
        """Before and after the run, its share of reading the window, and handing it over."""
        around = (self.started - self.asked) + (self.left - self.ended)
        share = self.batch.share_ns if self.batch is not None else 0
        # Decoded and written it is later, by a thread that the script does not wait for.
        return around + share + (self.over_at or clock()) - self._handed_over_from

    def _deliver(self) -> None:
        self._handed_over_from = clock()
        if self.batch is not None:
            self._note_problems(self.batch)
        self.on_ended()
        self.over()

    def rows(self, nodes: Nodes = NO_NODES) -> list[Row]:
        """What the run executed, and what input pipelines did meanwhile, in order of time."""
        known = self._rows
        if known is None or (nodes is not NO_NODES and nodes is not known[0]):
            known = self._rows = nodes, self._find_rows(nodes)
        return known[1]

    def _find_rows(self, nodes: Nodes) -> list[Row]:
        profile = self.profile()
        marked = profile.of_run(self.mark)
        rows = self._called_rows()
        if marked is None:
            return rows
        rows += [*self.eager_rows(marked), *profile.rows_of(marked.steps, nodes), *marked.spans]
        rows += _others(profile).between(self.mark, marked.start_ns, marked.end_ns)
        not_its = set() if self.failed else profile.unmarked_in(marked.steps)
        rows = [row for row in rows if row not in not_its]
        rows.sort(key=lambda row: (row.start_ns, row.end_ns))
        return rows


class _Others:
    """The executions of a window that no run started, for the run in whose time they were."""

    def __init__(self, profile: Profile) -> None:
        claimed = {step for marked in profile.marked.values() for step in marked.steps}
        rows = [*profile.rows_of(list(profile.pipelines(claimed))), *profile.device_rows]
        self._rows = sorted(rows, key=lambda row: row.start_ns)
        self._starts = [row.start_ns for row in self._rows]
        self._marks = sorted((m.start_ns, m.end_ns, mark) for mark, m in profile.marked.items())

    def between(self, mark: str, start: int, end: int) -> list[Row]:
        """The rows that began in that time; where runs overlapped, the first of them has them."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        if first == last:
            return []
        before = [(s, e) for s, e, other in self._marks if s < start < e and other != mark]
        return [
            row
            for row in self._rows[first:last]
            if not any(s <= row.start_ns < e for s, e in before)
        ]


def _others(profile: Profile) -> _Others:
    found: Any = getattr(profile, "_stepscope_others", None)
    if found is None:
        found = _Others(profile)
        profile._stepscope_others = found  # type: ignore[attr-defined]
    return found  # type: ignore[no-any-return]
