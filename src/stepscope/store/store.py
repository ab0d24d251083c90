"""`Store`: takes runs, and has a thread of its own that writes them.

Guarantees:

- `add` does nothing but put the run into a queue: nothing is decoded or written on the thread that
  calls. It waits only where `WAITING` runs are in the queue already, so that memory is bounded and
  no run is lost;
- a run survives the death of the process as soon as it is committed: when the queue before it is
  written, and at most `COMMIT_S` after. `flush` waits for all that was added before. Runs that
  outlive the process elsewhere until then are gathered while the program makes more of them: until
  it pauses for `PAUSE_S`, but at most until the place that keeps them is full, for `GATHER_S`;
- runs are numbered in the order in which they were added;
- a note of what the program did beside its runs is written at once;
- a run that cannot be decoded is left out, and a file that cannot be written ends writing; either
  way the program goes on, and `problem` says what happened first. What was committed stays;
- in a fork of the process a store takes nothing, and leaves the file to its parent.

All methods may be called from any thread.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakSet

from stepscope.metadata.stored.stored_run import RunEncoder, StoredRun
from stepscope.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.metadata import RunMetadata
    from stepscope.metadata.program_notes import Note
    from stepscope.metadata.stored.stored_run import SharedPart

__all__ = ["BREAK_S", "COMMIT_S", "GATHER_S", "PAUSE_S", "WAITING", "Store"]

GATHER_S: Final = 10.0
PAUSE_S: Final = 0.1
BREAK_S: Final = 1e-5
WAITING: Final = 64
"""So many runs wait to be written at most, beside those that are gathered."""
COMMIT_S: Final = 0.01
"""So long runs are added before they are committed, where more are waiting."""


class _Waiting(NamedTuple):
    metadata: RunMetadata
    what: str
    graph: SharedPart | None
    kept: float
    """Which share it takes of the place where it outlives the process; 0: it is not kept."""
    number: int


class _Work(NamedTuple):
    work: Callable[[Database], None]


class _Gathering(NamedTuple):
    """Since when runs have been gathered, and when the last one was first seen, by its number."""

    since: float
    last: float
    added: int


class Store:
    """One recording of this process, in a new file in `directory`.

    >>> import tempfile, stepscope
    >>> from stepscope.metadata import RunMetadata
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder)) as store:
    ...         store.add(RunMetadata(), "train_step")
    ...     len(stepscope.load(store.path))
    1
    """

    def __init__(
        self, directory: Path, committed: Callable[[Sequence[StoredRun]], None] | None = None
    ) -> None:
        """Make the file; `OSError` where that fails.

        `committed` is called with the runs of each commit, on the store's thread.
        """
        self._committed = committed
        self.problem: str | None = None
        """What went wrong first, in words."""
        self.stored = 0
        """How many runs are committed."""
        self.used_bytes = 0
        """What the content of the file took at the last commit."""
        self.busy_ns = 0
        """How long the store's thread computed so far: Python that the program's threads waited
        for, as far as they wanted to run any. Waking up and telling of commits are part of it."""
        self.waited_ns = 0
        """How long threads that added runs waited for room."""
        self._directory = directory.absolute()
        self._queue: deque[_Waiting | _Work] = deque()
        self._notes: deque[Note] = deque()
        self._unwanted: set[int] = set()
        """The numbers of runs that are to be removed, and may still be in the queue."""
        self._changed = threading.Condition()
        self._added = 0
        self._done = 0
        self._taken = 0
        self._due = 0
        """Of all that was added, how much was taken from the queue, and how much is to be at once:
        what comes after that waits for more."""
        self._kept = 0.0
        self._unkept = 0
        """Of the runs in the queue, all ops that are kept, and how many runs are not."""
        self._gathering: _Gathering | None = None
        self._flushing = 0
        """How many wait for what they added."""
        self._closing = False
        self._process = os.getpid()
        self._opened = self._closed = False
        self._failed: OSError | None = None
        # Exit handlers wait for it, the interpreter does not.
        self._thread = threading.Thread(target=self._write, name="stepscope store", daemon=True)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._opened or self._failed is not None)
        if self._failed is not None:
            raise self._failed
        _open_stores.add(self)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self,
        metadata: RunMetadata,
        what: str = "",
        graph: SharedPart | None = None,
        *,
        kept: float = 0,
        number: int = 0,
    ) -> None:
        """Take the run that is in `metadata` now; `what` ran, and `graph` is its user's graph.

        One of which so many ops outlive the process elsewhere may wait for others. `number` is its
        own, of which there is no other; without, it is one more than the last.
        """
        if self._elsewhere:
            return
        run = _Waiting(metadata.held_now(), what, graph, kept, number)
        with self._changed:
            if self._is_full() and not self.over:
                began = time.perf_counter_ns()
                self._changed.wait_for(lambda: not self._is_full() or self.over)
                self.waited_ns += time.perf_counter_ns() - began
            if self.over:
                return
            self._queue.append(run)
            self._added += 1
            self._kept += kept
            self._unkept += not kept
            if not kept or self._kept >= 1:
                self._due = self._added
            if self._is_urgent() or len(self._queue) == 1:
                self._changed.notify_all()

    def do(self, work: Callable[[Database], None]) -> None:
        """Have the store's thread do something, after what was added before, before its commit.

        It is not waited for, and waits itself until there is something to commit or the program
        pauses.
        """
        if self._elsewhere:
            return
        with self._changed:
            if not self.over:
                self._queue.append(_Work(work))
                self._added += 1
                if len(self._queue) == 1:
                    self._changed.notify_all()

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove runs by their numbers; those that wait to be written are not written."""
        with self._changed:
            self._unwanted.update(numbers)

        def work(database: Database) -> None:
            database.remove(numbers)
            self._unwanted.difference_update(numbers)

        self.do(work)

    def note(self, note: Note) -> None:
        """Take a note of what the program did beside its runs. It is never waited for."""
        if self._elsewhere:
            return
        with self._changed:
            if not self.over:
                self._notes.append(note)
                self._changed.notify_all()

    def _is_urgent(self) -> bool:
        return self._taken < self._due or bool(self._notes)

    @property
    def _hurries(self) -> bool:
        """Whether somebody waits for runs to be written."""
        return bool(self._flushing) or self._closing

    def _is_full(self) -> bool:
        return self._unkept >= WAITING or self._kept >= 2

    def flush(self) -> None:
        """Wait until every run that was added before is committed, or cannot be."""
        if self._elsewhere:
            return
        with self._changed:
            until = self._due = self._added
            self._flushing += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= until or self._closed)
            self._flushing -= 1

    def close(self) -> None:
        """Write what is waiting, and fold the store into one file. Later runs are not taken."""
        if self._elsewhere:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            # Not by joining the thread: a signal's handler may call this in the midst of `add`, and
            # waiting for a condition lets go of its lock however often it was taken.
            self._changed.wait_for(lambda: self._closed)
        self._thread.join()
        _open_stores.discard(self)

    @property
    def closed(self) -> bool:
        """Whether it is whole, in one file."""
        return self._closed

    @property
    def over(self) -> bool:
        """Whether no further run is taken: it was closed, or cannot be written."""
        return self._closing or self._failed is not None

    @property
    def _elsewhere(self) -> bool:
        """Whether this is a fork: the thread is not there, and locks may be held for ever."""
        return os.getpid() != self._process

    # -- the thread ----------------------------------------------------------------------------

    def _write(self) -> None:
        """Make the file, write runs, close it.

        The database is known to this function alone: in a fork the thread is gone and its frame
        is never left, so that nothing there closes the file under the parent.
        """
        try:
            database = Database(self._directory)
        except (OSError, sqlite3.Error) as error:
            with self._changed:
                self._failed = _as_os_error(error, self._directory)
                self._changed.notify_all()
            return
        with self._changed:
            self.path = database.path
            self._opened = True
            self._changed.notify_all()
        try:
            self._write_runs(database)
        finally:
            with suppress(Exception):
                database.close()
            with self._changed:
                self._done = self._added
                self._closed = True
                self._changed.notify_all()

    def _write_runs(self, database: Database) -> None:
        encoder, began = RunEncoder(), time.thread_time_ns()
        while self._wait_for_runs():
            before = database.runs
            try:
                taken = self._write_some(database, encoder)
            except Exception as error:  # noqa: BLE001 - whoever waits must learn of it
                database.undo(before)
                self._stop(error)
                break
            self.busy_ns = time.thread_time_ns() - began
            with self._changed:
                self.stored = database.runs
                self._done += len(taken)
                self._changed.notify_all()
            if taken and self._committed is not None:
                self._committed([run for run in taken if run is not None])
                self.busy_ns = time.thread_time_ns() - began

    def _wait_for_runs(self) -> bool:
        """Whether there are runs or notes to write; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._notes or self._closing)
            self._due_if_paused()
            while self._queue and not (self._is_urgent() or self._closing):
                self._changed.wait(PAUSE_S)
                self._due_if_paused()
            if self._closing:
                self._due = self._added
            return bool(self._queue or self._notes)

    def _due_if_paused(self) -> None:
        """What was gathered is due where the program made no more for long enough."""
        now = time.monotonic()
        if not self._queue or self._taken < self._due:
            self._gathering = None
        elif self._gathering is None:
            self._gathering = _Gathering(now, now, self._added)
        elif self._gathering.added != self._added:
            self._gathering = _Gathering(self._gathering.since, now, self._added)
        since = self._gathering
        if since is not None and (now >= since.last + PAUSE_S or now >= since.since + GATHER_S):
            self._due, self._gathering = self._added, None

    def _write_some(self, database: Database, encoder: RunEncoder) -> list[StoredRun | None]:
        """Write and commit what is due of the queue, for as long as a commit may wait."""
        until = time.monotonic() + COMMIT_S
        taken: list[StoredRun | None] = []
        database.begin()
        while self._notes:
            database.add_note(self._notes.popleft())
        while True:
            with self._changed:
                if not self._queue or self._taken >= self._due:
                    break
                full = self._is_full()
                run = self._queue.popleft()
                self._taken += 1
                if isinstance(run, _Waiting):
                    self._kept -= run.kept
                    self._unkept -= not run.kept
                if full:
                    self._changed.notify_all()
            if isinstance(run, _Work):
                run.work(database)
                taken.append(None)
                continue
            if run.number and run.number in self._unwanted:
                taken.append(StoredRun(engine=run.metadata.engine, step_id=run.metadata.step_id))
                continue
            try:
                encoded = encoder.encode(run.metadata, run.what, run.graph)
            except Exception as error:  # noqa: BLE001 - whatever it is, others can be written
                self._note(f"a run could not be stored: {type(error).__name__}: {error}")
                taken.append(None)
            else:
                encoded.number = run.number
                database.add(encoded)
                taken.append(replace(encoded, parts={}, columns={}))
            # Not kept alive while this waits for the next one.
            del run
            if time.monotonic() > until:
                break
            if not (full or self._hurries):
                time.sleep(BREAK_S)
        database.commit()
        self.used_bytes = database.used_bytes
        return taken

    def _stop(self, error: Exception) -> None:
        reason = _as_os_error(error, self._directory)
        self._note(f"{self.path} could not be written: {reason.strerror or reason}")
        with self._changed:
            self._failed = reason
            self._queue.clear()
            self._changed.notify_all()

    def _note(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem


def _as_os_error(error: Exception, directory: Path) -> OSError:
    if isinstance(error, OSError):
        return error
    return OSError(0, str(error), str(directory))


_open_stores: WeakSet[Store] = WeakSet()


def _close_all() -> None:
    for store in list(_open_stores):
        with suppress(Exception):
            store.close()


atexit.register(_close_all)
